//! The command line.
use crate::parts::{cpus, fabric, scale};
use clap::{Args, Parser, Subcommand, ValueEnum};
use client::cli::{
    Anycast, Cache, Checks, Endpoint, Explain, Fleet, Health, Journal, Records, Reload, Sites,
    Status, Store, Token, Top, Upstream, Zones,
};
pub use command_line::Output;
use server::ServeOptions;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::LazyLock;

/// The version and commit of this program.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    command_line::version(env!("CARGO_PKG_VERSION"), option_env!("DUNLIN_COMMIT"))
});

/// Serve DNS to container fleets, with one worker per core.
#[derive(Debug, Parser)]
#[command(
    version = VERSION.as_str(),
    after_help = "Example:\n  dunlin serve -c dunlin.toml\n\n\
                  Exit status: 0 done, 1 failed, 2 usage error."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer DNS queries until a signal stops the server.
    ///
    /// SIGHUP reloads the config and every zone file. SIGUSR1 logs the counters of each thread.
    /// SIGTERM drains: the server answers for `[server] drain` while /readyz fails. SIGINT does not
    /// wait. In both cases it answers the queries that it has already received. A second signal
    /// ends the server at once.
    #[command(after_help = "Examples:\n  \
        dunlin serve -c /etc/dunlin/dunlin.toml\n  \
        dunlin serve                 every key at its default: port 53 on all addresses\n  \
        dunlin serve --hot-restart -c /etc/dunlin/dunlin.toml\n  \
        dunlin serve --hot-restart=if-running -c /etc/dunlin/dunlin.toml")]
    Serve(Serve),
    /// Check configs and their zone files. Report each error with its position, rule and remedy.
    ///
    /// It also checks what stops `serve` at its start: the user, TLS certificates and the file of
    /// the query log. Settings that are legal but probably mistakes are warnings.
    #[command(after_help = "Examples:\n  \
        dunlin check /etc/dunlin/dunlin.toml\n  \
        dunlin check -o json dunlin.toml | jq '.errors[].message'")]
    Check(Check),
    /// Reload the config and every zone file of a running server, and wait for the result.
    ///
    /// The server refuses a config with an error as a whole and keeps the previous one. The result
    /// names changed keys that need a restart: `dunlin serve --hot-restart` loses no query.
    ///
    /// A config that removes more than half of the zones, and at least 20, is held: nothing of it
    /// takes effect, and the exit status is 1. A config that removes a zone and has no final
    /// newline is held, too. `--accept` applies it.
    #[command(after_help = "Examples:\n  \
        dunlin reload\n  \
        dunlin reload --accept\n  \
        dunlin reload --socket /run/dunlin/second.sock")]
    Reload(Reload),
    /// Show the status of a running server: zones, upstreams, threads and faults.
    ///
    /// Exit status 1 means that something is wrong, that the server does not serve, or that it
    /// cannot be reached. The faults come first.
    #[command(after_help = "Examples:\n  \
        dunlin status\n  \
        dunlin status -o json | jq '.faults[] | .text'")]
    Status(Status),
    /// Show live rates, latency, clients and names of a running server.
    ///
    /// Keys: q quits, p pauses, arrows scroll the threads. Without a terminal it writes one line
    /// per interval (with `-o json` one object) until its reader closes the pipe.
    #[command(after_help = "Examples:\n  \
        dunlin top\n  \
        dunlin top --interval 10s >> rates.log\n  \
        dunlin top -o json | head -n 1 | jq .rcodes_per_second")]
    Top(Top),
    /// Explain why a client gets an answer: which records of a set it has, and why not the others.
    #[command(after_help = "Examples:\n  \
        dunlin explain www.example.org --client 192.0.2.9\n  \
        dunlin explain www.example.org AAAA --client 2001:db8::1 --location eu/fra1 -o json\n  \
        dunlin explain www.example.org --client 192.0.2.53 --ecs 10.1.0.0/16")]
    Explain(Explain),
    /// Show or flush cached answers of a running server.
    #[command(after_help = "Examples:\n  \
        dunlin cache flush --subtree example.org\n  \
        dunlin cache show www.example.org AAAA")]
    Cache(Cache),
    /// List the upstream servers; stop or resume sending queries to one.
    #[command(after_help = "Examples:\n  \
        dunlin upstream list\n  \
        dunlin upstream drain 10.0.0.53")]
    Upstream(Upstream),
    /// Show, withdraw and announce the addresses of `[anycast]`.
    #[command(after_help = "Examples:\n  \
        dunlin anycast status\n  \
        dunlin anycast withdraw --reason 'rack 7 moves' --wait\n  \
        dunlin anycast announce")]
    Anycast(Anycast),
    /// List, set and delete health checks.
    #[command(after_help = "Examples:\n  \
        dunlin checks list\n  \
        dunlin checks set web kind=http port=8080 path=/healthz")]
    Checks(Checks),
    /// List the servers that share a store in etcd, or accept an etcd that was replaced.
    ///
    /// REVISION is the newest write that a server serves, BEHIND how many it does not serve yet,
    /// AGE how long it has been a member, as it last reported.
    #[command(after_help = "Examples:\n  dunlin fleet\n  dunlin fleet adopt")]
    Fleet(Fleet),
    /// List other sites whose zones this server serves, or accept an etcd that was replaced there.
    ///
    /// LAG is how far answers may be behind, DELAY how long the last write took to get here,
    /// FULL IN the time until its etcd has reached its quota if it goes on growing. Exit status 1:
    /// a site is not followed, or a zone of it is not served.
    #[command(after_help = "Examples:\n  \
        dunlin sites\n  \
        dunlin sites -o json | jq '.[] | .lag_seconds'\n  \
        dunlin sites accept fra1")]
    Sites(Sites),
    /// Show the form of the store, or raise it once you need not go back to an older version.
    #[command(after_help = "Examples:\n  dunlin store status\n  dunlin store upgrade")]
    Store(Store),
    /// Show the health of the addresses in record sets with a check.
    ///
    /// SINCE is the time of the last change, NEXT the time until the next probe, SETS the number of
    /// record sets with the address.
    #[command(after_help = "Examples:\n  \
        dunlin health\n  \
        dunlin health www.example.org\n  \
        dunlin health -o json | jq '.targets[] | select(.state == \"down\")'")]
    Health(Health),
    /// Leave an address out of answers, until it is restored.
    ///
    /// It applies to record sets with a check, and outlives restarts. The command asks first if all
    /// other members of a set are down or drained.
    #[command(after_help = "Examples:\n  \
        dunlin drain 10.0.0.7 --reason 'rack 7 moves'\n  \
        dunlin drain 10.0.0.7 --check web --yes")]
    Drain(Endpoint),
    /// Return an address to its health checks.
    #[command(after_help = "Example:\n  dunlin restore 10.0.0.7")]
    Restore(Endpoint),
    /// Treat an address as down, whatever its checks say.
    #[command(after_help = "Example:\n  dunlin force-down 10.0.0.7 --check web")]
    ForceDown(Endpoint),
    /// Treat an address as up, whatever its checks say.
    #[command(after_help = "Example:\n  dunlin force-up 10.0.0.7 --check web")]
    ForceUp(Endpoint),
    /// List the zones of a running server; create and delete zones of its store.
    ///
    /// It uses the REST API (`[api]` in the server's config). `accept` uses the local admin socket.
    #[command(after_help = "Examples:\n  \
        dunlin zones list\n  \
        dunlin zones accept example.org\n  \
        dunlin zones create example.org --nameserver ns1.example.net.\n  \
        dunlin zones delete example.org --token-file token")]
    Zones(Zones),
    /// List, set, delete, import and export record sets of a running server.
    ///
    /// It uses the REST API (`[api]` in the server's config). It shows each change first.
    /// When it reports a change as done, every worker serves it.
    #[command(after_help = "Examples:\n  \
        dunlin records list example.org --prefix web --type A\n  \
        dunlin records set example.org www.example.org A --ttl 60 192.0.2.1 192.0.2.2\n  \
        dunlin records import example.org example.org.zone --replace --dry-run\n  \
        dunlin records export example.org --format zone > example.org.zone")]
    Records(Records),
    /// Show the change history of a zone of the store: author, time, reason and changes.
    ///
    /// It uses the REST API (`[api]` in the server's config). The journal of a zone holds a limited
    /// number of writes. It continues when the zone is deleted and created again. With `-o json`
    /// each write is one line.
    #[command(after_help = "Examples:\n  \
        dunlin journal example.org\n  \
        dunlin journal example.org --since 1152 -o json | jq -r .by\n  \
        dunlin journal example.org --since 1152 --follow")]
    Journal(Journal),
    /// Create, list and revoke credentials for the REST API: tokens and certificates.
    ///
    /// It uses the local admin socket. The server stores only a hash of a token, so the token is
    /// shown once.
    #[command(after_help = "Examples:\n  \
        dunlin token create ci --grant 'read,write example.org'\n  \
        dunlin token create acme --grant 'write example.org _acme-challenge.*.example.org TXT'\n  \
        dunlin token create ops --grant operate --subject spiffe://example.org/ops\n  \
        dunlin token revoke ci")]
    Token(Token),
    /// Show a machine's CPUs, plan which a request gets, and give groups CPUs of their own.
    #[command(after_help = "Examples:\n  \
        dunlin cpus topology\n  \
        dunlin cpus plan --request 4 --near eth0\n  \
        dunlin cpus manage --rules /etc/dunlin/cpus.toml")]
    Cpus(cpus::cli::Cpus),
    /// Show which containers of this machine send to which, and how far that is.
    #[command(after_help = "Examples:\n  \
        dunlin fabric top --follow\n  \
        dunlin fabric watch --count 1 -o json | jq '.distances'")]
    Fabric(fabric::cli::Fabric),
    /// Scale DNS with its cluster and its load; check parameters; simulate.
    #[command(after_help = "Examples:\n  \
        dunlin scale check --params linear.json\n  \
        dunlin scale simulate --params load.json --trace monday.jsonl")]
    Scale(scale::cli::Scale),
    /// Convert another server's config into a dunlin.toml.
    #[command(after_help = "Examples:\n  \
        dunlin import corefile /etc/coredns/Corefile > dunlin.toml\n  \
        dunlin import corefile Corefile --folder /etc/dunlin\n  \
        dunlin import containerdns /etc/containerdns/containerdns.conf > dunlin.toml\n  \
        dunlin import named /etc/bind/named.conf --folder /etc/dunlin")]
    Import(Import),
    /// Start the keeper of the announced addresses, and restart it when it ends.
    #[command(
        hide = true,
        after_help = "Example: `dunlin serve` starts it, with a socket as its standard input."
    )]
    AnycastStarter(AnycastProcess),
    /// Hold the routes to the announced addresses as long as the server asks for it.
    #[command(
        hide = true,
        after_help = "Example: `dunlin serve` starts it, with a socket as its standard input."
    )]
    AnycastKeeper(AnycastProcess),
    /// Run the benchmark lab, dunlin-lab, where it is installed.
    #[command(
        disable_help_flag = true,
        after_help = "Examples:\n  \
        dunlin lab --help\n  \
        dunlin lab load -s 10.99.0.1 -d queries --rate 50k -l 30"
    )]
    Lab(Lab),
    /// Write the manual: a page for each command, and dunlin.toml(5).
    #[command(after_help = "Example:\n  dunlin manual /usr/local/share/man")]
    Manual(Manual),
    /// Print the completion script of a shell.
    #[command(after_help = "Examples:\n  \
        source <(dunlin completions bash)\n  \
        dunlin completions fish > ~/.config/fish/completions/dunlin.fish")]
    Completions(Completions),
}

