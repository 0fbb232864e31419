//! CoreDNS: the plugin `file`, GOMAXPROCS as many as there are CPUs, no log. As a forwarder: the
//! plugins `forward` and `cache`, which holds all that is asked.

use std::net::SocketAddr;

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
    has_program: false,
    config,
    forward: Some(forward),
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

fn forward(setup: &ServerSetup, upstream: SocketAddr) -> String {
    let (ip, port) = (setup.address.ip(), setup.address.port());
    format!(
        ".:{port} {{\n    bind {ip}\n    cache 86400 {{\n        success 2000000\n    }}\n    \
         forward . {upstream}\n}}\n"
    )
}
