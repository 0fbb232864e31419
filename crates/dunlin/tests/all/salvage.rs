//! `dunlin zones salvage` saves the readable records of a damaged store for `dunlin zones restore`.
use records::{
    Action, Policy, PreparedWrite, RestoreInfo, Revision, SetValue, Store, StoreError, View,
    WrittenSet,
};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::SystemTime;
use store_redb::RedbStore;
use test_support::folder::Folder;
use wire::{Name, NameBuf, Rtype};

fn salvage(folder: &Path, file: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dunlin"));
    command.args(["zones", "salvage"]).arg(folder).arg(file).args(more);
    command.output().unwrap()
}

#[test]
fn damaged_store_is_salvaged_and_restored() {
    let folder = Folder::new("cli-salvage");
    let file = folder.join("saved.records");
    let set = |n: u32| {
        let name = format!("\x05n{n:04}").into_bytes().into();
        let value =
            SetValue { ttl: 60, policy: Policy::All, data: vec![[192, 0, 2, n as u8][..].into()] };
        let (rtype, view) = (Rtype::A, View::DEFAULT);
        WrittenSet { name, rtype, view, before: None, after: Some(value) }
    };
    let zone = NameBuf::from_text(b"damaged.test.", Name::ROOT).unwrap();
    let (when, action) = (SystemTime::UNIX_EPOCH, Action::Create((0..2000).map(set).collect()));
    let (revision, by) = (Revision(1), "x".into());
    let write = PreparedWrite { zone, revision, when, by, offset: None, reason: None, action };
    let mut store = RedbStore::open(&folder, false).unwrap();
    store.commit_and_look_up(vec![write].into()).unwrap();
    let told = salvage(&folder, &file, &[]);
    assert!(!told.status.success());
    let told = String::from_utf8(told.stderr).unwrap();
    assert!(told.contains("another process uses it: `dunlin zones snapshot FILE`"), "{told}");
    store.close();
    let [tree, _] = store_redb::paths(&folder);
    let mut bytes = fs::read(&tree).unwrap();
    let page = |n: &usize| {
        bytes[n * 4096] == 1 && bytes[n * 4096..][..4096].windows(5).any(|part| part == b"n0500")
    };
    let page = (1..bytes.len() / 4096).find(page).unwrap();
    bytes[page * 4096 + 1000] ^= 1;
    fs::write(&tree, &bytes).unwrap();
    assert!(matches!(RedbStore::open(&folder, false), Err(StoreError::Damaged(_))));
    let told = salvage(&folder, &file, &[]);
    let text = String::from_utf8(told.stdout).unwrap();
    assert!(told.status.success() && text.contains("it is damaged near byte"), "{text}");
    assert!(text.contains("damaged.test.: ") && text.contains("1 zone as of revision 1"), "{text}");
    let told = salvage(&folder, &file, &["-o", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    let (left, lost) = (&json["zones"][0]["rrsets"], &json["zones"][0]["lost"]);
    assert_eq!(left.as_u64().unwrap() + lost.as_u64().unwrap(), 2000, "{json}");
    let restoring = RestoreInfo { revision: Revision(1), when, by: "x".into(), reason: None };
    let snapshot = fs::read(&file).unwrap();
    let restored = RedbStore::replace(&folder, &mut &snapshot[..], &restoring).unwrap();
    assert_eq!(restored.reader().held().unwrap().sets, left.as_u64().unwrap());
    drop(restored);
}
