//! The config and the notes in the making.
use crate::config::{ImportedConfig, Single};
use crate::ini::{IniEntry, IniFile};
use crate::limits::{NAMES_MAX, SERVERS_MAX};
use crate::values;
use import_report::{FilePosition, ImportResult, Remarks};

/// All rules of `[forward]` together, and their servers, as the config takes them.
const ALL_SERVERS_MAX: usize = 256;

/// The config and notes so far.
#[derive(Debug, Default)]
pub struct Importer {
    pub draft: ImportedConfig,
    notes: Remarks,
    /// Zones of `ContainerDNS`, whether users write their records, and where they are named.
    zones: Vec<(String, bool, FilePosition)>,
}

impl Importer {
    /// Adds a note about something without a counterpart.
    pub fn lost(&mut self, place: &FilePosition, text: &str) {
        self.notes.add(place, true, text);
    }

    /// Adds a note about something with a different counterpart.
    pub fn differs(&mut self, place: &FilePosition, text: &str) {
        self.notes.add(place, false, text);
    }

    /// The value, or a note about what is wrong with it.
    pub fn read<T>(
        &mut self,
        entry: &IniEntry,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = entry.value.as_deref().unwrap_or_default();
        self.accept(entry, read(text))
    }

    /// The value of a switch, or a note about what is wrong with it.
    pub fn read_switch(&mut self, entry: &IniEntry) -> Option<bool> {
        self.accept(entry, values::switch(entry.value.as_deref()))
    }

    fn accept<T>(&mut self, entry: &IniEntry, value: Result<T, String>) -> Option<T> {
        let wrong = |why| format!("{}: {why}; correct it, and import again", entry.name);
        value.map_err(|why| self.lost(&entry.value_place, &wrong(why))).ok()
    }

    /// Sets a value that a config has once. The first one counts.
    pub fn keep<T: PartialEq>(
        &mut self,
        entry: &IniEntry,
        value: T,
        slot: fn(&mut ImportedConfig) -> &mut Single<T>,
    ) {
        match slot(&mut self.draft) {
            None => *slot(&mut self.draft) = Some((value, entry.place.clone())),
            Some((before, _)) if *before == value => (),
            Some((_, first)) => {
                let text = format!(
                    "{}: {first} has another value, which counts: a dunlin.toml is of one server; \
                     import the files of each machine on their own",
                    entry.name
                );
                self.lost(&entry.value_place, &text);
            }
        }
    }

    /// Adds servers of a suffix.
    pub fn forward(&mut self, entry: &IniEntry, suffix: &str, servers: Vec<String>) {
        let count: usize = self.draft.forwards.iter().map(|(_, all)| all.len().max(1)).sum();
        let mut forwards = self.draft.forwards.iter();
        let rule = match forwards.position(|(known, _)| known == suffix) {
            Some(at) => &mut self.draft.forwards[at].1,
            None if count >= ALL_SERVERS_MAX => {
                let text =
                    format!("{}: all rules have {ALL_SERVERS_MAX} servers at most", entry.name);
                return self.lost(&entry.value_place, &text);
            }
            None => {
                self.draft.forwards.push((suffix.to_owned(), Vec::new()));
                &mut self.draft.forwards.last_mut().expect("it was pushed").1
            }
        };
        let room = SERVERS_MAX.min(rule.len() + ALL_SERVERS_MAX.saturating_sub(count));
        let mut omitted = 0;
        for server in servers {
            match rule.contains(&server) {
                true => (),
                false if rule.len() < room => rule.push(server),
                false => omitted += 1,
            }
        }
        if omitted > 0 {
            let text = format!(
                "{}: a name has at most {SERVERS_MAX} servers, and all rules {ALL_SERVERS_MAX}; \
                 {omitted} are omitted",
                entry.name
            );
            self.lost(&entry.value_place, &text);
        }
    }

