//! The commands that use the REST API.
use crate::cli::values::{read_location, read_seconds, read_tier, read_weight};
use crate::cli::{AdminServer, LocalServer, Output};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;
use std::path::PathBuf;
use store::snapshot;

/// The API to use, the credentials, and the format of the result.
#[derive(Args, Debug)]
pub struct Api {
    /// Use the API at this URL. Default: DUNLIN_API, or else http://127.0.0.1:8053.
    #[arg(long, value_name = "URL")]
    pub api: Option<String>,
    /// Read the token from this file. Default: the value of DUNLIN_TOKEN.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Trust the CA certificates of this PEM file for the server. Default: those of the system.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Present this client certificate (PEM) instead of a token.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Use this private key (PEM) of the client certificate.
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Write the result as text or as JSON.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// The condition and the reason of a write.
#[derive(Args, Debug, Default)]
pub struct WriteOptions {
    /// Write only if the revision is still this one. `records get -o json`, `zones show` and
    /// `zones snapshot` report it.
    #[arg(long, value_name = "REVISION")]
    pub if_match: Option<u64>,
    /// Record this reason in the journal and the audit log: a line of up to 255 bytes.
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Journal {
    #[command(subcommand)]
    pub command: Option<JournalCommand>,
    /// Zone whose journal is shown.
    #[arg(value_name = "ZONE", required = true)]
    pub zone: Option<String>,
    /// Show only writes after this revision. Fail if the journal no longer contains it.
    #[arg(long, value_name = "REVISION")]
    pub since: Option<u64>,
    /// Show new writes as they happen, until interrupted. Wait for a server that restarts.
    #[arg(short, long)]
    pub follow: bool,
    #[command(flatten)]
    pub server: Api,
}

#[derive(Debug, Subcommand)]
pub enum JournalCommand {
    /// Undo a write: show what changes, then write it.
    ///
    /// Each record set of the write gets back its previous content, all in one atomic write. Record
    /// sets that were written again later stay unchanged and are listed. So are those whose
    /// previous content the journal lacks, which is that of writes of more than 1000 record sets.
    /// Exit status 0 means that everything was undone, 1 that some record sets were not. The
    /// command needs a grant to write every record set of the write.
    #[command(after_help = "Examples:\n  \
        dunlin journal revert 1742 --dry-run\n  \
        dunlin journal revert 1742 --yes --reason 'wrong rack'")]
    Revert(RevertWrite),
}

#[derive(Args, Debug)]
pub struct RevertWrite {
    /// Revision of the write, as the journal shows it.
    #[arg(value_name = "REVISION")]
    pub revision: u64,
    /// Zone of the write. Default: the zone whose journal has this revision.
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
    /// Show what would change, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Skip the confirmation.
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub options: WriteOptions,
    #[command(flatten)]
    pub server: Api,
}

#[derive(Args, Debug)]
pub struct Zones {
    #[command(subcommand)]
    pub command: ZonesCommand,
}

#[derive(Debug, Subcommand)]
pub enum ZonesCommand {
    /// List the zones and the source of each.
    #[command(after_help = "Example:\n  dunlin zones list -o json | jq '.zones[].name'")]
    List(Api),
    /// Show one zone.
    #[command(after_help = "Example:\n  dunlin zones show example.org")]
    Show(OneZone),
    /// Create a zone in the store.
    #[command(after_help = "Example:\n  \
        dunlin zones create example.org --nameserver ns1.example.net.")]
    Create(CreateZone),
    /// Delete a zone of the store with all its records.
    #[command(after_help = "Example:\n  dunlin zones delete example.org")]
    Delete(DeleteZone),
    /// Serve a held zone file or hosts file, although it lost most of its names or may be cut.
    ///
    /// The server holds a file that was written in place and lost more than half of its names, and
    /// at least 20, or that does not end with a newline. It serves the zone as before, and `dunlin
    /// status` shows both counts. This command reads the file again and serves it. A file that was
    /// renamed into place is never held. The command uses the local admin socket. Exit status 1
    /// means that the zone is not held, or that its file is still not served.
    #[command(after_help = "Examples:\n  \
        dunlin zones accept example.org\n  \
        dunlin zones accept /etc/dunlin/hosts\n  \
        dunlin zones accept --all -o json")]
    Accept(AcceptZone),
    /// Write a zone as it is served now to standard output, as a zone file.
    ///
    /// It may be a zone of a file, of the store, of a cluster, or built in. Record sets with checks
    /// have only the members that are answered. The command uses the local admin socket.
    #[command(after_help = "Example:\n  dunlin zones dump example.org > example.org.zone")]
    Dump(DumpZone),
    /// Write a consistent snapshot of all zones of the store to a file.
    ///
    /// The server answers and accepts writes meanwhile. The command needs a grant to read all
    /// zones, `read *`. It verifies the file before it replaces an older one.
    #[command(after_help = "Example:\n  dunlin zones snapshot backup.records")]
    Snapshot(TakeSnapshot),
    /// Replace the content of the store with a snapshot: all of it, or nothing.
    ///
    /// The command needs a grant to write, create and delete all zones, `write,zones *`. Serials
    /// and revisions only increase.
    #[command(after_help = "Example:\n  dunlin zones restore backup.records")]
    Restore(RestoreSnapshot),
    /// Save the readable part of a damaged store as a snapshot, for `dunlin zones restore`.
    ///
    /// It verifies every page of the files. It omits and reports damaged parts. It does not change
    /// the files. No server may have them open; a server that found them damaged closed them.
    #[command(after_help = "Example:\n  dunlin zones salvage /var/lib/dunlin saved.records")]
    Salvage(Salvage),
}

#[derive(Args, Debug)]
pub struct Salvage {
    /// Folder of records.redb and records.wal: `[server] data_dir`.
    #[arg(value_name = "DATA_DIR")]
    pub data_dir: PathBuf,
    /// Snapshot to write. A complete one replaces an older file of this name.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write the result as text or as JSON.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["zone", "all"]))]
pub struct AcceptZone {
    /// Zone to accept, or hosts file as `dunlin status` names it.
    #[arg(value_name = "ZONE")]
    pub zone: Option<String>,
    /// Accept every held zone.
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub server: AdminServer,
}

#[derive(Args, Debug)]
pub struct TakeSnapshot {
    /// File to write. A complete snapshot replaces an older file of this name.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write this format, so that an older version can restore the snapshot. It lists what gets
    /// lost. Format 3: no comments of record sets. Format 2: also no policies, checks and tiers.
    #[arg(long, value_name = "FORMAT", default_value_t = snapshot::FORMAT,
        value_parser = clap::value_parser!(u8)
            .range(i64::from(snapshot::FORMAT_MIN)..=i64::from(snapshot::FORMAT)))]
    pub format: u8,
    #[command(flatten)]
    pub server: Api,
}

#[derive(Args, Debug)]
pub struct RestoreSnapshot {
    /// Snapshot to read.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Skip the confirmation.
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub options: WriteOptions,
    #[command(flatten)]
    pub server: Api,
}

#[derive(Args, Debug)]
pub struct OneZone {
    /// Zone name.
    #[arg(value_name = "ZONE")]
    pub zone: String,
    #[command(flatten)]
    pub server: Api,
}

#[derive(Args, Debug)]
pub struct DumpZone {
    /// Zone name.
    #[arg(value_name = "ZONE")]
    pub zone: String,
    #[command(flatten)]
    pub local: LocalServer,
}

#[derive(Args, Debug)]
pub struct DeleteZone {
    #[command(flatten)]
    pub zone: OneZone,
    #[command(flatten)]
    pub options: WriteOptions,
    /// Skip the confirmation.
    #[arg(long)]
    pub yes: bool,
}

#[derive(Args, Debug)]
pub struct CreateZone {
    /// Zone to create.
    #[arg(value_name = "ZONE")]
    pub zone: String,
    /// Add this name server: an absolute name, with or without the final dot. May be repeated.
    #[arg(long = "nameserver", required = true, value_name = "NAME")]
    pub nameservers: Vec<String>,
    /// Record this reason in the journal and the audit log: a line of up to 255 bytes.
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Do not ask before the root zone is created.
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub server: Api,
}

#[derive(Args, Debug)]
pub struct Records {
    #[command(subcommand)]
    pub command: RecordsCommand,
}

#[derive(Debug, Subcommand)]
pub enum RecordsCommand {
    /// List record sets of a zone.
    #[command(after_help = "Example:\n  dunlin records list example.org --prefix web --type A")]
    List(ListSets),
    /// Show one record set.
    #[command(after_help = "Example:\n  dunlin records get example.org www.example.org A")]
    Get(OneSet),
    /// Write one record set, replacing its records: show the difference, and refuse if another
    /// client changed it meanwhile.
    #[command(after_help = "Examples:\n  \
        dunlin records set example.org www.example.org A --ttl 60 192.0.2.1 192.0.2.2\n  \
        dunlin records set example.org www A --check web 192.0.2.1 --tier 1=198.51.100.1\n  \
        dunlin records set example.org www A --policy weighted --weight 9=192.0.2.1 \
        --weight 1=192.0.2.2\n  \
        dunlin records set example.org www A --policy nearest --location eu/fra1=192.0.2.1 \
        --location us=192.0.2.2")]
    Set(Box<SetSet>),
    /// Delete one record set.
    #[command(after_help = "Example:\n  dunlin records delete example.org www.example.org A\n  \
        dunlin records delete example.org www.example.org A --if-match 12 --reason 'moved'")]
    Delete(DeleteSet),
    /// Import the record sets of a file into a zone: show the difference, then write only that.
    ///
    /// Up to 10 000 changes are atomic. More are written 10 000 at a time.
    ///
    /// An import that deletes more than half of the record sets of the zone, and at least 20, is
    /// held, and so is a zone file that does not end with a newline: its end may be missing. Then
    /// nothing is changed, and the exit status is 1. `--accept-loss` makes the changes
    /// nevertheless.
    #[command(after_help = "Examples:\n  \
        dunlin records import example.org example.org.zone --dry-run\n  \
        generate | dunlin records import example.org - --replace --yes\n  \
        dunlin records import example.org sets.ndjson --replace --yes\n  \
        dunlin records import example.org huge.ndjson --stream")]
    Import(ImportSets),
    /// Write all record sets of a zone to standard output.
    #[command(after_help = "Example:\n  \
        dunlin records export example.org --format zone > example.org.zone")]
    Export(Export),
}

#[derive(Args, Debug)]
pub struct ListSets {
    /// Zone to list.
    #[arg(value_name = "ZONE")]
    pub zone: String,
    /// List only names whose first label begins so: h9 finds h99, h9.prod finds h99.prod.
    #[arg(long, value_name = "TEXT")]
    pub prefix: Option<String>,
    /// List only this type.
    #[arg(long = "type", value_name = "TYPE")]
    pub rtype: Option<String>,
    /// List the record sets of this view, instead of those of all clients.
    #[arg(long, value_name = "VIEW")]
    pub view: Option<String>,
    #[command(flatten)]
    pub server: Api,
}

#[derive(Args, Debug)]
pub struct OneSet {
    /// Zone of the record set.
    #[arg(value_name = "ZONE")]
    pub zone: String,
    /// Name in the zone: `www.example.org`, or `www`; `@` is the zone itself.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Type, such as AAAA.
    #[arg(value_name = "TYPE")]
    pub rtype: String,
    /// Take the record set of this view, instead of that of all clients.
    #[arg(long, value_name = "VIEW")]
    pub view: Option<String>,
    #[command(flatten)]
    pub server: Api,
}

#[derive(Args, Debug)]
pub struct SetSet {
    #[command(flatten)]
    pub set: OneSet,
    /// Answer only addresses that pass this check.
    #[arg(long, value_name = "CHECK")]
    pub check: Option<String>,
    /// Answer by this policy: `all`, `failover` by the tiers of the members, `nearest` by their
    /// locations, or with one record: `one`, `weighted`, or `hash` by the client's address.
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<String>,
    /// Order the records of an answer: `random`, `weighted`, or `hash` by the client's address.
    #[arg(long, value_name = "ORDER")]
    pub then: Option<String>,
    /// Limit each answer to this many records.
    #[arg(long, value_name = "NUMBER")]
    pub max: Option<u16>,
    /// With fewer addresses up than this number or share (`50%`), answer others, too.
    #[arg(long, value_name = "NUMBER")]
    pub min_up: Option<String>,
    /// If no address is up, answer those that are down (`open`, the default) or none (`closed`).
    #[arg(long, value_name = "HOW", value_parser = ["open", "closed"])]
    pub fail: Option<String>,
    /// Add an address of this tier, 1 or more: it is answered only if no address of a lower tier is
    /// healthier. Those without this option have tier 0. It implies `--policy failover`.
    #[arg(long, value_name = "TIER=ADDRESS", value_parser = read_tier)]
    pub tier: Vec<(u8, String)>,
    /// Give a record this weight, and add it if it is not among the others. Those without this
    /// option have weight 1. One of weight 0 is answered only if no other is left. `10/5m` becomes
    /// 10 over five minutes, from the weight that the record has or, with `2..10/5m`, from 2.
    #[arg(long, value_name = "WEIGHT=DATA", value_parser = read_weight)]
    pub weight: Vec<(Value, String)>,
    /// Say where a record is, such as eu/fra1/a, and add it if it is not among the others.
    #[arg(long, value_name = "LOCATION=DATA", value_parser = read_location)]
    pub location: Vec<(String, String)>,
    /// Attach a comment to the record set: up to 255 bytes.
    #[arg(long, value_name = "TEXT")]
    pub comment: Option<String>,
    #[command(flatten)]
    pub options: WriteOptions,
    /// Set the TTL: seconds, or a number with a unit, such as 90s, 5m, 1h or 2d.
    #[arg(long, value_name = "TTL", default_value = "300", value_parser = read_seconds)]
    pub ttl: u32,
    /// Show what would change, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Data of each record, after `--` if it begins with a hyphen. Names in it are absolute, with
    /// or without the final dot. Data of TXT is one text.
    #[arg(value_name = "DATA", required_unless_present_any = ["tier", "weight", "location"])]
    pub data: Vec<String>,
}

#[derive(Args, Debug)]
pub struct DeleteSet {
    #[command(flatten)]
    pub set: OneSet,
    #[command(flatten)]
    pub options: WriteOptions,
    /// Show what would change, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Args, Debug)]
pub struct ImportSets {
    /// Zone to change.
    #[arg(value_name = "ZONE")]
    pub zone: String,
    /// File to import; `-` is standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Read the file as this format. Default: NDJSON for .ndjson and .jsonl, else a zone file.
    #[arg(long, value_enum)]
    pub format: Option<ZoneFormat>,
    /// Delete record sets that are in the zone but not in the file.
    #[arg(long)]
    pub replace: bool,
    /// Show what would change, and change nothing.
    #[arg(long, conflicts_with = "stream")]
    pub dry_run: bool,
    /// Import although most record sets are deleted, or the file does not end with a newline.
    #[arg(long)]
    pub accept_loss: bool,
    /// Skip the confirmation.
    #[arg(long)]
    pub yes: bool,
    /// Send the file without comparing it: for millions of records. The import is not atomic. The
    /// first invalid line ends it, and lines already sent are written.
    #[arg(long, conflicts_with = "replace")]
    pub stream: bool,
    #[command(flatten)]
    pub options: WriteOptions,
    #[command(flatten)]
    pub server: Api,
}

#[derive(Args, Debug)]
pub struct Export {
    /// Zone to export.
    #[arg(value_name = "ZONE")]
    pub zone: String,
    /// Write the zone in this format.
    #[arg(long, value_enum, default_value_t = ZoneFormat::Ndjson)]
    pub format: ZoneFormat,
    /// Write only the record sets of this view. Default: NDJSON has all, a zone file those of all
    /// clients.
    #[arg(long, value_name = "VIEW")]
    pub view: Option<String>,
    #[command(flatten)]
    pub server: Api,
}

/// The file format of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ZoneFormat {
    /// One record set per line, as JSON.
    Ndjson,
    /// A zone file.
    Zone,
}

impl ZoneFormat {
    /// The media type.
    pub fn media(self) -> &'static str {
        match self {
            Self::Ndjson => "application/x-ndjson",
            Self::Zone => "text/dns",
        }
    }
}

#[cfg(test)]
mod tests;
