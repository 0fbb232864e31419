//! The command line.
mod remote;

pub use remote::{
    Api, Form, ImportSets, ListSets, OneSet, Records, RecordsAct, RestoreSnapshot, TakeSnapshot,
    Zones, ZonesAct,
};

use crate::config::{Admin, read_duration};
use crate::lab::Lab;
use crate::limits::TOP_INTERVAL;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// An authoritative DNS server for container fleets, one worker a core.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Example:\n  dunlin serve -c dunlin.toml\n\n\
                  Exit status: 0 done, 1 it failed, 2 it was asked wrongly."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answers questions until it is told to stop.
    ///
    /// SIGHUP reads the config and every zone file again, SIGUSR1 logs the counters of each thread.
    /// SIGTERM goes on answering for `[server] drain` while /readyz says that it ends, SIGINT does
    /// not wait; both answer what has been received. A second one ends at once.
    #[command(after_help = "Examples:\n  \
        dunlin serve -c /etc/dunlin/dunlin.toml\n  \
        dunlin serve                 every key at its default: port 53 on all addresses\n  \
        dunlin serve --take-over -c /etc/dunlin/dunlin.toml")]
    Serve(Serve),
    /// Checks configs and their zone files: every error, with its place, its rule, and what to do.
    ///
    /// What is legal but hardly meant is a warning.
    #[command(after_help = "Examples:\n  \
        dunlin check /etc/dunlin/dunlin.toml\n  \
        dunlin check -o json dunlin.toml | jq '.errors[].message'")]
    Check(Check),
    /// Has a running server read its config and every zone file again, and waits until it has.
    ///
    /// A config with an error is refused as a whole: what held before goes on. Keys that cannot
    /// change while it runs are named; `dunlin serve --take-over` changes them without a loss.
    #[command(after_help = "Examples:\n  \
        dunlin reload\n  \
        dunlin reload --socket /run/dunlin/second.sock")]
    Reload(Reload),
    /// Shows a running server in one look: what it serves, since when, what is behind, and why.
    ///
    /// Exit status 1 says that something is behind or refused, that the server does not serve, or
    /// that it cannot be reached.
    #[command(after_help = "Examples:\n  \
        dunlin status\n  \
        dunlin status -o json | jq '.zones[] | select(.state != \"current\")'")]
    Status(Status),
    /// Shows a running server live: rates, latency, and who asks what.
    ///
    /// Keys: q quits, p pauses, arrows scroll the threads. Without a terminal it writes a line
    /// each interval, with `-o json` an object on each line, until nobody reads any more.
    #[command(after_help = "Examples:\n  \
        dunlin top\n  \
        dunlin top --interval 10s >> rates.log\n  \
        dunlin top -o json | head -n 1 | jq .rcodes_per_second")]
    Top(Top),
    /// Looks at what a running server keeps of others' names, or has it forget some of it.
    #[command(after_help = "Examples:\n  \
        dunlin cache flush --subtree example.org\n  \
        dunlin cache show www.example.org AAAA")]
    Cache(Cache),
    /// Shows the servers that others' names are asked of, and has them be asked no more, or again.
    #[command(after_help = "Examples:\n  \
        dunlin upstream list\n  \
        dunlin upstream drain 10.0.0.53")]
    Upstream(Upstream),
    /// Shows the zones of a running server, and makes and deletes those of its store.
    ///
    /// It speaks with the REST API ([api] in the server's config).
    #[command(after_help = "Examples:\n  \
        dunlin zones list\n  \
        dunlin zones create example.org --nameserver ns1.example.net.\n  \
        dunlin zones delete example.org --token-file token")]
    Zones(Zones),
    /// Shows and changes the record sets of a running server.
    ///
    /// It speaks with the REST API ([api] in the server's config). What changes is shown before it
    /// is done, and each change is live everywhere when it is said to be done.
    #[command(after_help = "Examples:\n  \
        dunlin records list example.org --prefix web --type A\n  \
        dunlin records set example.org www.example.org A --ttl 60 192.0.2.1 192.0.2.2\n  \
        dunlin records import example.org example.org.zone --replace --dry-run\n  \
        dunlin records export example.org --format zone > example.org.zone")]
    Records(Records),
    /// Says who may come in by the REST API of a running server: tokens and certificates.
    ///
    /// It speaks over the local admin socket. Of a token the server keeps a hash: it is shown once.
    #[command(after_help = "Examples:\n  \
        dunlin token create ci --grant 'read,write example.org'\n  \
        dunlin token create acme --grant 'write example.org _acme-challenge.*.example.org TXT'\n  \
        dunlin token create ops --grant operate --subject spiffe://example.org/ops\n  \
        dunlin token revoke ci")]
    Token(Token),
    /// Makes a config of another server's.
    #[command(after_help = "Examples:\n  \
        dunlin import corefile /etc/coredns/Corefile > dunlin.toml\n  \
        dunlin import corefile Corefile --output /etc/dunlin")]
    Import(Import),
    /// Measures servers, and looks after the machine that they are measured on.
    #[command(after_help = "Examples:\n  \
        dunlin lab echo --listen 127.0.0.1:5353\n  \
        dunlin lab hosts up\n  \
        dunlin lab load -s 10.99.0.1 -d queries --rate 50k -l 30")]
    Lab(Lab),
    /// Writes the manual: a page for each command, and dunlin.toml(5).
    #[command(after_help = "Example:\n  dunlin manual /usr/local/share/man")]
    Manual(Manual),
    /// Prints what a shell reads to complete command lines.
    #[command(after_help = "Examples:\n  \
        source <(dunlin completions bash)\n  \
        dunlin completions fish > ~/.config/fish/completions/dunlin.fish")]
    Completions(Completions),
}

