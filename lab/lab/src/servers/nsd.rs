//! NSD: a server process a CPU, each with a socket of its own (reuseport), no database, no rate
//! limit.

use lab_echo::Model;

use super::{ServerKind, ServerSetup};
use crate::Result;

pub(super) const KIND: ServerKind = ServerKind {
    name: "nsd",
    program: "nsd",
    package: "`apt install nsd`",
    remark: "",
    // Debian builds it without recvmmsg.
    model: Model::Epoll,
    threaded: true,
    has_program: false,
    config,
    forward: None,
    words: |_, config| vec!["-d".into(), "-c".into(), config.into()],
    environment: |_| Vec::new(),
    version: &["-v"],
};

/// Debian's build has response rate limiting on by default: 200 a second, which every load exceeds.
fn config(setup: &ServerSetup) -> Result<String> {
    let ServerSetup { address, zone, folder, .. } = setup;
    let (ip, port, servers) = (address.ip(), address.port(), setup.threads());
    let folder = folder.display();
    Ok(format!(
        "server:\n  ip-address: {ip}@{port}\n  server-count: {servers}\n  reuseport: yes\n  \
         username: \"\"\n  chroot: \"\"\n  zonesdir: \"{folder}\"\n  database: \"\"\n  \
         pidfile: \"\"\n  zonelistfile: \"{folder}/zone.list\"\n  \
         xfrdfile: \"{folder}/xfrd.state\"\n  xfrdir: \"{folder}\"\n  \
         cookie-secret-file: \"{folder}/cookie\"\n  rrl-ratelimit: 0\n\
         remote-control:\n  control-enable: no\n\
         zone:\n  name: \"{}\"\n  zonefile: {:?}\n",
        zone.name, zone.file
    ))
}
