//! The arguments of `dunlin sites`.
use super::AdminServer;
use clap::{Args, Subcommand};

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Sites {
    #[command(subcommand)]
    pub command: Option<SitesCommand>,
    #[command(flatten)]
    pub server: AdminServer,
}

#[derive(Debug, Subcommand)]
pub enum SitesCommand {
    /// Accept what the etcd of a site has, although it is another one, or has lost most records.
    ///
    /// Run it on each server of this site. Nothing is written to that etcd. One that is older than
    /// what is served is refused: run `dunlin fleet adopt` there, and it is followed again by
    /// itself.
    #[command(after_help = "Example:\n  dunlin sites accept fra1")]
    Accept(AcceptSite),
}

#[derive(Args, Debug)]
pub struct AcceptSite {
    /// The name of the site.
    pub site: String,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub server: AdminServer,
}
