//! A source in full: a watched JSON file with the records of a zone. CONTRIBUTING.md names it as
//! the example.
use compile::Image;
use image::HashKey;
use serde_json::Value;
use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};
use test_support::folder::Folder;
use test_support::wait::until_eq;
use wire::{Name, NameBuf, Rtype};
use zone_manager::{
    Change, Edit, HoldPolicy, Lane, SetValue, Source, SourceKind, SourceSettings, SyncOutcome,
    Target, UpdateSender, ZonePublisher,
};

const ORIGIN: &str = "json.test.";
const TTL: u32 = 30;
const POLL: Duration = Duration::from_millis(10);

/// Serves `{"www": ["192.0.2.1"], "empty": []}` as the zone json.test.
struct JsonSource {
    file: PathBuf,
    stop: Receiver<()>,
}

impl Source for JsonSource {
    type Started = JoinHandle<()>;

    fn settings(&self) -> SourceSettings {
        SourceSettings {
            name: "json".into(),
            kind: SourceKind::File,
            lane: Lane::Normal,
            hold: HoldPolicy::Operator,
        }
    }

    fn start(self, updates: UpdateSender) -> JoinHandle<()> {
        thread::spawn(move || self.run(updates))
    }
}

impl JsonSource {
    /// Serves the file as it changes, until it is stopped.
    fn run(&self, mut updates: UpdateSender) {
        updates.claim(name(ORIGIN), Some(self.file.clone()));
        let mut loaded = None;
        while let Err(RecvTimeoutError::Timeout) = self.stop.recv_timeout(POLL) {
            let written = self.written();
            if written.is_none() || written == loaded {
                continue;
            }
            match self.load() {
                Ok(changes) => sync(&mut updates, changes),
                Err(why) => tracing::error!("the zone as it was is served: {why}"),
            }
            loaded = written;
        }
    }

    /// When the file was written, and its length; `None`: it is not there, which changes nothing.
    fn written(&self) -> Option<(SystemTime, u64)> {
        let found = fs::metadata(&self.file).ok()?;
        Some((found.modified().ok()?, found.len()))
    }

    fn load(&self) -> Result<Vec<Change>, String> {
        let text = fs::read_to_string(&self.file).map_err(|why| why.to_string())?;
        let root: Value = serde_json::from_str(&text).map_err(|why| why.to_string())?;
        let object = root.as_object().ok_or("it is not an object")?;
        object.iter().map(|(label, value)| change(label, value)).collect()
    }
}

/// The addresses of a name. A name without addresses exists all the same.
fn change(label: &str, value: &Value) -> Result<Change, String> {
    let origin = name(ORIGIN);
    let at = NameBuf::from_text(label.as_bytes(), origin.as_name());
    let at = at.map_err(|why| format!("{label}: {why}"))?;
    let data = value.as_array().into_iter().flatten().map(|address| {
        let address = address.as_str().and_then(|text| text.parse::<Ipv4Addr>().ok());
        address.map(|address| Box::from(address.octets())).ok_or(format!("{label}: no address"))
    });
    let data: Vec<Box<[u8]>> = data.collect::<Result<_, _>>()?;
    match data.is_empty() {
        true => Ok(Change::AddName(at)),
        false => Ok(Edit::put(at, Rtype::A, SetValue::new(TTL, data)).into()),
    }
}

fn sync(updates: &mut UpdateSender, changes: Vec<Change>) {
    let mut epoch = updates.full_sync(Target::Zone(name(ORIGIN)));
    let soa = [&b"\x02ns\0\x04root\0"[..], &[0; 20]].concat();
    let apex = [(Rtype::SOA, &soa[..]), (Rtype::NS, b"\x02ns\0")];
    let apex = apex.map(|(rtype, data)| {
        Edit::put(name(ORIGIN), rtype, SetValue::new(TTL, vec![data.into()])).into()
    });
    for change in apex.into_iter().chain(changes) {
        // `Synced` has the result of each.
        let _ = epoch.put(change);
    }
    let Ok(synced) = epoch.commit_blocking() else { return };
    for (_, why) in &synced.refused {
        tracing::warn!("refused: {why}");
    }
    if synced.outcome != SyncOutcome::Published {
        tracing::warn!("not published: {:?}", synced.outcome);
    }
}

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
}

#[test]
fn json_file_is_served_as_it_changes() {
    let folder = Folder::new("json-source");
    let file = folder.join("records.json");
    let key = Arc::new(HashKey::new(std::array::from_fn(|n| n as u64 * 77 + 5)));
    let (publisher, _running) = ZonePublisher::start(Image::new(key)).expect("a thread");
    let (stopper, stop) = channel();
    let source = JsonSource { file: file.clone(), stop };
    let thread = publisher.start_source(source);
    let node = |label: &str| {
        let image = publisher.image();
        let zone = image.zone(name(ORIGIN).as_name())?;
        zone.names()
            .get(&[&[label.len() as u8], label.as_bytes()].concat())
            .map(|node| node.is_empty())
    };
    let expect = |text: &str, (label, expected)| {
        fs::write(&file, text).expect("written");
        until_eq(&format!("{label} after {text}"), || node(label), expected);
    };
    expect(r#"{"www": ["192.0.2.1"], "empty": []}"#, ("www", Some(false)));
    assert_eq!(node("empty"), Some(true), "it exists without records");
    expect(r#"{"a": ["192.0.2.1"], "x.*": ["192.0.2.1"]}"#, ("a", Some(false)));
    assert_eq!((node("www"), node("empty")), (None, None), "what the file lost is gone");
    fs::write(&file, "{").expect("written");
    drop(stopper);
    thread.join().expect("no panic");
    assert_eq!(node("a"), Some(false), "a bad file changes nothing");
}
