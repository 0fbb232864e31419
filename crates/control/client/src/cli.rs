//! The arguments of the commands that talk to a running server.
mod remote;
mod sites;
mod values;

pub use remote::{
    AcceptZone, Api, CreateZone, ImportSets, Journal, JournalCommand, ListSets, OneSet, Records,
    RecordsCommand, RestoreSnapshot, RevertWrite, Salvage, SetSet, TakeSnapshot, WriteOptions,
    ZoneFormat, Zones, ZonesCommand,
};
pub use sites::{AcceptSite, Sites, SitesCommand};

use crate::limits::TOP_INTERVAL;
use clap::builder::TypedValueParser;
use clap::{Args, Subcommand, ValueEnum};
pub use command_line::Output;
use command_line::read_duration;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A running server of this machine. Default: the server at the socket DUNLIN_SOCKET, or else at
/// the default socket.
#[derive(Args, Clone, Debug, Default)]
pub struct LocalServer {
    /// Connect to this socket. Default: DUNLIN_SOCKET, or else /run/dunlin/dunlin.sock.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Connect to the server with this config, at its `[admin] socket`.
    #[arg(short, long, value_name = "FILE", conflicts_with = "socket")]
    pub config: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct Reload {
    /// Apply the config also if it removes most of the zones.
    #[arg(long)]
    pub accept: bool,
    #[command(flatten)]
    pub local: LocalServer,
    /// Write the result as text or as JSON.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

#[derive(Args, Debug)]
pub struct Status {
    #[command(flatten)]
    pub local: LocalServer,
    /// Write the status as text or as JSON. JSON contains every field.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// List all zones, even thousands.
    #[arg(long)]
    pub zones: bool,
    /// Answer the probe of a container in one line: whether its server is ready, or whether a
    /// server at this socket is alive, if need be that of another container that replaces it.
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with_all = ["output", "zones"])]
    pub probe: Option<Probe>,
}

/// What a probe of a container asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Probe {
    /// As `/readyz`, and the server is one of this PID namespace.
    Ready,
    /// As `/healthz`.
    Alive,
}

#[derive(Args, Debug)]
pub struct Top {
    #[command(flatten)]
    pub local: LocalServer,
    /// Request new figures this often: 100ms to 1h.
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = read_interval)]
    pub interval: Duration,
    /// Write text or JSON. JSON is one object per interval and line, without a screen.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Reads an interval of `dunlin top`: 100 ms to 1 h.
///
/// # Errors
/// The text is no such time.
pub fn read_interval(text: &str) -> Result<Duration, String> {
    let interval = read_duration(text).filter(|interval| TOP_INTERVAL.contains(interval));
    interval.ok_or_else(|| "expected 100ms to 1h, such as \"500ms\", \"2s\" or \"1m\"".into())
}

