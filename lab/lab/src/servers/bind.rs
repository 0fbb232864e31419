//! BIND: a thread a CPU (`-n`), authoritative only, no query log, no control channel. As a
//! forwarder: no limit that the load reaches, no validation.

use std::ffi::OsString;
use std::net::SocketAddr;

use lab_echo::Model;

use super::{ServerKind, ServerSetup};
use crate::Result;

pub(super) const KIND: ServerKind = ServerKind {
    name: "bind",
    program: "named",
    package: "`apt install bind9`",
    remark: "",
    model: Model::Recvmmsg,
    threaded: true,
    has_program: false,
    config,
    forward: Some(forward),
    words: |setup, config| {
        let threads = setup.threads().to_string();
        let words = ["-f", "-n", &threads, "-c"].map(OsString::from);
        words.into_iter().chain([config.into()]).collect()
    },
    environment: |_| Vec::new(),
    version: &["-V"],
};

fn config(setup: &ServerSetup) -> Result<String> {
    let ServerSetup { address, zone, folder, .. } = setup;
    let (ip, port) = (address.ip(), address.port());
    let (v4, v6) = match address.is_ipv4() {
        true => (ip.to_string(), "none".to_owned()),
        false => ("none".to_owned(), ip.to_string()),
    };
    Ok(format!(
        "options {{\n  directory {folder:?};\n  listen-on port {port} {{ {v4}; }};\n  \
         listen-on-v6 port {port} {{ {v6}; }};\n  pid-file none;\n  lock-file none;\n  \
         session-keyfile none;\n  managed-keys-directory {folder:?};\n  recursion no;\n  \
         dnssec-validation no;\n  empty-zones-enable no;\n  notify no;\n  \
         allow-query {{ any; }};\n  querylog no;\n}};\ncontrols {{ }};\n\
         logging {{ category default {{ default_stderr; }}; }};\n\
         zone \"{}\" {{ type primary; file {:?}; }};\n",
        zone.name, zone.file
    ))
}

fn forward(setup: &ServerSetup, upstream: SocketAddr) -> String {
    let (ip, port, folder) = (setup.address.ip(), setup.address.port(), &setup.folder);
    let (server, server_port) = (upstream.ip(), upstream.port());
    format!(
        "options {{\n  directory {folder:?};\n  listen-on port {port} {{ {ip}; }};\n  \
         listen-on-v6 {{ none; }};\n  pid-file none;\n  lock-file none;\n  \
         session-keyfile none;\n  managed-keys-directory {folder:?};\n  recursion yes;\n  \
         allow-recursion {{ any; }};\n  dnssec-validation no;\n  empty-zones-enable no;\n  \
         minimal-responses yes;\n  forward only;\n  \
         forwarders port {server_port} {{ {server}; }};\n  recursive-clients 50000;\n  \
         fetches-per-server 0;\n  fetches-per-zone 0;\n  max-cache-size 1400M;\n  \
         querylog no;\n}};\ncontrols {{ }};\n\
         logging {{ category default {{ null; }}; category lame-servers {{ null; }}; }};\n"
    )
}