#[derive(Args, Debug)]
pub struct Serve {
    /// Read this config. Without it, every key has its default.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Replace the running server without losing a query: receive its sockets and connections.
    /// The old process answers until the new one does, then ends. If the new one fails before
    /// that, the old one continues. `if-running` starts without a running server, too.
    #[arg(
        long,
        alias = "take-over",
        value_name = "WHEN",
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "always"
    )]
    pub hot_restart: Option<HotRestart>,
    /// Receive the sockets from standard input: the holder of `[server] hold_sockets` is there.
    #[arg(long, hide = true)]
    pub held: bool,
}

/// When `serve` replaces the running server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HotRestart {
    /// Fail if none runs.
    Always,
    /// Start without one, too.
    IfRunning,
}

impl Serve {
    /// How the server is to be started.
    pub fn options(&self) -> ServeOptions<'_> {
        let hot_restart = self.hot_restart.map(|when| match when {
            HotRestart::Always => server::HotRestart::Always,
            HotRestart::IfRunning => server::HotRestart::IfRunning,
        });
        ServeOptions { config: self.config.as_deref(), hot_restart, is_held: self.held }
    }
}

#[derive(Args, Debug)]
pub struct Check {
    /// Write the result as text or as JSON.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// Fail on warnings too.
    #[arg(long)]
    pub strict: bool,
    /// Print errors and warnings only: no valid files, no summary.
    #[arg(short, long)]
    pub quiet: bool,
    /// Check this config. `serve` accepts the same flag.
    #[arg(short, long, value_name = "FILE")]
    pub config: Vec<PathBuf>,
    /// More configs to check.
    #[arg(required_unless_present = "config", value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

#[derive(Args, Debug)]
pub struct Import {
    #[command(subcommand)]
    pub from: ImportFrom,
}

#[derive(Debug, Subcommand)]
pub enum ImportFrom {
    /// Convert a CoreDNS Corefile into a dunlin.toml. Report each line without a counterpart.
    ///
    /// It reads environment variables, imported files and /etc/resolv.conf of this machine. Exit
    /// status 1 means that a setting is lost, or that the Corefile cannot be read.
    #[command(after_help = "Examples:\n  \
        dunlin import corefile /etc/coredns/Corefile > dunlin.toml\n  \
        dunlin import corefile Corefile --folder /etc/dunlin")]
    Corefile(ImportConfig),
    /// Convert BIND's named.conf into a dunlin.toml. Report each statement without a counterpart.
    ///
    /// It reads included files of this machine. Keys become files that only their owner can read.
    /// Exit status 1 means that a setting is lost, or that the named.conf cannot be read.
    #[command(after_help = "Examples:\n  \
        dunlin import named /etc/bind/named.conf > dunlin.toml\n  \
        dunlin import named /etc/bind/named.conf --folder /etc/dunlin")]
    Named(ImportConfig),
    /// Convert INI files of ContainerDNS into one dunlin.toml. Report each key without a
    /// counterpart.
    ///
    /// The files are those of one machine: of the DNS server, kubeapi, scanner and scheduler. The
    /// config goes to standard output, the report with file, line and column to standard error;
    /// secrets are in neither. Exit status 1 means that a setting is lost, or that a file cannot
    /// be read.
    #[command(after_help = "Example:\n  \
        dunlin import containerdns /etc/containerdns/containerdns.conf \
        /etc/containerdns/scanner.conf > dunlin.toml")]
    Containerdns(ImportContainerdns),
    /// Write the record sets that SkyDNS, ContainerDNS or KDNS keep in etcd, for `dunlin records
    /// import`. Report each key that has none.
    ///
    /// The keys are read at one revision, and nothing is written to etcd. Exit status 1 means that
    /// a record is lost, or that etcd cannot be read. With --follow, each change of the keys is
    /// made in the zone of a running server, until the command is interrupted.
    #[command(after_help = "Examples:\n  \
        dunlin import etcd --layout skydns --zone skydns.local \
        --endpoint http://127.0.0.1:2379 > sets.ndjson\n  \
        dunlin records import skydns.local sets.ndjson\n  \
        dunlin import etcd --layout skydns --zone skydns.local \
        --endpoint http://127.0.0.1:2379 --follow")]
    Etcd(ImportEtcd),
}

#[cfg(not(feature = "etcd"))]
pub use crate::parts::AbsentCommand as ImportEtcd;

/// The layout of keys and values.
#[cfg(feature = "etcd")]
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum EtcdLayout {
    /// CoreDNS' plugin `etcd`, SkyDNS.
    Skydns,
    /// ContainerDNS.
    Containerdns,
    /// KDNS.
    Kdns,
}

#[cfg(feature = "etcd")]
#[derive(Args, Debug)]
pub struct ImportEtcd {
    /// Read keys of this layout.
    #[arg(long, value_enum)]
    pub layout: EtcdLayout,
    /// Write the sets of this zone.
    #[arg(long, value_name = "ZONE")]
    pub zone: String,
    /// Read from this member, for example http://127.0.0.1:2379. May be repeated.
    #[arg(long = "endpoint", value_name = "URL", required = true)]
    pub endpoints: Vec<String>,
    /// Read keys below this prefix. Default: that of the layout.
    #[arg(long, value_name = "TEXT")]
    pub prefix: Option<String>,
    /// Log in as this user.
    #[arg(long, value_name = "NAME", requires = "password_file")]
    pub user: Option<String>,
    /// Read the user's password from this file.
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
    /// Accept members whose certificates this CA has signed.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Present this certificate.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Its key.
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Make each change of the keys in the zone of a server of this machine, which has the zone.
    #[arg(long)]
    pub follow: bool,
    /// Delete first what the zone has and no key, but for its SOA and NS records.
    #[arg(long, requires = "follow")]
    pub delete: bool,
    #[command(flatten)]
    pub local: client::cli::LocalServer,
}

#[derive(Args, Debug)]
pub struct ImportContainerdns {
    /// Files to convert.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
}

#[derive(Args, Debug)]
pub struct ImportConfig {
    /// Config to convert. Default: standard input.
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Write dunlin.toml and files such as hosts entries and keys into this folder. Default: write
    /// dunlin.toml to standard output.
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct AnycastProcess {
    /// Kernel table of the routes.
    #[arg(long)]
    pub table: u32,
    /// User of the starter.
    #[arg(long, default_value = "")]
    pub user: String,
    /// Its group.
    #[arg(long, default_value = "")]
    pub group: String,
    /// Announced addresses.
    #[arg(value_name = "ADDRESS")]
    pub addresses: Vec<IpAddr>,
}

#[derive(Args, Debug)]
pub struct Manual {
    /// Folder for the pages. The command creates man1 and man5 in it if they are missing.
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
}

#[derive(Args, Debug)]
pub struct Completions {
    /// Shell that reads the script.
    pub shell: clap_complete::Shell,
}

#[derive(Args, Debug)]
pub struct Lab {
    /// Command and flags for dunlin-lab.
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// Service files of earlier versions say `--take-over`.
    #[test]
    fn old_name_of_hot_restart_is_accepted() {
        for flag in ["--hot-restart", "--take-over"] {
            let cli = Cli::try_parse_from(["dunlin", "serve", flag]).expect(flag);
            let Command::Serve(serve) = cli.command else { panic!("{flag}") };
            assert_eq!(serve.hot_restart, Some(HotRestart::Always));
        }
        let flags = ["dunlin", "serve", server::HotRestart::IfRunning.flag(), "-c", "a"];
        let cli = Cli::try_parse_from(flags).expect("a value");
        let Command::Serve(serve) = cli.command else { panic!("another command") };
        assert_eq!(serve.options().hot_restart, Some(server::HotRestart::IfRunning));
    }

    #[test]
    fn command_line_passes_the_checks_of_clap() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example() {
        for command in Cli::command().get_subcommands() {
            let help = command.clone().render_long_help().to_string();
            assert!(help.contains("Example"), "{}", command.get_name());
        }
    }
}