/// The server to connect to, and the format of the result.
#[derive(Args, Debug)]
pub struct AdminServer {
    #[command(flatten)]
    pub local: LocalServer,
    /// Write the result as text or as JSON.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

#[derive(Args, Debug)]
pub struct Explain {
    /// Name of the query.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Type of the query.
    #[arg(value_name = "TYPE", default_value = "A")]
    pub rtype: String,
    /// Address of the client.
    #[arg(long, value_name = "ADDRESS")]
    pub client: IpAddr,
    /// Client subnet of the query, such as 10.1.0.0/16. Counts if `[ecs] trust` has the client.
    #[arg(long, value_name = "PREFIX")]
    pub ecs: Option<String>,
    /// Explain it for a client at this location, such as eu/fra1. Default: that of its network.
    #[arg(long, value_name = "LOCATION")]
    pub location: Option<String>,
    #[command(flatten)]
    pub server: AdminServer,
}

#[derive(Args, Debug)]
pub struct Cache {
    #[command(subcommand)]
    pub command: CacheCommand,
}

#[derive(Debug, Subcommand)]
pub enum CacheCommand {
    /// Flush the cached answers of a name from every thread, and wait until all are done.
    ///
    /// It removes all types, and answers that contain the name as an alias. Replies of upstreams to
    /// queries under way reach the waiting clients, but are not cached.
    #[command(after_help = "Examples:\n  \
        dunlin cache flush www.example.org\n  \
        dunlin cache flush --subtree example.org\n  \
        dunlin cache flush --all")]
    Flush(Flush),
    /// Show the cached answers of a name in each thread. This does not count as a use.
    #[command(after_help = "Examples:\n  \
        dunlin cache show www.example.org\n  \
        dunlin cache show www.example.org AAAA -o json | jq '.shown[].answers'")]
    Show(Show),
}

#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["name", "all"]))]
pub struct Flush {
    /// Name to flush.
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Flush all names below it, too.
    #[arg(long, requires = "name")]
    pub subtree: bool,
    /// Flush the whole cache.
    #[arg(long, conflicts_with = "subtree")]
    pub all: bool,
    #[command(flatten)]
    pub server: AdminServer,
}

#[derive(Args, Debug)]
pub struct Show {
    /// Name to look up in the cache.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Type to look up, such as AAAA; all types without it.
    #[arg(value_name = "TYPE")]
    pub rtype: Option<String>,
    #[command(flatten)]
    pub server: AdminServer,
}

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Fleet {
    #[command(subcommand)]
    pub command: Option<FleetCommand>,
    #[command(flatten)]
    pub server: AdminServer,
}

#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    /// Accept the content of etcd after it was restored from a backup, or replaced.
    ///
    /// Run it on a server with the role `api`. The content becomes a new write, far above all
    /// revisions, so no serial goes back. Records that are not in etcd are lost: save them before,
    /// on the server with the highest revision (`dunlin status`), by `dunlin zones snapshot FILE`.
    #[command(after_help = "Example:\n  dunlin fleet adopt")]
    Adopt(Adopt),
    /// Remove what etcd has of a Kubernetes cluster that is gone for good.
    ///
    /// Shows how many services it has, and asks. All of it is removed, or nothing: all servers stop
    /// to answer its names. It is refused while a server writes the objects of that cluster. A
    /// server of it that comes back writes nothing, and says so.
    #[command(after_help = "Example:\n  dunlin fleet retire fra1-a")]
    Retire(Retire),
}

#[derive(Args, Debug)]
pub struct Retire {
    /// The name of the cluster: `[kubernetes] cluster`.
    pub cluster: String,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub server: AdminServer,
}

#[derive(Args, Debug)]
pub struct Adopt {
    /// Do not ask for confirmation.
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub server: AdminServer,
}

#[derive(Args, Debug)]
pub struct Store {
    #[command(subcommand)]
    pub command: StoreCommand,
}

#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Show the form of the store, and the servers of a fleet that do not know a newer one.
    #[command(after_help = "Example:\n  dunlin store status")]
    Status(AdminServer),
    /// Raise the form of the store to the newest one. After that, older versions cannot use the
    /// store.
    ///
    /// Until then a new version writes what the previous one can read, and refuses what needs the
    /// newer form, so that you can go back. Run this once you need not go back any more. In a
    /// fleet, all servers must know the new form, and one command raises it for all.
    #[command(after_help = "Example:\n  dunlin store upgrade")]
    Upgrade(UpgradeStore),
}

#[derive(Args, Debug)]
pub struct UpgradeStore {
    /// Do not ask for confirmation.
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub server: AdminServer,
}

#[derive(Args, Debug)]
pub struct Anycast {
    #[command(subcommand)]
    pub command: AnycastCommand,
}

#[derive(Debug, Subcommand)]
pub enum AnycastCommand {
    /// Show whether the addresses are announced, and why not. Exit status 1: they are not.
    #[command(after_help = "Examples:\n  dunlin anycast status -o json | jq .reason\n  \
        dunlin anycast status --follow")]
    Status(AnycastShow),
    /// Withdraw the addresses, also over restarts, until `announce`.
    ///
    /// The server continues to answer. Before you stop the server, give routers time to choose
    /// other routes.
    #[command(after_help = "Example:\n  dunlin anycast withdraw --reason 'rack 7 moves' --wait")]
    Withdraw(Withdraw),
    /// Announce the addresses again while the server answers.
    #[command(after_help = "Example:\n  dunlin anycast announce --wait")]
    Announce(Announce),
}

