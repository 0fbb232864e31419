use super::*;
use crate::RedbStore;
use std::time::SystemTime;
use store::{Action, Commit, PreparedWrite, Store};
use test_support::folder::Folder;
use wire::{Name, NameBuf};

fn write(n: u64) -> Commit {
    let zone = NameBuf::from_text(format!("zone{n}.test.").as_bytes(), Name::ROOT).unwrap();
    let (when, action) = (SystemTime::UNIX_EPOCH, Action::Create(Vec::new()));
    let (revision, by) = (Revision(n), "x".into());
    vec![PreparedWrite { zone, revision, when, by, offset: None, reason: None, action }].into()
}

/// A store of this form, with a zone in the tree and one in the log.
fn of_form(form: Form) -> Folder {
    let folder = Folder::new(&format!("form-{form}"));
    let mut store = RedbStore::open(&folder, false).unwrap();
    store.commit_and_look_up(write(1)).unwrap();
    store.close();
    let [tree, _] = paths(&folder);
    write::raise(&Database::open(&tree).unwrap(), form).unwrap();
    folder
}

fn bytes(folder: &Path) -> [Vec<u8>; 2] {
    paths(folder).map(|path| fs::read(path).unwrap())
}

#[test]
fn store_of_an_unknown_form_is_refused_and_left_unchanged() {
    let [newer, older] = [Form(Form::NEWEST.0 + 1), Form(Form::OLDEST.0 - 1)];
    for (form, why) in [(newer, "newer version of Dunlin"), (older, "before the first release")] {
        let folder = of_form(form);
        let before = bytes(&folder);
        let error = RedbStore::open(&folder, false).map(drop).unwrap_err();
        let is_failure = matches!(&error, StoreError::Failed(_));
        let text = error.to_string();
        let parts = ["records.redb", why, &format!("form {form}")];
        assert!(is_failure && parts.iter().all(|part| text.contains(part)), "{text}");
        assert!(bytes(&folder) == before, "{why}");
    }
}

#[test]
fn new_store_has_the_form_of_the_previous_release_and_keeps_it_until_it_is_raised() {
    let folder = of_form(Form::PREVIOUS);
    let mut store = RedbStore::open(&folder, false).unwrap();
    assert_eq!(store.form(), Form::PREVIOUS);
    store.commit_and_look_up(write(2)).unwrap();
    // What the log has is in the tree before.
    store.raise(Form(Form::PREVIOUS.0 + 1)).unwrap();
    store.raise(Form::PREVIOUS).unwrap();
    assert_eq!((store.form(), store.newest().unwrap()), (Form(Form::PREVIOUS.0 + 1), Revision(2)));
    store.commit_and_look_up(write(3)).unwrap();
    assert_eq!(store.reader().zones().unwrap().len(), 3);
    drop(store);
    let [tree, _] = paths(&folder);
    let about = tree::inspect(&open_file(&tree, OpenMode::Read).unwrap()).unwrap();
    assert_eq!(about.form, Some(Form(Form::PREVIOUS.0 + 1)), "as long as the file is there");
}
