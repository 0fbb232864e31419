//! Planted files are neither opened nor written through.
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use store_redb::RedbStore;
use test_support::folder::Folder;

#[test]
fn linked_or_world_writable_store_file_is_refused() {
    let folder = Folder::new("planted");
    drop(RedbStore::open(&folder, false).expect("a store"));
    let refused = || RedbStore::open(&folder, false).err().expect("refused").to_string();
    let target = folder.join("target");
    for file in store_redb::paths(&folder) {
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        fs::rename(&file, &target).expect("moved");
        let before = fs::read(&target).expect("a file");
        symlink(&target, &file).expect("a link");
        let told = refused();
        assert!(told.contains(&name) && told.contains("symbolic link"), "{told}");
        assert!(fs::read(&target).expect("it stays") == before, "{name} is written through");
        fs::rename(&target, &file).expect("in place of the link");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).expect("ours");
        let told = refused();
        assert!(told.contains(&name) && told.contains("everyone may write to it"), "{told}");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o660)).expect("ours");
    }
    RedbStore::open(&folder, false).expect("files that the group may write");
}