#[derive(Args, Debug)]
pub struct AnycastShow {
    /// Keep running, and print a line for each change. A server that does not answer counts as not
    /// announcing.
    #[arg(short, long)]
    pub follow: bool,
    #[command(flatten)]
    pub server: AdminServer,
}

#[derive(Args, Debug)]
pub struct Withdraw {
    /// Record this reason in the log and the status.
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// Wait until the route is gone.
    #[arg(long)]
    pub wait: bool,
    /// Withdraw however many other servers of the fleet are withdrawn.
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub server: AdminServer,
}

#[derive(Args, Debug)]
pub struct Announce {
    /// Wait until the route is there.
    #[arg(long)]
    pub wait: bool,
    #[command(flatten)]
    pub server: AdminServer,
}

#[derive(Args, Debug)]
pub struct Upstream {
    #[command(subcommand)]
    pub command: UpstreamCommand,
}

#[derive(Debug, Subcommand)]
pub enum UpstreamCommand {
    /// List the upstream servers, their states and their round-trip times.
    #[command(after_help = "Example:\n  dunlin upstream list -o json | jq '.[].state'")]
    List(AdminServer),
    /// Stop sending queries to an upstream, until `restore` or the end of the process.
    ///
    /// Earlier queries may still get replies. If no other server of the group answers, the upstream
    /// is queried nevertheless: an answer is better than none. A reload keeps it drained. A restart
    /// or a hot restart begins with all upstreams.
    #[command(after_help = "Example:\n  dunlin upstream drain 10.0.0.53")]
    Drain(OneServer),
    /// Resume sending queries to a drained upstream.
    #[command(after_help = "Example:\n  dunlin upstream restore 10.0.0.53:53")]
    Restore(OneServer),
}

#[derive(Args, Debug)]
pub struct OneServer {
    /// Upstream, as `dunlin upstream list` shows it. Port 53 may be omitted.
    #[arg(value_name = "SERVER")]
    pub name: String,
    #[command(flatten)]
    pub server: AdminServer,
}

#[derive(Args, Debug)]
pub struct Health {
    /// Show only the addresses of this name of the store.
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Show only this check.
    #[arg(long, value_name = "CHECK")]
    pub check: Option<String>,
    /// Show only this state: `up`, `down`, `unknown` or `not-probed`.
    #[arg(long, value_name = "STATE", value_parser = ["up", "down", "unknown", "not-probed"])]
    pub state: Option<String>,
    /// Show at most this many addresses. Default: all.
    #[arg(long, value_name = "NUMBER",
        value_parser = clap::value_parser!(u32).range(1..).map(|number| number as usize))]
    pub limit: Option<usize>,
    #[command(flatten)]
    pub server: AdminServer,
}

#[derive(Args, Debug)]
pub struct Checks {
    #[command(subcommand)]
    pub command: ChecksCommand,
}

#[derive(Debug, Subcommand)]
pub enum ChecksCommand {
    /// List the checks of the config and of the API, with all their keys.
    #[command(after_help = "Example:\n  dunlin checks list -o json | jq '.checks[].check'")]
    List(AdminServer),
    /// Define or change a check. It outlives restarts.
    ///
    /// The keys are those of `[check]` in the config. A check of the config is changed there, and
    /// only the config defines a script or names a file of CA certificates.
    #[command(after_help = "Examples:\n  \
        dunlin checks set web kind=http port=8080 path=/healthz interval=5s\n  \
        dunlin checks set ping kind=icmp")]
    Set {
        /// Name of the check.
        #[arg(value_name = "CHECK")]
        name: String,
        /// Keys with their values.
        #[arg(value_name = "KEY=VALUE", required = true)]
        keys: Vec<String>,
        #[command(flatten)]
        server: AdminServer,
    },
    /// Delete a check of the API that no record set names.
    #[command(after_help = "Example:\n  dunlin checks delete web")]
    Delete {
        /// Name of the check.
        #[arg(value_name = "CHECK")]
        name: String,
        #[command(flatten)]
        server: AdminServer,
    },
}

