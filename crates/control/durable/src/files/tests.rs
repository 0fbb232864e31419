use super::*;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::PathBuf;

/// A folder that is removed after the test.
struct Scratch(test_support::folder::Folder);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(test_support::folder::Folder::new(name))
    }

    fn folder(&self) -> Folder {
        Folder::open(&self.0).expect("a folder")
    }

    fn write(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, "kept").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("ours");
        path
    }
}

/// Opens an existing file in both ways.
fn open(folder: &Folder, name: &str) -> [io::Result<File>; 2] {
    [folder.read(Path::new(name)), folder.open_or_create(Path::new(name), 0o600)]
}

#[track_caller]
fn expect_refused(folder: &Folder, name: &str, why: &str) {
    for opened in open(folder, name) {
        let message = opened.expect_err(name).to_string();
        assert!(message.contains(why), "{name}: {message}");
    }
}

#[test]
fn a_link_is_not_followed_and_its_target_is_untouched() {
    let scratch = Scratch::new("link");
    let target = scratch.write("target", 0o600);
    symlink(&target, scratch.0.join("link")).expect("a link");
    symlink(scratch.0.join("absent"), scratch.0.join("dangling")).expect("a link");
    let folder = scratch.folder();
    expect_refused(&folder, "link", "symbolic link");
    expect_refused(&folder, "dangling", "symbolic link");
    assert!(!scratch.0.join("absent").exists());
    let exists = folder.create_new(Path::new("link"), 0o600).expect_err("it is there");
    assert_eq!(exists.kind(), io::ErrorKind::AlreadyExists);
    folder.remove(Path::new("link")).expect("the link goes");
    assert_eq!(fs::read_to_string(target).expect("it stays"), "kept");
}

#[test]
fn a_folder_that_is_a_link_is_followed_at_the_top_and_not_below() {
    let scratch = Scratch::new("folders");
    fs::create_dir(scratch.0.join("real")).expect("a folder");
    symlink("real", scratch.0.join("link")).expect("a link");
    Folder::open(&scratch.0.join("link")).expect("the config may name a link");
    for opened in [
        Folder::open_below(&scratch.0.join("link"), FileOwnerPolicy::Ours),
        Folder::create_below(&scratch.0.join("link")),
    ] {
        let message = opened.expect_err("a link below").to_string();
        assert!(message.contains("symbolic link"), "{message}");
    }
    Folder::create_below(&scratch.0.join("link/deep/zones")).expect("made");
    assert!(scratch.0.join("real/deep/zones").is_dir());
}

#[test]
fn special_file_is_refused_without_waiting() {
    let scratch = Scratch::new("kinds");
    fs::create_dir(scratch.0.join("folder")).expect("a folder");
    rustix::fs::mknodat(CWD, scratch.0.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0)
        .expect("a pipe");
    let folder = scratch.folder();
    expect_refused(&folder, "pipe", "not a RegularFile");
    assert!(folder.read(Path::new("folder")).is_err());
}

#[test]
fn world_writable_file_is_refused_and_group_writable_accepted() {
    let scratch = Scratch::new("modes");
    for (name, mode) in [("private", 0o600), ("group", 0o660), ("read", 0o644)] {
        scratch.write(name, mode);
        for opened in open(&scratch.folder(), name) {
            let mut text = String::new();
            opened.expect(name).read_to_string(&mut text).expect("read");
            assert_eq!(text, "kept");
        }
    }
    scratch.write("open", 0o666);
    expect_refused(&scratch.folder(), "open", "everyone may write to it (mode 666)");
    // The folder's own mode does not matter.
    fs::set_permissions(&scratch.0, fs::Permissions::from_mode(0o777)).expect("ours");
    scratch.folder().read(Path::new("private")).expect("taken");
}

#[test]
fn file_of_another_user_is_refused_and_of_root_accepted() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("DUNLIN_REQUIRE_ALL").is_none(), "giving files away needs root");
        eprintln!("SKIPPED: giving files away needs root");
        return;
    }
    let scratch = Scratch::new("owners");
    let planted = scratch.write("planted", 0o600);
    chown(&planted, Some(65_533), None).expect("root");
    let us = rustix::process::geteuid().as_raw();
    expect_refused(&scratch.folder(), "planted", "it belongs to user 65533, and dunlin runs as");
    expect_refused(&scratch.folder(), "planted", &format!("`chown {us}`"));
    fs::create_dir(scratch.0.join("zones")).expect("a folder");
    chown(scratch.0.join("zones"), Some(65_533), None).expect("root");
    let message =
        Folder::open_below(&scratch.0.join("zones"), FileOwnerPolicy::Ours).expect_err("not ours");
    assert!(message.to_string().contains("65533"), "{message}");
    let any =
        Folder::open_below(&scratch.0.join("zones"), FileOwnerPolicy::Anyone).expect("looked at");
    assert_eq!(any.names().expect("names"), Vec::<OsString>::new());
}

#[test]
fn a_new_file_takes_the_place_of_the_old_one() {
    let scratch = Scratch::new("rename");
    let old = scratch.write("kept", 0o640);
    let folder = scratch.folder();
    let (new, kept) = (Path::new("kept.new"), Path::new("kept"));
    let mut file = folder.create_new(new, 0o600).expect("made");
    file.write_all(b"newer").expect("written");
    folder.rename(new, kept).expect("renamed");
    folder.sync().expect("synced");
    assert_eq!(fs::read_to_string(&old).expect("there"), "newer");
    assert_eq!(fs::metadata(&old).expect("there").mode() & 0o777, 0o600);
    assert_eq!(folder.names().expect("names"), ["kept"]);
    assert!(folder.age(kept).expect("an age") < Duration::from_secs(600));
}