#[derive(Args, Debug)]
pub struct Serve {
    /// The config; without it every key has its default.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Takes the place of the server that runs: its sockets and open connections. It answers until
    /// this one does, then ends; if this one fails before, it goes on as if nothing had been.
    #[arg(long)]
    pub take_over: bool,
}

#[derive(Args, Debug)]
pub struct Check {
    /// How the result is written.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// Warnings fail it too.
    #[arg(long)]
    pub strict: bool,
    /// The configs to check.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

#[derive(Args, Debug)]
pub struct Reload {
    /// Where the server listens: `[admin] socket` of its config.
    #[arg(long, value_name = "PATH", default_value = Admin::SOCKET)]
    pub socket: PathBuf,
    /// How the result is written.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

#[derive(Args, Debug)]
pub struct Status {
    /// Where the server listens: `[admin] socket` of its config.
    #[arg(long, value_name = "PATH", default_value = Admin::SOCKET)]
    pub socket: PathBuf,
    /// How it is written; JSON holds all there is.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// Lists all zones, however many there are.
    #[arg(long)]
    pub zones: bool,
}

#[derive(Args, Debug)]
pub struct Top {
    /// Where the server listens: `[admin] socket` of its config.
    #[arg(long, value_name = "PATH", default_value = Admin::SOCKET)]
    pub socket: PathBuf,
    /// How often the server is asked: 100ms to 1h.
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = read_interval)]
    pub interval: Duration,
    /// How it is written; JSON is an object each interval, on a line of its own, and no screen.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// A time that something is shown once in.
pub fn read_interval(text: &str) -> Result<Duration, String> {
    let interval = read_duration(text).filter(|interval| TOP_INTERVAL.contains(interval));
    interval.ok_or_else(|| "expected 100ms to 1h, such as \"500ms\", \"2s\" or \"1m\"".into())
}

/// Which server is asked, and how its answer is written.
#[derive(Args, Debug)]
pub struct Asked {
    /// Where the server listens: `[admin] socket` of its config.
    #[arg(long, value_name = "PATH", default_value = Admin::SOCKET)]
    pub socket: PathBuf,
    /// How the result is written.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

#[derive(Args, Debug)]
pub struct Cache {
    #[command(subcommand)]
    pub act: CacheAct,
}

#[derive(Debug, Subcommand)]
pub enum CacheAct {
    /// Has every thread forget what it keeps of a name, and waits until all have.
    ///
    /// All types go, and answers that lead through the name as an alias. What is under way just
    /// then is told to who waits for it, and not kept.
    #[command(after_help = "Examples:\n  \
        dunlin cache flush www.example.org\n  \
        dunlin cache flush --subtree example.org\n  \
        dunlin cache flush --all")]
    Flush(Flush),
    /// Shows what each thread keeps of a name. That it is looked at is no use of it.
    #[command(after_help = "Examples:\n  \
        dunlin cache show www.example.org\n  \
        dunlin cache show www.example.org AAAA -o json | jq '.shown[].answers'")]
    Show(Show),
}

#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["name", "all"]))]
pub struct Flush {
    /// The name.
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// All names below it, too.
    #[arg(long, requires = "name")]
    pub subtree: bool,
    /// All there is.
    #[arg(long, conflicts_with = "subtree")]
    pub all: bool,
    #[command(flatten)]
    pub server: Asked,
}

#[derive(Args, Debug)]
pub struct Show {
    /// The name.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The type, such as AAAA; without it all.
    #[arg(value_name = "TYPE")]
    pub rtype: Option<String>,
    #[command(flatten)]
    pub server: Asked,
}

#[derive(Args, Debug)]
pub struct Upstream {
    #[command(subcommand)]
    pub act: UpstreamAct,
}

#[derive(Debug, Subcommand)]
pub enum UpstreamAct {
    /// Lists the servers, whether they answer, and how fast.
    #[command(after_help = "Example:\n  dunlin upstream list -o json | jq '.[].state'")]
    List(Asked),
    /// Has a server be asked no more, by any thread, until it is restored or the server ends.
    ///
    /// What it was asked before it may still answer. It is asked all the same where no other server
    /// of its group answers: an answer is better than none. A reload of the config changes nothing
    /// about it; a restart or a take-over begins with all of them.
    #[command(after_help = "Example:\n  dunlin upstream drain 10.0.0.53")]
    Drain(OneServer),
    /// Has a server that was drained be asked again.
    #[command(after_help = "Example:\n  dunlin upstream restore 10.0.0.53:53")]
    Restore(OneServer),
}

#[derive(Args, Debug)]
pub struct OneServer {
    /// The server, as `dunlin upstream list` shows it; port 53 may be left out.
    #[arg(value_name = "SERVER")]
    pub name: String,
    #[command(flatten)]
    pub server: Asked,
}

#[derive(Args, Debug)]
pub struct Token {
    #[command(subcommand)]
    pub act: TokenAct,
}

#[derive(Debug, Subcommand)]
pub enum TokenAct {
    /// Makes a principal, and prints its token.
    ///
    /// A grant is `VERBS ZONE [NAMES [TYPES]]`. Verbs: read, write (record sets), zones (create and
    /// delete them), operate (status, cache; it needs no zone). A zone or name is one, `*` for all,
    /// or a pattern such as `*.example.org`. Types are such as A,AAAA.
    #[command(after_help = "Example:\n  dunlin token create ci --grant 'read,write example.org'")]
    Create(CreateToken),
    /// Lists the principals and what they may.
    #[command(after_help = "Example:\n  dunlin token list -o json")]
    List(Asked),
    /// Makes a principal nobody, at once.
    #[command(after_help = "Example:\n  dunlin token revoke ci")]
    Revoke(RevokeToken),
}

#[derive(Args, Debug)]
pub struct CreateToken {
    /// The principal's name: what the journal and the audit log call it.
    #[arg(value_name = "PRINCIPAL")]
    pub principal: String,
    /// What it may; given several times, all of it.
    #[arg(long = "grant", required = true, value_name = "GRANT")]
    pub grants: Vec<String>,
    /// It has a certificate instead of a token: one of its alternative names, DNS or URI.
    #[arg(long, value_name = "NAME")]
    pub subject: Option<String>,
    #[command(flatten)]
    pub server: Asked,
}

#[derive(Args, Debug)]
pub struct RevokeToken {
    /// The principal's name.
    #[arg(value_name = "PRINCIPAL")]
    pub principal: String,
    #[command(flatten)]
    pub server: Asked,
}

#[derive(Args, Debug)]
pub struct Import {
    #[command(subcommand)]
    pub from: ImportFrom,
}

#[derive(Debug, Subcommand)]
pub enum ImportFrom {
    /// Makes a dunlin.toml of a CoreDNS Corefile, and says line by line what has no counterpart.
    ///
    /// Variables, imported files and /etc/resolv.conf are read as they are here and now. Exit
    /// status 1 says that something is lost, or that the Corefile cannot be read.
    #[command(after_help = "Examples:\n  \
        dunlin import corefile /etc/coredns/Corefile > dunlin.toml\n  \
        dunlin import corefile Corefile --output /etc/dunlin")]
    Corefile(ImportCorefile),
}

#[derive(Args, Debug)]
pub struct ImportCorefile {
    /// The Corefile; without it standard input.
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Where dunlin.toml goes, and beside it files of what the Corefile has within it, such as
    /// entries of hosts; without it, dunlin.toml goes to standard output.
    #[arg(long, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct Manual {
    /// Where the pages go: into man1 and man5 below it, which are made where they are not there.
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
}

#[derive(Args, Debug)]
pub struct Completions {
    /// Whose completions.
    pub shell: clap_complete::Shell,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Lines for people.
    Text,
    /// JSON.
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn intervals_are_neither_too_short_nor_too_long() {
        assert_eq!(read_interval("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(read_interval("1h"), Ok(Duration::from_secs(3_600)));
        for wrong in ["99ms", "61m", "1", "s", "-1s", ""] {
            assert!(read_interval(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_command_has_an_example() {
        for command in Cli::command().get_subcommands() {
            let help = command.clone().render_long_help().to_string();
            assert!(help.contains("Example"), "{}", command.get_name());
        }
    }
}
