//! A node with a real kubelet, in a virtual machine.
use crate::{Cluster, Result};
use std::fs::File;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use test_support::ports;
use test_support::registry::Registry;

/// This machine, as its virtual machines and the Pods there see it.
pub(crate) const HOST: &str = "10.0.2.2";
/// The name of the node: the API server reaches it by a port of this machine.
pub const NODE_NAME: &str = "localhost";
/// The folder of the machine in cargo's target folder, where its logs stay.
const MACHINE: &str = "kubelet";
/// Modules of the kernel for bridges, dummy interfaces, and kube-proxy's rules.
const MODULES: &str = "dummy crc32c_generic br_netfilter nf_conntrack_netlink nft_chain_nat nft_ct \
    nft_fib_inet nft_fib_ipv4 nft_fib_ipv6 nft_hash nft_limit nft_masq nft_nat nft_numgen \
    nft_redir nft_reject_inet nft_reject_ipv4 nft_reject_ipv6";
/// How long its start may take on emulated CPUs, on a busy machine.
const START_MAX: Duration = Duration::from_secs(600);
/// After this many seconds the machine ends in any case.
const LIMIT: &str = "3000";

/// A port of this machine that Pods reach at an address of their own.
#[derive(Clone, Copy, Debug)]
pub struct Forward {
    /// Where Pods find it: one of 10.0.2.0/24, and none of the node or of this machine.
    pub address: Ipv4Addr,
    /// Its port there.
    pub port: u16,
    /// Where it is on loopback here.
    pub host_port: u16,
}

impl Cluster {
    /// Starts the node of a cluster that is one for a kubelet: a virtual machine with containerd,
    /// kube-proxy and a kubelet (`testing/cluster/node`), which pulls its images from a registry.
    /// Pods also reach what is forwarded. Waits until it is ready. It ends with the cluster.
    ///
    /// # Errors
    /// It is not ready after some minutes; what it said, and where its logs are.
    pub fn add_node(&mut self, registry: &Registry, forwards: &[Forward]) -> Result<()> {
        let told = |error: std::io::Error| format!("bench/kernels does not start: {error}");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize();
        let root = root.map_err(told)?;
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let logs = target.unwrap_or_else(|| root.join("target")).join(MACHINE);
        let port = ports::free_address(Ipv4Addr::LOCALHOST).port();
        let forwards: Vec<String> = forwards
            .iter()
            .map(|Forward { address, port, host_port }| format!("{address}:{port}={host_port}"))
            .collect();
        let run = format!(
            "{}/testing/cluster/node {} {} {} {} {port} {}",
            root.display(),
            self.folder.display(),
            self.binaries.display(),
            self.api.port(),
            registry.port(),
            forwards.join(" "),
        );
        let out = File::create(self.folder.join("machine.log")).map_err(told)?;
        let mut command = Command::new(root.join("bench/kernels"));
        command.arg("6.12").env("RUN", run).env("MODULES", MODULES).env("MACHINE", MACHINE);
        command.env("NET", format!("user,id=net,hostfwd=tcp:127.0.0.1:{port}-:{port}"));
        command.env("SMP", "4").env("MIB", "3072").env("LIMIT", LIMIT);
        // One thread emulates all CPUs, as for the other tests of containers (Makefile).
        command.env("ACCEL", "tcg,thread=single").env("TMPDIR", &self.folder);
        command.stdin(Stdio::null()).stdout(out.try_clone().map_err(told)?).stderr(out);
        self.guard.adopt(&mut command).spawn().map_err(told)?;
        self.wait_within(START_MAX, "the node", |cluster| {
            let node = cluster.get(&format!("/api/v1/nodes/{NODE_NAME}")).unwrap_or_default();
            let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
        })
        .map_err(|why| {
            let said = std::fs::read_to_string(self.folder.join("machine.log"));
            format!("{why}\n{}\nits logs: {}", said.unwrap_or_default(), logs.display())
        })
    }
}
