//! Dunlin: a worker a CPU, no saved copies, no admin socket. As a forwarder: a cache that holds all
//! that is asked.

use std::net::SocketAddr;

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
    has_program: false,
    config,
    forward: Some(forward),
    words: |_, config| vec!["serve".into(), "-c".into(), config.into()],
    environment: |_| Vec::new(),
    version: &["--version"],
};

pub(super) const XDP: ServerKind = ServerKind {
    name: "dunlin-xdp",
    remark: "by AF_XDP",
    model: Model::AfXdp,
    has_program: true,
    config: |setup| {
        let text = config(setup)?.replacen("[server]\n", "[server]\nport = \"xdp\"\n", 1);
        Ok(format!("{text}[xdp]\ninterface = \"{}\"\n", setup.interface()?))
    },
    forward: None,
    ..KIND
};

pub(super) const WITH_ZONE: ServerKind =
    ServerKind { name: "dunlin-zone", remark: "it serves the zone itself", forward: None, ..KIND };

fn config(setup: &ServerSetup) -> Result<String> {
    let ServerSetup { address, zone, .. } = setup;
    let (workers, name, file) = (setup.threads(), &zone.name, &zone.file);
    Ok(format!(
        "[server]\nlisten = [\"{address}\"]\nworkers = {workers}\ndata_dir = \"\"\n\
         drain = \"0s\"\n[admin]\nsocket = \"\"\n[[zone]]\nname = \"{name}\"\nfile = {file:?}\n"
    ))
}

fn forward(setup: &ServerSetup, upstream: SocketAddr) -> String {
    let (address, workers) = (setup.address, setup.threads());
    format!(
        "[server]\nlisten = [\"{address}\"]\nworkers = {workers}\ndata_dir = \"\"\ndrain = \"0s\"\n\
         [admin]\nsocket = \"\"\n[acl]\nrecursion = [\"any\"]\n\
         [forward]\n\".\" = {{ servers = [\"{upstream}\"] }}\n[cache]\nmemory = \"512MiB\"\n"
    )
}
