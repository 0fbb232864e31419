//! Dunlin: a worker a CPU, no saved copies, no admin socket.

use lab_echo::Model;

use super::{Kind, Site};
use crate::Result;

pub(super) const KIND: Kind = Kind {
    name: "dunlin",
    program: "dunlin",
    package: "`cargo build --release --package dunlin`",
    remark: "",
    model: Model::Worker,
    threaded: true,
    config,
    words: |config| vec!["serve".into(), "-c".into(), config.into()],
    environment: |_| Vec::new(),
    version: &["--version"],
};

fn config(site: &Site) -> Result<String> {
    let Site { address, zone, .. } = site;
    let (workers, name, file) = (site.threads(), &zone.name, &zone.file);
    Ok(format!(
        "[server]\nlisten = [\"{address}\"]\nworkers = {workers}\ndata_dir = \"\"\n\
         drain = \"0s\"\n[admin]\nsocket = \"\"\n[[zone]]\nname = \"{name}\"\nfile = {file:?}\n"
    ))
}
