use super::*;
use crate::file_events::Activity;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::symlink;
use test_support::folder::Folder;

/// Watched folders, and a test folder.
fn start(test: &str) -> (WatchedFolders, Activities, Folder) {
    let activities = Activities::default();
    let folders = WatchedFolders::start(activities.clone(), || ()).expect("inotify");
    (folders, activities, Folder::new(&format!("folders-{test}")))
}

#[test]
fn drain_records_all_earlier_events() {
    let (folders, activities, folder) = start("drain");
    let file = [folder.join("zone")];
    activities.set_interest(file.clone());
    assert!(folders.set([folder.to_path_buf()]));
    assert!(!folders.set([folder.to_path_buf()]), "it is watched already");
    for _ in 0..200 {
        let mut writer = File::create(&file[0]).expect("a file");
        folders.drain();
        assert!(matches!(activities.of(&file), Some(Activity::Writing(_))));
        writer.write_all(b"text").expect("written");
        drop(writer);
        folders.drain();
        assert_eq!(activities.of(&file), Some(Activity::Closed));
        fs::read(&file[0]).expect("a file");
        fs::rename(&file[0], folder.join("other")).expect("renamed");
        folders.drain();
        assert_eq!(activities.of(&file), None);
        fs::rename(folder.join("other"), &file[0]).expect("renamed");
        folders.drain();
        assert_eq!(activities.of(&file), Some(Activity::Placed));
    }
}

#[test]
fn links_are_whole_at_once() {
    let (folders, activities, folder) = start("links");
    let [hard, soft] = ["hard", "soft"].map(|name| [folder.join(name)]);
    fs::write(folder.join("target"), "text").expect("a file");
    activities.set_interest([hard[0].clone(), soft[0].clone()]);
    folders.set([folder.to_path_buf()]);
    fs::hard_link(folder.join("target"), &hard[0]).expect("a link");
    symlink("target", &soft[0]).expect("a link");
    folders.drain();
    for link in [&hard, &soft] {
        assert_eq!(activities.of(link), Some(Activity::Placed), "{link:?}");
    }
}

/// The kernel has one watch for a folder, whatever paths lead to it.
#[test]
fn folder_is_watched_under_every_path() {
    let (folders, activities, folder) = start("paths");
    let (real, link) = (folder.join("real"), folder.join("link"));
    fs::create_dir(&real).expect("a folder");
    symlink("real", &link).expect("a link");
    let by_both = [[real.join("zone")], [link.join("zone")]];
    activities.set_interest(by_both.iter().flatten().cloned());
    folders.set([real.clone(), link.clone()]);
    fs::write(real.join("zone"), "1").expect("a file");
    folders.drain();
    assert!(by_both.iter().all(|path| activities.of(path) == Some(Activity::Closed)));
    folders.set([link.clone()]);
    activities.forget_all();
    fs::write(real.join("zone"), "2").expect("a file");
    folders.drain();
    assert_eq!(by_both.map(|path| activities.of(&path)), [None, Some(Activity::Closed)]);
}

#[test]
fn recreated_folder_is_watched_again() {
    let (folders, activities, folder) = start("anew");
    let inner = folder.join("inner");
    let file = [inner.join("zone")];
    activities.set_interest(file.clone());
    let go: [fn(&Path); 2] = [
        |folder| fs::remove_dir_all(folder).expect("the folder goes"),
        |folder| fs::rename(folder, folder.with_extension("old")).expect("renamed"),
    ];
    for go in go {
        fs::create_dir(&inner).expect("a folder");
        assert!(folders.set([inner.clone()]), "it is another folder");
        fs::write(&file[0], "1").expect("a file");
        folders.drain();
        assert_eq!(activities.of(&file), Some(Activity::Closed));
        go(&inner);
        folders.drain();
        activities.forget_all();
    }
}
