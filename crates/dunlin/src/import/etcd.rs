//! `dunlin import etcd`: the keys of other servers in etcd become record sets.
use crate::cli::{EtcdLayout, ImportEtcd};
use client::local::{LocalClient, SetsError};
use import_etcd::{Entry, FollowedKeys, Imported, Layout, Source, fetch, import};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::error::Error;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::slice::from_ref;
use std::thread;
use std::time::Duration;
use wire::NameBuf;

/// Between two attempts to follow the keys.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Changes of one request.
const CHANGES_MAX: usize = 1_000;

/// Writes the sets to standard output, and what is lost to standard error; or follows the keys.
///
/// # Errors
/// The zone is no name, etcd cannot be read, or the output not be written.
pub fn run(command: &ImportEtcd) -> Result<ExitCode, Box<dyn Error>> {
    let layout = match command.layout {
        EtcdLayout::Skydns => Layout::SkyDns,
        EtcdLayout::Containerdns => Layout::ContainerDns,
        EtcdLayout::Kdns => Layout::Kdns,
    };
    let zone = zonefile::read_name(&command.zone.to_ascii_lowercase())
        .map_err(|why| format!("--zone {:?} {why}", command.zone))?;
    let prefix = command.prefix.as_deref().unwrap_or(layout.prefix());
    let source = Source {
        endpoints: command.endpoints.clone(),
        ca: command.ca.clone(),
        identity: command.cert.clone().zip(command.key.clone()),
        user: command.user.clone().zip(command.password_file.clone()),
    };
    if command.follow {
        return Follower::new(command, layout, prefix, zone)?.run(&source);
    }
    let entries = fetch(&source, prefix)?;
    let imported = import(&entries, layout, prefix, zone.as_name());
    let mut out = BufWriter::new(io::stdout().lock());
    for set in &imported.sets {
        serde_json::to_writer(&mut out, set)?;
        out.write_all(b"\n")?;
    }
    out.flush()?;
    let mut log = io::stderr().lock();
    for note in &imported.notes {
        writeln!(log, "{note}")?;
    }
    writeln!(log, "{}", summary(entries.len(), &imported, &zone))?;
    let is_lost = imported.notes.iter().any(|note| note.is_lost);
    Ok(if is_lost { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn summary(keys: usize, imported: &Imported, zone: &NameBuf) -> String {
    let lost = imported.notes.iter().filter(|note| note.is_lost).count();
    let (sets, elsewhere) = (imported.sets.len(), imported.elsewhere);
    format!(
        "{keys} keys: {sets} record sets of {zone}; {elsewhere} keys of other zones, {lost} lost"
    )
}

/// A set by its name and type, without these, as the API takes it.
type Sets = BTreeMap<(String, String), Value>;

/// Makes the changes of the keys in a zone of a server.
struct Follower<'c> {
    command: &'c ImportEtcd,
    layout: Layout,
    prefix: &'c str,
    zone: NameBuf,
    server: LocalClient,
    /// The sets of the zone that come from keys; `None`: nothing was written yet.
    known: Option<Sets>,
    /// Remarks already reported about the keys that are there.
    notes: BTreeSet<String>,
}

impl<'c> Follower<'c> {
    fn new(
        command: &'c ImportEtcd,
        layout: Layout,
        prefix: &'c str,
        zone: NameBuf,
    ) -> Result<Self, Box<dyn Error>> {
        let server = LocalClient::new(&command.local)?;
        let (known, notes) = (None, BTreeSet::new());
        Ok(Self { command, layout, prefix, zone, server, known, notes })
    }

    /// Follows until it is interrupted. What fails at the begin is an error.
    fn run(mut self, source: &Source) -> Result<ExitCode, Box<dyn Error>> {
        loop {
            let Err(why) = self.follow(source);
            if self.known.is_none() {
                return Err(why.into());
            }
            eprintln!("{why}; everything is read again");
            thread::sleep(RETRY_PAUSE);
        }
    }

    fn follow(&mut self, source: &Source) -> Result<Infallible, String> {
        let mut followed = FollowedKeys::begin(source, self.prefix)?;
        if followed.entries().is_empty() && (self.command.delete || self.known.is_some()) {
            return Err(format!("no key is below /{}/: nothing is deleted", self.prefix));
        }
        loop {
            self.apply(followed.entries())?;
            followed.wait()?;
        }
    }

    /// The sets of the zone to delete unless a key has them.
    fn before(&self) -> Result<Sets, String> {
        let sets = self.server.sets(&self.command.zone).map_err(|why| why.to_string())?;
        let apex = self.zone.to_string();
        let is_kept = |(name, rtype): &(String, String)| {
            !self.command.delete || (*name == apex && matches!(&**rtype, "SOA" | "NS"))
        };
        Ok(sets.into_iter().filter(|set| !is_kept(set)).map(|set| (set, Value::Null)).collect())
    }

    fn apply(&mut self, entries: &BTreeMap<String, Entry>) -> Result<(), String> {
        let imported = import(entries.values(), self.layout, self.prefix, self.zone.as_name());
        let notes: BTreeSet<String> = imported.notes.iter().map(ToString::to_string).collect();
        notes.difference(&self.notes).for_each(|note| eprintln!("{note}"));
        self.notes = notes;
        let mut wanted = Sets::new();
        for set in &imported.sets {
            let mut put = serde_json::to_value(set).map_err(|why| why.to_string())?;
            if let Some(fields) = put.as_object_mut() {
                fields.retain(|key, _| key != "name" && key != "type");
            }
            wanted.insert((set.name.clone(), set.rtype.clone()), put);
        }
        let before = if self.known.is_none() { self.before()? } else { Sets::new() };
        let known = self.known.as_ref().unwrap_or(&before);
        let gone = known.keys().filter(|set| !wanted.contains_key(*set)).map(|set| (set, None));
        let put = wanted.iter().filter(|(set, put)| known.get(*set) != Some(*put));
        let changes: Vec<Value> = gone
            .chain(put.map(|(set, put)| (set, Some(put))))
            .map(|((name, rtype), put)| json!({ "name": name, "type": rtype, "put": put }))
            .collect();
        for some in changes.chunks(CHANGES_MAX) {
            self.change(some)?;
        }
        if self.known.is_none() {
            eprintln!("{}; following", summary(entries.len(), &imported, &self.zone));
        }
        self.known = Some(wanted);
        Ok(())
    }

    /// Makes changes together; if the server refuses them, each alone, and reports those that it
    /// refuses.
    fn change(&self, changes: &[Value]) -> Result<(), String> {
        let zone = &self.command.zone;
        match self.server.change_sets(zone, changes) {
            Ok(()) => Ok(()),
            Err(SetsError { why, is_refused: false }) => Err(why),
            Err(SetsError { why, .. }) => {
                let [change] = changes else {
                    return changes.iter().try_for_each(|one| self.change(from_ref(one)));
                };
                eprintln!("{} {}: refused: {why}", change["name"], change["type"]);
                Ok(())
            }
        }
    }
}
