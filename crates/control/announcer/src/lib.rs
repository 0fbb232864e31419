//! Announces the addresses of the config: from the config to the keeper of their routes.
//!
//! [`start_keeper`] starts the keeper before privileges are dropped. [`Announcer`] decides while
//! the server runs. The mechanism of both is in `anycast`.
#![forbid(unsafe_code)]

mod announcer;
mod limits;
mod withdrawal_file;

pub use announcer::Announcer;

use admin::SharedKeeper;
use anycast::{Announcement, Link, PassedLink, ProbeTarget};
use config::{Anycast, Config, Diagnostic, holds};
use handler::{OwnQuery, TOKEN_LEN};
use std::error::Error;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// What is announced; `None`: nothing.
fn announcement(config: &Config) -> Option<Announcement> {
    let Anycast { addresses, table, .. } = &config.anycast;
    let announcement = Announcement { addresses: addresses.clone(), table: *table };
    (config.server.roles.dns && !addresses.is_empty()).then_some(announcement)
}

/// Adds the addresses to the interface, if the server is to do that: before sockets are opened at
/// them.
///
/// # Errors
/// The kernel refuses.
pub fn add_addresses(config: &Config) -> Result<(), Box<dyn Error>> {
    match announcement(config).filter(|_| config.anycast.add_addresses) {
        Some(announcement) => anycast::add_addresses(&announcement, &config.anycast.interface)
            .map_err(|why| format!("[anycast] add_addresses: {why}").into()),
        None => Ok(()),
    }
}

/// A keeper, and the token of the server's queries to itself.
pub struct StartedKeeper {
    link: Link,
    token: [u8; TOKEN_LEN],
}

/// The keeper of the old process of a hot restart, if it was started for the same; else starts the
/// starter of a keeper: before privileges are dropped and before any thread starts. Says what will
/// keep the addresses from being announced; the server starts all the same.
///
/// # Errors
/// No process can be started, or the kernel returns no random bytes.
pub fn start_keeper(
    config: &Config,
    passed: Option<SharedKeeper>,
) -> Result<Option<StartedKeeper>, Box<dyn Error>> {
    let Some(announcement) = announcement(config) else { return Ok(None) };
    let Anycast { interface, add_addresses, .. } = &config.anycast;
    for finding in anycast::find_problems(&announcement, interface, *add_addresses) {
        match finding.is_error {
            true => tracing::error!("[anycast] {}", finding.text),
            false => tracing::warn!("[anycast] {}", finding.text),
        }
    }
    // While both processes serve the same sockets, each gets queries of the other.
    let token = match passed.as_ref().and_then(|passed| passed.token[..].try_into().ok()) {
        Some(token) => token,
        None => random_token()?,
    };
    let own_terms = terms(&announcement, config);
    if let Some(passed) = passed.filter(|passed| passed.terms == own_terms) {
        let SharedKeeper { socket, starter, is_announced, .. } = passed;
        let link = Link::receive(PassedLink { socket, starter }, is_announced);
        return Ok(Some(StartedKeeper { link, token }));
    }
    let mut command = own_command("anycast-starter", &announcement);
    let (user, group) = (&config.server.user, &config.server.group);
    command.args(["--user", user, "--group", group]).process_group(0);
    let link = Link::start(command);
    let link = link.map_err(|why| format!("[anycast] the keeper cannot be started: {why}"))?;
    Ok(Some(StartedKeeper { link, token }))
}

fn random_token() -> Result<[u8; TOKEN_LEN], getrandom::Error> {
    let mut token = [0; TOKEN_LEN];
    getrandom::fill(&mut token)?;
    Ok(token)
}

/// What a keeper is started for. One that was started for anything else is not passed on: its
/// messages, its routes or its rights are not those of this process.
fn terms(announcement: &Announcement, config: &Config) -> Vec<String> {
    let (user, group) = (config.server.user.clone(), config.server.group.clone());
    let own = [anycast::VERSION.to_string(), user, group];
    own.into_iter().chain(Link::arguments(announcement)).collect()
}

/// A command of this program for one of the processes beside the server.
pub fn own_command(name: &str, announcement: &Announcement) -> Command {
    let mut command = process::own_command(name);
    command.args(Link::arguments(announcement));
    command
}

/// The fault of this machine and config for an announcement: errors and warnings.
pub fn check(config: &Config, file: &Path) -> (Vec<Diagnostic>, Vec<Diagnostic>) {
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    let Some(announcement) = announcement(config) else { return (errors, warnings) };
    let Anycast { interface, add_addresses, .. } = &config.anycast;
    let of_file = |text: &str| Diagnostic::of_file(file, format!("[anycast] {text}"));
    for finding in anycast::find_problems(&announcement, interface, *add_addresses) {
        let found = if finding.is_error { &mut errors } else { &mut warnings };
        found.push(of_file(&finding.text));
    }
    for ip in &announcement.addresses {
        let listen = &config.server.listen;
        if !listen.iter().any(|one| holds(one, &SocketAddr::new(*ip, one.port()))) {
            errors.push(of_file(&format!(
                "no address of [server] listen receives queries for {ip}: add it there"
            )));
        }
    }
    (errors, warnings)
}

/// The queries through the announced addresses: each at the first port that receives them.
pub fn probe_targets(config: &Config, listen: &[SocketAddr], query: &OwnQuery) -> Vec<ProbeTarget> {
    let of_address = |ip| {
        let at = |one: &SocketAddr| SocketAddr::new(ip, one.port());
        let at = listen.iter().find(|one| holds(one, &at(one))).map(at)?;
        let (query, text) = (query.message().to_vec(), query.token().to_vec());
        Some(ProbeTarget { at, query, text })
    };
    config.anycast.addresses.iter().copied().filter_map(of_address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(Path::new("f"), text).expect("a config")
    }

    #[test]
    fn each_address_is_probed_at_a_port_that_receives_its_queries() {
        let config = config("anycast.addresses = [\"192.0.2.53\", \"2001:db8::53\"]");
        let listen = |all: &[&str]| all.iter().map(|one| one.parse().expect("one")).collect();
        let targets = |all: &[&str]| {
            let listen: Vec<SocketAddr> = listen(all);
            let query = OwnQuery::new([7; TOKEN_LEN]);
            let targets = probe_targets(&config, &listen, &query).into_iter();
            targets.map(|target| target.at.to_string()).collect::<Vec<_>>()
        };
        let both = ["192.0.2.53:53", "[2001:db8::53]:5353"];
        assert_eq!(targets(&["192.0.2.53:53", "[::]:5353", "0.0.0.0:5300"]), both);
        assert_eq!(targets(&["127.0.0.1:53"]), [""; 0]);
    }

    #[test]
    fn address_that_no_socket_receives_is_an_error_of_the_check() {
        let listen = "server.listen = [\"127.0.0.1:53\"]\n";
        let config = config(&format!("{listen}anycast.addresses = [\"192.0.2.53\"]"));
        let (errors, _) = check(&config, Path::new("f"));
        let found =
            errors.iter().any(|one| one.message.contains("receives queries for 192.0.2.53"));
        assert!(found, "{errors:?}");
        assert_eq!(
            check(&Config::load(None).expect("defaults"), Path::new("f")),
            Default::default()
        );
    }
}
