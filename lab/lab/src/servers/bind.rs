//! BIND: a thread a CPU (`-n`), authoritative only, no query log, no control channel.

use std::ffi::OsString;

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
    config,
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
