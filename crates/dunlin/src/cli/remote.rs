//! The commands that speak with the REST API.
use crate::cli::Output;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Which server is asked, as whom, and how its answer is written.
#[derive(Args, Debug)]
pub struct Api {
    /// Where the API is: without this, DUNLIN_API, or else http://127.0.0.1:8053.
    #[arg(long, value_name = "URL")]
    pub api: Option<String>,
    /// A file with the token; without this, DUNLIN_TOKEN is the token.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// PEM file of those who may sign the server's certificate; without it, whom the system trusts.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Our own certificate, PEM, instead of a token.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Its key, PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// How the result is written.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

#[derive(Args, Debug)]
pub struct Zones {
    #[command(subcommand)]
    pub act: ZonesAct,
}

#[derive(Debug, Subcommand)]
pub enum ZonesAct {
    /// Lists the zones, and who says what each holds.
    #[command(after_help = "Example:\n  dunlin zones list -o json | jq '.zones[].name'")]
    List(Api),
    /// Shows one zone.
    #[command(after_help = "Example:\n  dunlin zones show example.org")]
    Show(OneZone),
    /// Makes a zone in the store.
    #[command(after_help = "Example:\n  \
        dunlin zones create example.org --nameserver ns1.example.net.")]
    Create(CreateZone),
    /// Deletes a zone of the store, with all it holds.
    #[command(after_help = "Example:\n  dunlin zones delete example.org")]
    Delete(DeleteZone),
    /// Writes all zones of the store into a file, as they are at one moment.
    ///
    /// They are served and written meanwhile. It needs a grant to read all zones, `read *`. The
    /// file is checked before it takes the place of one that was there.
    #[command(after_help = "Example:\n  dunlin zones snapshot backup.records")]
    Snapshot(TakeSnapshot),
    /// Takes what a snapshot holds for all that is in the store: all of it, or nothing.
    ///
    /// It needs a grant to write, make and delete all zones, `write,zones *`. Serials and revisions
    /// go on, they never go back.
    #[command(after_help = "Example:\n  dunlin zones restore backup.records")]
    Restore(RestoreSnapshot),
}

#[derive(Args, Debug)]
pub struct TakeSnapshot {
    /// The file. What it held is replaced once the snapshot is whole.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub server: Api,
}

#[derive(Args, Debug)]
pub struct RestoreSnapshot {
    /// The file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Does not ask whether it is meant so.
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub server: Api,
}

#[derive(Args, Debug)]
pub struct OneZone {
    /// The zone.
    #[arg(value_name = "ZONE")]
    pub zone: String,
    #[command(flatten)]
    pub server: Api,
}

#[derive(Args, Debug)]
pub struct DeleteZone {
    #[command(flatten)]
    pub zone: OneZone,
    /// Does not ask whether it is meant so.
    #[arg(long)]
    pub yes: bool,
}

#[derive(Args, Debug)]
pub struct CreateZone {
    /// The zone.
    #[arg(value_name = "ZONE")]
    pub zone: String,
    /// A name server; without a final dot it lies in the zone. Several may be given.
    #[arg(long = "nameserver", required = true, value_name = "NAME")]
    pub nameservers: Vec<String>,
    #[command(flatten)]
    pub server: Api,
}

#[derive(Args, Debug)]
pub struct Records {
    #[command(subcommand)]
    pub act: RecordsAct,
}

#[derive(Debug, Subcommand)]
pub enum RecordsAct {
    /// Lists record sets of a zone.
    #[command(after_help = "Example:\n  dunlin records list example.org --prefix web --type A")]
    List(ListSets),
    /// Shows one record set.
    #[command(after_help = "Example:\n  dunlin records get example.org www.example.org A")]
    Get(OneSet),
    /// Writes one record set, whatever it held: shows what changes, and refuses if somebody else
    /// was faster.
    #[command(after_help = "Example:\n  \
        dunlin records set example.org www.example.org A --ttl 60 192.0.2.1 192.0.2.2")]
    Set(SetSet),
    /// Deletes one record set.
    #[command(after_help = "Example:\n  dunlin records delete example.org www.example.org A")]
    Delete(DeleteSet),
    /// Makes a zone hold what a file does: shows what changes, then changes that alone.
    ///
    /// Up to 10 000 changes are all done or none; more are done 10 000 at a time.
    #[command(after_help = "Examples:\n  \
        dunlin records import example.org example.org.zone --dry-run\n  \
        dunlin records import example.org sets.ndjson --replace --yes\n  \
        dunlin records import example.org huge.ndjson --stream")]
    Import(ImportSets),
    /// Writes all record sets of a zone.
    #[command(after_help = "Example:\n  \
        dunlin records export example.org --format zone > example.org.zone")]
    Export(Export),
}

#[derive(Args, Debug)]
pub struct ListSets {
    /// The zone.
    #[arg(value_name = "ZONE")]
    pub zone: String,
    /// Only names that begin so, relative to the zone.
    #[arg(long, value_name = "TEXT")]
    pub prefix: Option<String>,
    /// Only this type.
    #[arg(long = "type", value_name = "TYPE")]
    pub rtype: Option<String>,
    #[command(flatten)]
    pub server: Api,
}

#[derive(Args, Debug)]
pub struct OneSet {
    /// The zone.
    #[arg(value_name = "ZONE")]
    pub zone: String,
    /// The name, absolute.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The type, such as AAAA.
    #[arg(value_name = "TYPE")]
    pub rtype: String,
    #[command(flatten)]
    pub server: Api,
}

#[derive(Args, Debug)]
pub struct SetSet {
    #[command(flatten)]
    pub set: OneSet,
    /// Seconds it may be kept.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub ttl: u32,
    /// Shows what would change, and changes nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// The data of each record; behind `--` where it begins with a hyphen.
    #[arg(value_name = "DATA", required = true)]
    pub data: Vec<String>,
}

#[derive(Args, Debug)]
pub struct DeleteSet {
    #[command(flatten)]
    pub set: OneSet,
    /// Shows what would change, and changes nothing.
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Args, Debug)]
pub struct ImportSets {
    /// The zone.
    #[arg(value_name = "ZONE")]
    pub zone: String,
    /// The file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// What it is; without this, NDJSON where its name ends in .ndjson or .jsonl, else a zone file.
    #[arg(long, value_enum)]
    pub format: Option<Form>,
    /// Deletes what the zone has and the file has not.
    #[arg(long)]
    pub replace: bool,
    /// Shows what would change, and changes nothing.
    #[arg(long, conflicts_with = "stream")]
    pub dry_run: bool,
    /// Does not ask whether it is meant so.
    #[arg(long)]
    pub yes: bool,
    /// Sends the file as it is, compared with nothing: for millions of records. It is not all or
    /// nothing: the first line that is wrong ends it, and what was on its way is written.
    #[arg(long, conflicts_with = "replace")]
    pub stream: bool,
    #[command(flatten)]
    pub server: Api,
}

#[derive(Args, Debug)]
pub struct Export {
    /// The zone.
    #[arg(value_name = "ZONE")]
    pub zone: String,
    /// What it is written as.
    #[arg(long, value_enum, default_value_t = Form::Ndjson)]
    pub format: Form,
    #[command(flatten)]
    pub server: Api,
}

/// What a zone is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A record set a line, as JSON.
    Ndjson,
    /// A zone file.
    Zone,
}

impl Form {
    /// The media type.
    pub fn media(self) -> &'static str {
        match self {
            Self::Ndjson => "application/x-ndjson",
            Self::Zone => "text/dns",
        }
    }
}
