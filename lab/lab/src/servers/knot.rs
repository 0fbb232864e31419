//! Knot DNS: a UDP worker a CPU (each has a socket of its own), no journal, zone file never
//! written.

use lab_echo::Model;

use super::{ServerKind, ServerSetup};
use crate::Result;

pub(super) const KIND: ServerKind = ServerKind {
    name: "knot",
    program: "knotd",
    package: "`apt install knot`",
    remark: "",
    model: Model::Recvmmsg,
    threaded: true,
    has_program: false,
    config,
    forward: None,
    words: |_, config| vec!["-c".into(), config.into()],
    environment: |_| Vec::new(),
    version: &["-V"],
};

pub(super) const XDP: ServerKind = ServerKind {
    name: "knot-xdp",
    remark: "by AF_XDP",
    model: Model::AfXdp,
    has_program: true,
    config: |setup| {
        let (text, port) = (config(setup)?, setup.address.port());
        Ok(format!("{text}xdp:\n  listen: {}@{port}\n", setup.interface()?))
    },
    ..KIND
};

fn config(setup: &ServerSetup) -> Result<String> {
    let ServerSetup { address, zone, folder, .. } = setup;
    let (ip, port, workers) = (address.ip(), address.port(), setup.threads());
    Ok(format!(
        "server:\n  rundir: {folder:?}\n  listen: {ip}@{port}\n  udp-workers: {workers}\n  \
         tcp-workers: 1\n  background-workers: 1\ndatabase:\n  storage: {folder:?}\n\
         log:\n  - target: stderr\n    any: warning\n\
         zone:\n  - domain: {}\n    file: {:?}\n    journal-content: none\n    \
         zonefile-sync: -1\n",
        zone.name, zone.file
    ))
}
