use super::*;
use PathEvent::{Closed, Created, Gone, Placed, Written};

const NOW: SystemTime = SystemTime::UNIX_EPOCH;

/// The activity after these events.
fn after(events: &[PathEvent]) -> Option<Activity> {
    events.iter().fold(None, |activity, event| Activity::after(activity, *event, NOW))
}

#[test]
fn file_is_being_written_from_first_write_to_close() {
    assert_eq!(after(&[Written]), Some(Activity::Writing(NOW)));
    assert_eq!(after(&[Created]), Some(Activity::Writing(NOW)));
    assert_eq!(after(&[Created, Written, Written, Closed]), Some(Activity::Closed));
    assert_eq!(after(&[Closed]), Some(Activity::Closed), "touched");
}

#[test]
fn second_writer_reopens_a_closed_file() {
    assert_eq!(after(&[Written, Closed, Written]), Some(Activity::Writing(NOW)));
    assert_eq!(after(&[Written, Closed, Written, Closed]), Some(Activity::Closed));
}

#[test]
fn a_renamed_file_is_whole_until_it_is_written() {
    assert_eq!(after(&[Placed]), Some(Activity::Placed));
    assert_eq!(after(&[Written, Closed, Placed]), Some(Activity::Placed), "the other is gone");
    assert_eq!(after(&[Written, Placed, Closed]), Some(Activity::Placed), "closed only then");
    assert_eq!(after(&[Placed, Written]), Some(Activity::Writing(NOW)));
    assert_eq!(after(&[Placed, Gone]), None);
}

/// If two paths may name a file, the events of both count.
#[test]
fn only_watched_paths_are_recorded() {
    let [file, link, other] = ["/d/zone", "/d/link", "/d/other"].map(PathBuf::from);
    let activities = Activities::default();
    activities.set_interest([file.clone(), link.clone()]);
    let note = |path: &PathBuf, happened| activities.note(path, || Some(happened));
    let both = [link.clone(), file.clone()];
    activities.note(&other, || panic!("the path is not watched"));
    assert_eq!(activities.of(&both), None);
    note(&link, Placed);
    assert_eq!(activities.of(&both), Some(Activity::Placed));
    note(&file, Written);
    assert!(matches!(activities.of(&both), Some(Activity::Writing(_))), "the link does not matter");
    note(&file, Closed);
    activities.set_interest([file.clone(), file.clone(), link.clone()]);
    assert_eq!(activities.of(&both), Some(Activity::Closed), "what stays is kept");
    let taken = activities.take(&both);
    assert_eq!((taken.len(), activities.of(&both)), (2, None));
    note(&file, Written);
    activities.give_back(taken);
    assert!(matches!(activities.of(&both), Some(Activity::Writing(_))), "the newer one counts");
    note(&file, Gone);
    assert_eq!(activities.of(&both), Some(Activity::Placed));
    activities.set_interest([other]);
    assert_eq!(activities.of(&both), None);
}

#[test]
fn lost_events_clear_all_states() {
    let file = [PathBuf::from("/d/zone")];
    let activities = Activities::default();
    activities.set_interest(file.clone());
    activities.note(&file[0], || Some(Written));
    assert!(activities.of(&file).is_some());
    activities.forget_all();
    assert_eq!(activities.of(&file), None);
}
