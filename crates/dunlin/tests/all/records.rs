//! Zones of the store, for an operator and a client.
use crate::served::{HEAD, NOERROR, Process, SERVFAIL, Served, rcode, zone};
use compile::Image;
use image::HashKey;
use records::{Batch, Edit, Policy, RecordService, SetValue, WriteContext};
use rustix::process::Signal;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use store_redb::RedbStore;
use wire::{Name, NameBuf, Rtype};
use zone_manager::ZonePublisher;

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
}

fn put(at: &str, rtype: Rtype, data: Vec<u8>) -> Edit {
    let put = Some(SetValue { ttl: 60, policy: Policy::All, data: vec![data.into()] });
    Edit { put, ..Edit::remove(name(at), rtype) }
}

/// A data folder whose store has this zone, with an address of `www`.
fn data(test: &str, zone: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}_data"));
    let _ = fs::remove_dir_all(&folder);
    let key = Arc::new(HashKey::new(std::array::from_fn(|n| n as u64 * 77 + 5)));
    let (control, _running) = ZonePublisher::start(Image::new(key)).expect("a thread");
    let store = Box::new(RedbStore::open(&folder, false).expect("a store"));
    let (records, _serving) = RecordService::start(&control, store).expect("threads");
    let edits = vec![
        put(zone, Rtype::NS, name(&format!("www.{zone}")).as_name().as_bytes().to_vec()),
        put(&format!("www.{zone}"), Rtype::A, Ipv4Addr::new(192, 0, 2, 9).octets().to_vec()),
    ];
    let batch = Batch { zone: name(zone), edits, context: WriteContext::by("test") };
    records.create_zone(batch).wait().expect("created");
    folder
}

fn config(data: &Path, more: &str) -> String {
    format!("data_dir = \"{}\"\ndrain = \"0s\"\n[store]\nkind = \"redb\"\n{more}", data.display())
}

#[test]
fn zones_of_the_store_are_answered_from_the_start() {
    let data = data("records_start", "store.test");
    let config = config(&data, &zone("file.test"));
    let mut served = Served::start("records_start", &config, &[("file.test.zone", HEAD)]);
    served.expect_address("www.store.test", [192, 0, 2, 9]);
    assert_eq!(rcode(&served.ask("ns.file.test")), NOERROR);
    served.end();
    drop(served);
    // A bad zone file does not affect the store's zones, and is reported.
    let served = Served::start("records_start", &config, &[]);
    served.expect_address("www.store.test", [192, 0, 2, 9]);
    assert_ne!(rcode(&served.ask("www.store.test")), SERVFAIL);
}

/// The config decides: a zone that it names comes from its file, and from the store again once the
/// config no longer names it.
#[test]
fn zone_moves_from_store_to_file_and_back_on_reload() {
    let data = data("records_owner", "both.test");
    let named = config(&data, &zone("both.test"));
    let text = format!("{HEAD}www A 192.0.2.7\n");
    let served = Served::start("records_owner", &named, &[("both.test.zone", &text)]);
    served.expect_address("www.both.test", [192, 0, 2, 7]);
    let file = served.folder.join("dunlin.toml");
    let without = fs::read_to_string(&file).expect("a config").replace(&zone("both.test"), "");
    fs::write(&file, without).expect("a config");
    served.signal(Signal::HUP);
    served.expect_address("www.both.test", [192, 0, 2, 9]);
}

/// One process has the store: it moves with the sockets.
#[test]
fn new_process_gets_the_store() {
    let data = data("records_new_process", "store.test");
    let socket = std::env::temp_dir().join(format!("dunlin-records-{}.sock", std::process::id()));
    let admin = format!("[admin]\nsocket = \"{}\"\n", socket.display());
    let mut served = Served::start("records_new_process", &config(&data, &admin), &[]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_dunlin"));
    command.args(["serve", "--hot-restart", "-c"]).arg(served.folder.join("dunlin.toml"));
    let mut new_process = Process(command.stderr(Stdio::null()).spawn().expect("it runs"));
    served.expect_line("handed over", "INFO");
    assert_eq!(served.status(), Some(0));
    served.expect_address("www.store.test", [192, 0, 2, 9]);
    assert!(new_process.0.try_wait().expect("a child").is_none());
    let _ = fs::remove_file(socket);
}
