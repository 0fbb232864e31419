//! Dunlin: a worker a CPU, no saved copies, no admin socket.

use lab_echo::Model;

use super::{ServerKind, ServerSetup};
use crate::Result;

pub(super) const KIND: ServerKind = ServerKind {
    name: "dunlin",
    program: "dunlin",
    package: "`cargo build --release --package dunlin`",
    remark: "",
    model: Model::Worker,
    threaded: true,
    config,
    words: |_, config| vec!["serve".into(), "-c".into(), config.into()],
    environment: |_| Vec::new(),
    version: &["--version"],
};

fn config(setup: &ServerSetup) -> Result<String> {
    let ServerSetup { address, zone, .. } = setup;
    let (workers, name, file) = (setup.threads(), &zone.name, &zone.file);
    Ok(format!(
        "[server]\nlisten = [\"{address}\"]\nworkers = {workers}\ndata_dir = \"\"\n\
         drain = \"0s\"\n[admin]\nsocket = \"\"\n[[zone]]\nname = \"{name}\"\nfile = {file:?}\n"
    ))
}
