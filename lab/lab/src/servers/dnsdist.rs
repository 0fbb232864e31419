//! dnsdist: a forwarder that serves no zone; the maximum of outstanding queries, and a cache of
//! answers, as its page on speed advises.

use std::net::SocketAddr;

use lab_echo::Model;

use super::{ServerKind, ServerSetup};

pub(super) const KIND: ServerKind = ServerKind {
    name: "dnsdist",
    program: "dnsdist",
    package: "`apt install dnsdist`",
    remark: "a forwarder; its cache counts answers, not bytes",
    model: Model::Blocking,
    threaded: false,
    has_program: false,
    config: |_| Err("dnsdist serves no zone: it is compared with --forward".into()),
    forward: Some(forward),
    words: |_, config| {
        let words = ["--supervised", "--disable-syslog", "-C"].map(Into::into);
        words.into_iter().chain([config.into()]).collect()
    },
    environment: |_| Vec::new(),
    version: &["--version"],
};

fn forward(setup: &ServerSetup, upstream: SocketAddr) -> String {
    format!(
        "setLocal(\"{}\", {{reusePort=true}})\nsetACL(\"0.0.0.0/0\")\n\
         setSecurityPollSuffix(\"\")\nsetMaxUDPOutstanding(65535)\n\
         setServerPolicy(firstAvailable)\n\
         newServer({{address=\"{upstream}\", name=\"upstream\"}}):setUp()\n\
         getPool(\"\"):setCache(newPacketCache(2000000, {{maxTTL=86400, numberOfShards=1}}))\n",
        setup.address
    )
}
