//! Unbound: a thread a CPU, the zone as an `auth-zone` that it answers from itself. As a forwarder:
//! what its page on speed advises for slabs, caches and the queries under way of a thread.

use std::net::SocketAddr;

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
    has_program: false,
    config,
    forward: Some(forward),
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

fn forward(setup: &ServerSetup, upstream: SocketAddr) -> String {
    let (ip, port, folder) = (setup.address.ip(), setup.address.port(), &setup.folder);
    let (server, server_port, threads) = (upstream.ip(), upstream.port(), setup.threads());
    let slabs = threads.next_power_of_two();
    let slabs: String = ["msg-cache", "rrset-cache", "infra-cache", "key-cache"]
        .map(|cache| format!("  {cache}-slabs: {slabs}\n"))
        .concat();
    format!(
        "server:\n  interface: {ip}@{port}\n  access-control: 0.0.0.0/0 allow\n  \
         directory: {folder:?}\n  chroot: \"\"\n  username: \"\"\n  pidfile: \"\"\n  \
         use-syslog: no\n  verbosity: 0\n  num-threads: {threads}\n  so-reuseport: yes\n\
         {slabs}  so-rcvbuf: 4m\n  so-sndbuf: 4m\n  rrset-cache-size: 512m\n  \
         msg-cache-size: 256m\n  outgoing-range: 16384\n  num-queries-per-thread: 8192\n  \
         do-not-query-localhost: no\n  module-config: \"iterator\"\n  minimal-responses: yes\n\
         remote-control:\n  control-enable: no\n\
         forward-zone:\n  name: \".\"\n  forward-addr: {server}@{server_port}\n"
    )
}
