//! CoreDNS: the plugin `file`, as many CPUs as Go is told, nothing logged.

use lab_echo::Model;

use super::{Kind, Site};
use crate::Result;

pub(super) const KIND: Kind = Kind {
    name: "coredns",
    program: "coredns",
    package: "`go install github.com/coredns/coredns@v1.15.0`",
    remark: "the plugin file alone",
    model: Model::Epoll,
    threaded: true,
    config,
    words: |config| vec!["-conf".into(), config.into()],
    environment: |site| vec![("GOMAXPROCS", site.threads().to_string())],
    version: &["-version"],
};

fn config(site: &Site) -> Result<String> {
    let Site { address, zone, .. } = site;
    let (ip, port) = (address.ip(), address.port());
    Ok(format!(
        "{}:{port} {{\n    bind {ip}\n    file {:?} {{\n        reload 0\n    }}\n}}\n",
        zone.name, zone.file
    ))
}
