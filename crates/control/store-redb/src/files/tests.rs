use super::*;
use crate::RedbStore;
use crate::tables::{DELETED, META};
use records::{Action, PreparedWrite, Store};
use std::time::SystemTime;
use wire::{Name, NameBuf};

fn write(n: u64) -> PreparedWrite {
    let zone = NameBuf::from_text(format!("zone{n}.test.").as_bytes(), Name::ROOT).unwrap();
    let (when, action) = (SystemTime::UNIX_EPOCH, Action::Create(Vec::new()));
    PreparedWrite {
        zone,
        revision: Revision(n),
        when,
        by: "x".into(),
        offset: None,
        reason: None,
        action,
    }
}

/// A store as the last version wrote it: two zones in the tree, and two in the log.
fn of_form_2(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("dunlin-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    let mut store = RedbStore::open(&folder, false).unwrap();
    store.commit_and_look_up(vec![write(1), write(2)].into()).unwrap();
    store.close();
    let [tree, log] = paths(&folder);
    let database = Database::open(&tree).unwrap();
    let transaction = database.begin_write().unwrap();
    {
        let mut meta = transaction.open_table(META).unwrap();
        meta.insert("form", 2).unwrap();
        meta.remove("log").unwrap();
    }
    transaction.delete_table(DELETED).unwrap();
    transaction.commit().unwrap();
    let (_, key) = read::log_of(&database).unwrap();
    let groups = [wal::old::group(key, &[write(3)]), wal::old::group(key, &[write(4)])];
    fs::write(&log, [groups.concat(), vec![0; 1 << 20]].concat()).unwrap();
    folder
}

fn zones(store: &RedbStore) -> usize {
    store.reader().zones().unwrap().len()
}

#[test]
fn store_of_the_previous_format_opens_without_loss() {
    let folder = of_form_2("form-2");
    let mut store = RedbStore::open(&folder, false).unwrap();
    assert_eq!(zones(&store), 4);
    store.commit_and_look_up(vec![write(5)].into()).unwrap();
    drop(store);
    assert_eq!(zones(&RedbStore::open(&folder, false).unwrap()), 5);
    fs::remove_dir_all(&folder).unwrap();
}

/// A store of format 3.
fn of_form_3(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("dunlin-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    let mut store = RedbStore::open(&folder, false).unwrap();
    store.commit_and_look_up(vec![write(1), write(2)].into()).unwrap();
    store.close();
    let [tree, _] = paths(&folder);
    let database = Database::open(&tree).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(META).unwrap().insert("form", 3).unwrap();
    transaction.commit().unwrap();
    folder
}

#[test]
fn store_of_format_3_opens_without_loss() {
    let folder = of_form_3("form-3");
    let mut store = RedbStore::open(&folder, false).unwrap();
    assert_eq!(zones(&store), 2);
    store.commit_and_look_up(vec![write(3)].into()).unwrap();
    drop(store);
    let [tree, _] = paths(&folder);
    let form = |database: &Database| {
        let meta = redb::ReadableDatabase::begin_read(database).unwrap().open_table(META).unwrap();
        meta.get("form").unwrap().map(|form| form.value())
    };
    assert_eq!(zones(&RedbStore::open(&folder, false).unwrap()), 3);
    assert_eq!(form(&Database::open(&tree).unwrap()), Some(FORM));
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn store_of_format_3_with_a_damaged_log_is_left_unchanged() {
    let folder = of_form_3("form-3-damaged");
    let [tree, log] = paths(&folder);
    let damaged = vec![0xa5; fs::read(&log).unwrap().len()];
    fs::write(&log, &damaged).unwrap();
    let before = fs::read(&tree).unwrap();
    RedbStore::open(&folder, false).map(drop).unwrap_err();
    assert!(fs::read(&log).unwrap() == damaged && fs::read(&tree).unwrap() == before);
    fs::remove_dir_all(&folder).unwrap();
}

/// The machine crashed after the new log was written, before the tree recorded it.
#[test]
fn interrupted_upgrade_is_repeated() {
    let folder = of_form_2("form-2-cut-off");
    let [tree, _] = paths(&folder);
    drop(RedbStore::open(&folder, false).unwrap());
    let database = Database::open(&tree).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(META).unwrap().insert("form", 2).unwrap();
    transaction.commit().unwrap();
    drop(database);
    assert_eq!(zones(&RedbStore::open(&folder, false).unwrap()), 4);
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn damaged_store_of_the_previous_format_is_left_unchanged() {
    let folder = of_form_2("form-2-damaged");
    let [tree, log] = paths(&folder);
    let mut damaged = fs::read(&log).unwrap();
    damaged[30] ^= 1;
    fs::write(&log, &damaged).unwrap();
    let before = fs::read(&tree).unwrap();
    let why = RedbStore::open(&folder, false).map(drop).unwrap_err();
    assert!(matches!(&why, StoreError::Damaged(why) if why.contains("records.wal")), "{why:?}");
    assert!(fs::read(&log).unwrap() == damaged && fs::read(&tree).unwrap() == before);
    fs::remove_dir_all(&folder).unwrap();
}
