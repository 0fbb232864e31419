//! CoreDNS: the plugin `file`, GOMAXPROCS as many as there are CPUs, no log.

use lab_echo::Model;

use super::{ServerKind, ServerSetup};
use crate::Result;

pub(super) const KIND: ServerKind = ServerKind {
    name: "coredns",
    program: "coredns",
    package: "`go install github.com/coredns/coredns@v1.15.0`",
    remark: "the plugin file alone",
    model: Model::Epoll,
    threaded: true,
    config,
    words: |_, config| vec!["-conf".into(), config.into()],
    environment: |setup| vec![("GOMAXPROCS", setup.threads().to_string())],
    version: &["-version"],
};

fn config(setup: &ServerSetup) -> Result<String> {
    let ServerSetup { address, zone, .. } = setup;
    let (ip, port) = (address.ip(), address.port());
    Ok(format!(
        "{}:{port} {{\n    bind {ip}\n    file {:?} {{\n        reload 0\n    }}\n}}\n",
        zone.name, zone.file
    ))
}
