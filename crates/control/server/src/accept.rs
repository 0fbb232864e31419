//! Accepts a held zone: serves the held content, or reads its file again.
use crate::server::Server;
use command_line::count;
use server_status::HeldZone;
use server_status::command::AcceptedZone;
use server_status::{HostsStatus, ZoneStatus};
use wire::{Name, NameBuf};
use zone_manager::Stopped;
use zone_manager::hold::Acceptance;

impl Server {
    /// Serves the held content of one zone or of all zones, and waits until their files are read
    /// again.
    ///
    /// # Errors
    /// There is no such zone, it is not held, or the server is starting or ending.
    pub async fn accept(&self, zone: Option<String>) -> Result<Vec<AcceptedZone>, String> {
        let _turn = self.stage.reload().await;
        if let Some(why) = self.reload_refusal() {
            return Err(why);
        }
        let is_all = zone.is_none();
        let names = match zone {
            Some(zone) => vec![zone],
            None => self.sources.control.holds().all().into_keys().collect(),
        };
        let mut accepted = Vec::new();
        for text in names {
            // A layer was accepted with a zone of the same source.
            if is_all && self.sources.control.holds().held(&text).is_none() {
                continue;
            }
            let zone = self.accept_one(&text).await?;
            accepted.push(zone);
        }
        Ok(accepted)
    }

    /// Serves the held content of a zone, or of a hosts file, if its name is one.
    async fn accept_one(&self, text: &str) -> Result<AcceptedZone, String> {
        let is_hosts = self.sources.zones.hosts().iter().any(|hosts| hosts.file == text);
        let name = match is_hosts {
            true => None,
            false => Some(
                NameBuf::from_text(text.as_bytes(), Name::ROOT)
                    .map_err(|why| format!("{text:?} is not a name: {why}"))?,
            ),
        };
        let zone = name.as_ref().map_or_else(|| text.to_owned(), key);
        match self.sources.control.accept(&zone).await.map_err(|Stopped| Stopped.to_string())? {
            Acceptance::Served(held) => {
                let (names_served, names_held) = (held.had, held.has);
                tracing::info!(zone, names_served, names_held, "held content accepted");
                let image = self.sources.control.image();
                let serial = name.and_then(|name| image.zone(name.as_name())?.serial());
                Ok(AcceptedZone { zone, had: held.had, has: held.has, serial, waits: None })
            }
            Acceptance::GiveAgain(held) => {
                let (names_served, names_in_file) = (held.had, held.has);
                tracing::info!(
                    zone,
                    names_served,
                    names_in_file,
                    "held content accepted: its file is read again"
                );
                let load_id = match name {
                    Some(name) => self.sources.zones.load(name),
                    None => self.sources.zones.load_hosts(text.into()),
                };
                self.sources.zones.wait(load_id).await;
                Ok(outcome(zone.clone(), held, self.file_status(&zone, is_hosts)))
            }
            Acceptance::NotHeld if is_hosts => Err(format!(
                "{text} is not held: `dunlin status` shows the zones and hosts files that are"
            )),
            Acceptance::NotHeld if self.file_status(&zone, false).is_some() => {
                Err(format!("{zone} is not held: `dunlin status` shows the zones that are"))
            }
            Acceptance::NotHeld => Err(format!(
                "{zone} is not a zone loaded from a file: `dunlin status --zones` lists those zones"
            )),
        }
    }

    /// The status of a zone that is loaded from a file, or of a hosts file as if it were one.
    fn file_status(&self, zone: &str, is_hosts: bool) -> Option<ZoneStatus> {
        if !is_hosts {
            return self.sources.zones.status().into_iter().find(|status| status.name == zone);
        }
        let hosts = self.sources.zones.hosts().into_iter().find(|hosts| hosts.file == zone)?;
        let HostsStatus { held, errors, .. } = hosts;
        Some(ZoneStatus { held, errors, ..ZoneStatus::default() })
    }
}

/// The name of a zone in status and holds.
fn key(name: &NameBuf) -> String {
    name.to_string().to_ascii_lowercase()
}

/// The result for a zone whose hold was accepted.
fn outcome(zone: String, held: HeldZone, status: Option<ZoneStatus>) -> AcceptedZone {
    let status = status.unwrap_or_default();
    let waits = if let Some(held) = status.held {
        let (had, has) = (count(held.had), count(held.has));
        let why = held.reason();
        Some(format!("the file has changed since, and is held: it {why} ({has} of {had} names)"))
    } else if status.writing_seconds.is_some() {
        Some("the file is being written, and is served once its writer has closed it".into())
    } else {
        status.errors.first().map(|error| format!("the file has an error: {error}"))
    };
    AcceptedZone { zone, had: held.had, has: held.has, serial: status.serial, waits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcome_says_whether_the_file_is_served_and_why_not() {
        let held =
            HeldZone { had: 2_000, has: 12, since_seconds: 1.0, is_cut: false, lost_most: true };
        let zone = |edit: fn(&mut ZoneStatus)| {
            let mut status = ZoneStatus { serial: Some(7), ..ZoneStatus::default() };
            edit(&mut status);
            outcome("a.test.".into(), held, Some(status))
        };
        let served = zone(|_| ());
        assert_eq!((served.had, served.has, served.serial), (2_000, 12, Some(7)));
        assert_eq!(served.waits, None);
        let waits = |edit| zone(edit).waits.expect("it is not served");
        let more =
            waits(|it| it.held = Some(HeldZone { has: 3, had: 2_000, ..HeldZone::default() }));
        assert!(more.contains("3 of 2,000 names"), "{more}");
        let writing = waits(|it| it.writing_seconds = Some(1.0));
        assert!(writing.contains("being written"), "{writing}");
        let wrong = waits(|it| it.errors = vec!["a:1:1: no".into()]);
        assert!(wrong.contains("has an error: a:1:1: no"), "{wrong}");
    }
}