    /// Adds zones, separated by `%`.
    pub fn add_zones(&mut self, entry: &IniEntry, are_of_users: bool) {
        for text in entry.value.as_deref().unwrap_or_default().split('%') {
            let Some(zone) = self.read(entry, |_| values::zone(text)) else { continue };
            if self.zones.len() == NAMES_MAX {
                let text = format!("{}: at most {NAMES_MAX} zones are imported", entry.name);
                return self.lost(&entry.value_place, &text);
            }
            self.zones.push((zone, are_of_users, entry.value_place.clone()));
        }
    }

    /// The config and the notes, in order of the files.
    pub fn finish(mut self, files: &[IniFile]) -> ImportResult {
        self.place_zones();
        self.pair_certificates();
        if self.draft.endpoints.is_none()
            && let Some((address, place)) = self.draft.api.take()
        {
            let text = format!(
                "api-address: [api] needs a store, and no etcd-servers are read: set [store] kind, \
                 then [api] listen = \"{address}\""
            );
            self.lost(&place, &text);
        }
        let order = |place: &FilePosition| {
            let file = files.iter().position(|file| *file.name == *place.file);
            (file, place.line, place.column)
        };
        let (config, notes) = (self.draft.write(), self.notes.close_by(order));
        ImportResult { config, notes, files: Vec::new(), secret_files: Vec::new() }
    }

    /// Says how each zone comes into the store. The zone of the cluster is not there.
    fn place_zones(&mut self) {
        let cluster = self.draft.kubernetes_zone.as_ref().map(|(zone, _)| zone.clone());
        for (zone, are_of_users, place) in std::mem::take(&mut self.zones) {
            if cluster.as_ref() == Some(&zone) {
                let text = format!("{zone}: it is the zone of the cluster ([kubernetes] zones)");
                match are_of_users {
                    false => self.differs(&place, &text),
                    true => self.lost(
                        &place,
                        &format!(
                            "{text}, which has no other records: give those of users a zone of \
                             their own"
                        ),
                    ),
                }
            } else if self.draft.endpoints.is_none() {
                let text = format!(
                    "{zone}: there is no store for its records, as no etcd-servers are read: set \
                     [store] kind, then create the zone"
                );
                self.lost(&place, &text);
            } else if !self.draft.zones.contains(&zone) {
                let text = format!(
                    "{zone}: create it with `dunlin zones create {zone} --nameserver NAME`; \
                     `dunlin import etcd --layout containerdns --zone {zone}` has its records"
                );
                self.differs(&place, &text);
                self.draft.zones.push(zone);
            }
        }
    }

    /// Leaves out certificates that do not go together.
    fn pair_certificates(&mut self) {
        let draft = &mut self.draft;
        let mut lost = Vec::new();
        let is_tls = draft
            .endpoints
            .as_ref()
            .is_some_and(|(all, _)| all.iter().all(|endpoint| endpoint.starts_with("https://")));
        if !is_tls {
            let text = "the URLs of etcd are not of TLS, so this file is not used: write https://";
            for file in [&mut draft.ca, &mut draft.cert, &mut draft.key] {
                lost.extend(file.take().map(|(_, place)| (place, text)));
            }
        }
        if draft.cert.is_some() != draft.key.is_some() {
            let text = "a certificate and its key are needed: name both";
            let alone = draft.cert.take().or(draft.key.take());
            lost.extend(alone.map(|(_, place)| (place, text)));
        }
        for (place, text) in lost {
            self.lost(&place, text);
        }
        if let Some((_, place)) = &self.draft.endpoints
            && is_tls
            && self.draft.ca.is_none()
        {
            let place = place.clone();
            let text = "etcd-cafile is not set: ContainerDNS trusts the CAs of the system, the \
                        config names their file on Debian and Ubuntu";
            self.differs(&place, text);
            self.draft.ca = Some(("/etc/ssl/certs/ca-certificates.crt".to_owned(), place));
        }
    }
}
