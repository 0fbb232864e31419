//! `dunlin sites`: other sites whose zones the server serves.
use crate::cli::{self, AcceptSite, AdminServer, Output, SitesCommand};
use crate::local::LocalClient;
use crate::remote::client::CommandResult;
use crate::remote::confirm;
use command_line::{Side, align, count, format_bytes, plain, short, span};
use serde::Serialize;
use server_status::SiteStatus;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Sends the command to the server and prints the result. The exit status is 1 if a site is not
/// followed, or one of its zones is not served.
///
/// # Errors
/// The server cannot be reached or refuses, or the result cannot be written.
pub fn run(command: &cli::Sites) -> CommandResult<ExitCode> {
    match &command.command {
        Some(SitesCommand::Accept(command)) => accept(command),
        None => show(&command.server),
    }
}

fn show(server: &AdminServer) -> CommandResult<ExitCode> {
    let sites = LocalClient::new(&server.local)?.sites()?;
    let mut out = io::stdout().lock();
    match server.output {
        Output::Json => write_json(&mut out, &sites)?,
        Output::Text => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            out.write_all(text(&sites, now.as_secs_f64()).as_bytes())?;
        }
    }
    let is_right = |site: &SiteStatus| site.is_following && faults(site).is_empty();
    Ok(if sites.iter().all(is_right) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn accept(command: &AcceptSite) -> CommandResult<ExitCode> {
    let site = &command.site;
    let what = format!(
        "replace the zones of the site {site} on this server by what its etcd has: what is not \
         there is not answered any more"
    );
    confirm(command.yes, &what)?;
    let receipt = LocalClient::new(&command.server.local)?.accept_site(site)?;
    let mut out = io::stdout().lock();
    match command.server.output {
        Output::Json => write_json(&mut out, &receipt)?,
        Output::Text => {
            let revision = &receipt["revision"];
            writeln!(out, "the etcd of {} is accepted, at revision {revision}", plain(site))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What is wrong with a site, a line each.
fn faults(site: &SiteStatus) -> Vec<String> {
    let listed = |what: &str, zones: &[String]| {
        let zones: Vec<String> = zones.iter().map(|zone| plain(zone)).collect();
        (!zones.is_empty()).then(|| format!("{what}: {}", zones.join(", ")))
    };
    let texts = [&site.fault, &site.unsaved, &site.unreadable];
    let texts = texts.into_iter().flatten().map(|why| plain(why));
    let refused = listed("not served, a zone has one home", &site.refused);
    let missing = listed("zones that it does not have", &site.missing);
    let full = site.fullness().map(|how| format!("its etcd is {how}"));
    texts.chain([refused, missing, full].into_iter().flatten()).collect()
}

/// The sites as a table, and what is wrong.
fn text(sites: &[SiteStatus], now: f64) -> String {
    if sites.is_empty() {
        return "no other site is configured: see [[site]] in docs/sites.md\n".into();
    }
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let head = [
        "SITE", "STATE", "LAG", "CONTACT", "REVISION", "DELAY", "BYTES/S", "ETCD", "FULL IN",
        "ZONES", "LOCATION",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    for site in sites {
        let state = match (site.is_following, &site.fault) {
            (true, _) => "followed",
            (false, Some(_)) => "not followed",
            (false, None) => "connecting",
        };
        let ago = |when: f64| format!("{} ago", span((now - when).max(0.0)));
        let size = (site.etcd_bytes > 0).then(|| {
            format!("{} of {}", format_bytes(site.etcd_bytes), format_bytes(site.etcd_quota_bytes))
        });
        rows.push([
            plain(&site.name),
            state.to_owned(),
            or_none(site.lag_seconds.map(|lag| if lag > 0.0 { span(lag) } else { "0".into() })),
            or_none(site.contact_seconds.map(ago)),
            count(site.revision),
            or_none(site.delay_seconds.map(short)),
            format_bytes(site.bytes_per_second as u64),
            or_none(size),
            or_none(site.etcd_full_days.map(|days| format!("{days:.0} days"))),
            count(site.zones),
            plain(site.location.as_deref().unwrap_or("-")),
        ]);
    }
    let mut sides = [Side::Right; 11];
    for left in [0, 1, 10] {
        sides[left] = Side::Left;
    }
    let lines = align(sides, &rows).into_iter().map(|line| line + "\n");
    let of_site = |site: &SiteStatus| {
        let name = plain(&site.name);
        faults(site).into_iter().map(move |fault| format!("{name}: {fault}\n"))
    };
    lines.chain(sites.iter().flat_map(of_site)).collect()
}

fn write_json(out: &mut impl Write, value: &impl Serialize) -> CommandResult<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    Ok(writeln!(out)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_a_table_and_faults_follow() {
        let right = SiteStatus {
            name: "fra1".into(),
            location: Some("eu/fra1\u{1b}[0m".into()),
            is_following: true,
            contact_seconds: Some(990.0),
            lag_seconds: Some(0.0),
            revision: 1_234,
            delay_seconds: Some(0.012),
            bytes_per_second: 2_048.0,
            etcd_bytes: 64 << 20,
            etcd_quota_bytes: 2 << 30,
            etcd_full_days: Some(91.4),
            zones: 2,
            ..SiteStatus::default()
        };
        let away = SiteStatus {
            name: "ams1".into(),
            lag_seconds: Some(600.0),
            fault: Some("no connection".into()),
            refused: vec!["a.example. (it is of the store)".into()],
            ..SiteStatus::default()
        };
        let text = text(&[right, away], 1_000.0);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("SITE") && lines[0].ends_with("LOCATION"), "{text}");
        for part in ["followed", "10 s ago", "1,234", "12 ms", "64.0 MiB of 2.0 GiB", "91 days"] {
            assert!(lines[1].contains(part), "{part}: {text}");
        }
        assert!(lines[2].contains("not followed") && lines[2].contains("10 min"), "{text}");
        assert_eq!(lines[3], "ams1: no connection");
        assert_eq!(
            lines[4],
            "ams1: not served, a zone has one home: a.example. (it is of the store)"
        );
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
