//! dnsmasq: always one thread; A and AAAA records as `host-record`, other records of the zone
//! omitted.

use std::fmt::Write;

use lab_echo::Model;

use super::{ServerKind, ServerSetup};
use crate::Result;

pub(super) const KIND: ServerKind = ServerKind {
    name: "dnsmasq",
    program: "dnsmasq",
    package: "`apt install dnsmasq-base`",
    remark: "one thread; no authoritative server: addresses only, as host-record",
    model: Model::Poll,
    threaded: false,
    has_program: false,
    config,
    forward: None,
    words: |_, config| vec!["-k".into(), "-C".into(), config.into()],
    environment: |_| Vec::new(),
    version: &["-v"],
};

fn config(setup: &ServerSetup) -> Result<String> {
    let ServerSetup { address, zone, .. } = setup;
    let (ip, port) = (address.ip(), address.port());
    let mut text = format!(
        "listen-address={ip}\nport={port}\nbind-interfaces\nno-resolv\nno-hosts\nno-poll\n\
         user=\ngroup=\npid-file=\nlog-facility=-\nlocal=/{}/\n",
        zone.name.trim_end_matches('.')
    );
    for record in zone.addresses()? {
        // A wildcard name is not a host name.
        if !record.name.starts_with('*') {
            writeln!(text, "host-record={},{},{}", record.name, record.address, record.ttl)
                .map_err(|e| e.to_string())?;
        }
    }
    Ok(text)
}