#[derive(Args, Debug)]
pub struct Endpoint {
    /// Address in record sets with a check.
    #[arg(value_name = "ADDRESS")]
    pub address: IpAddr,
    /// Set it only for this check. Default: for all checks.
    #[arg(long, value_name = "CHECK")]
    pub check: Option<String>,
    /// Record this reason; `dunlin health` shows it.
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Do not ask if all other members of record sets are down or drained.
    #[arg(short, long)]
    pub yes: bool,
    /// Set it also if no record set with a check has the address.
    #[arg(long)]
    pub any: bool,
    #[command(flatten)]
    pub server: AdminServer,
}

#[derive(Args, Debug)]
pub struct Token {
    #[command(subcommand)]
    pub command: TokenCommand,
}

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a principal, and print its token.
    ///
    /// A grant is `VERBS ZONE [NAMES [TYPES [VIEWS]]]`. Verbs: read, write (record sets),
    /// hide-wildcard
    /// (with write: also names that hide a wildcard from names beyond the grant), zones (create
    /// and delete them), operate (status, cache; it needs no zone), endpoints (drain addresses;
    /// alone, before prefixes: `endpoints 192.0.2.0/24`). ZONE and NAMES are a name, `*` for all,
    /// or a pattern such as `*.example.org`. TYPES is a list such as A,AAAA,
    /// VIEWS one of views; absent: all.
    #[command(after_help = "Example:\n  dunlin token create ci --grant 'read,write example.org'")]
    Create(CreateToken),
    /// List the principals and their grants.
    #[command(after_help = "Example:\n  dunlin token list -o json")]
    List(AdminServer),
    /// Revoke a principal's credentials, effective immediately.
    #[command(after_help = "Example:\n  dunlin token revoke ci")]
    Revoke(OnePrincipal),
    /// Give a principal a new token and print it; the old one ends at once.
    ///
    /// The grants stay. A token that expires gets the same lifetime again.
    #[command(after_help = "Example:\n  dunlin token rotate ci")]
    Rotate(OnePrincipal),
}

#[derive(Args, Debug)]
pub struct CreateToken {
    /// Name of the new principal, for the journal and the audit log.
    #[arg(value_name = "PRINCIPAL")]
    pub principal: String,
    /// Grant this permission. May be repeated.
    #[arg(long = "grant", required = true, value_name = "GRANT")]
    pub grants: Vec<String>,
    /// Identify the principal by a certificate instead of a token: its alternative name, DNS or
    /// URI.
    #[arg(long, value_name = "NAME")]
    pub subject: Option<String>,
    /// Give it a key that signs DNS messages (TSIG) instead of a token: for UPDATE. Prints the key
    /// as `nsupdate -k` reads it; its name is that of the principal. Without ALGORITHM:
    /// hmac-sha256; others are hmac-sha1, hmac-sha384 and hmac-sha512.
    #[arg(
        long, value_name = "ALGORITHM", num_args = 0..=1, require_equals = true,
        default_missing_value = "hmac-sha256", conflicts_with = "subject"
    )]
    pub tsig: Option<String>,
    /// Refuse the credential after this time: a number with s, m, h, d or w, such as 90d.
    #[arg(long, value_name = "TIME", value_parser = values::read_lifetime)]
    pub lifetime: Option<u32>,
    #[command(flatten)]
    pub server: AdminServer,
}

#[derive(Args, Debug)]
pub struct OnePrincipal {
    /// The principal.
    #[arg(value_name = "PRINCIPAL")]
    pub principal: String,
    #[command(flatten)]
    pub server: AdminServer,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_outside_of_the_range_are_refused() {
        assert_eq!(read_interval("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(read_interval("1h"), Ok(Duration::from_secs(3_600)));
        for wrong in ["99ms", "61m", "1", "s", "-1s", ""] {
            assert!(read_interval(wrong).is_err(), "{wrong}");
        }
    }
}
