//! Unbound: a thread a CPU, the zone as an `auth-zone` that it answers from itself.

use lab_echo::Model;

use super::{ServerKind, ServerSetup};
use crate::Result;

pub(super) const KIND: ServerKind = ServerKind {
    name: "unbound",
    program: "unbound",
    package: "`apt install unbound`",
    remark: "a resolver; it serves the zone as auth-zone",
    model: Model::Epoll,
    threaded: true,
    config,
    words: |_, config| vec!["-d".into(), "-c".into(), config.into()],
    environment: |_| Vec::new(),
    version: &["-V"],
};

fn config(setup: &ServerSetup) -> Result<String> {
    let ServerSetup { address, zone, folder, .. } = setup;
    let (ip, port, threads) = (address.ip(), address.port(), setup.threads());
    let all_clients = if address.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
    Ok(format!(
        "server:\n  interface: {ip}@{port}\n  access-control: {all_clients} allow\n  \
         directory: {folder:?}\n  chroot: \"\"\n  username: \"\"\n  pidfile: \"\"\n  \
         use-syslog: no\n  verbosity: 0\n  num-threads: {threads}\n  so-reuseport: yes\n  \
         module-config: \"iterator\"\nremote-control:\n  control-enable: no\n\
         auth-zone:\n  name: \"{}\"\n  zonefile: {:?}\n  for-downstream: yes\n  \
         for-upstream: no\n",
        zone.name, zone.file
    ))
}
