//! States on disk, so that a restart neither names the dead nor forgets the living.
use crate::operator::{self, Override, OverrideKey};
use crate::state::{ProbeState, TargetState};
use documents::{DocumentSet, FileDocuments, Lines};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use zone_manager::HealthTarget;

/// The file in `[server] data_dir`.
const FILE: Lines = Lines {
    file: "health.state",
    head: "dunlin_health_state",
    format: 1,
    what: "health states",
    mode: 0o640,
};

/// The saved state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedHealth {
    /// The states of targets, and when a set named each for the last time, since 1970.
    pub states: BTreeMap<HealthTarget, (TargetState, Duration)>,
    /// The states that operators have set, in a file of an older version.
    pub overrides: BTreeMap<OverrideKey, Override>,
}

#[derive(Deserialize, Serialize)]
enum Line {
    /// Check, address, state, whether it was ever up, since and last named, in milliseconds.
    Target(Box<str>, IpAddr, Box<str>, bool, u64, u64),
    Override(OverrideKey, Override),
}

/// Saves the states. The old file stays until the new one is complete and durable.
///
/// # Errors
/// What failed, and where.
pub fn save(folder: &Path, saved: &SavedHealth) -> Result<(), String> {
    FILE.save(folder, lines(saved))
}

fn lines(saved: &SavedHealth) -> impl Iterator<Item = Line> {
    let of_target = |(target, (state, named)): (&HealthTarget, &(TargetState, Duration))| {
        let millis = |time: &Duration| time.as_millis() as u64;
        let word = state.state.word().into();
        let (check, since) = (Box::from(&*target.check), millis(&state.since));
        Line::Target(check, target.address, word, state.ever_up, since, millis(named))
    };
    saved.states.iter().map(of_target)
}

/// Reads the saved states; there are none before the first start.
///
/// # Errors
/// The file, and what is wrong with it.
pub fn load(folder: &Path) -> Result<SavedHealth, String> {
    let path = FILE.path(folder);
    let wrong = || format!("{} has a state that does not exist: move it away", path.display());
    gather(FILE.load(folder)?).ok_or_else(wrong)
}

/// `None`: a state has another name.
fn gather(lines: Vec<Line>) -> Option<SavedHealth> {
    let mut saved = SavedHealth::default();
    for line in lines {
        match line {
            Line::Target(check, address, word, ever_up, since, named) => {
                let state = ProbeState::from_word(&word)?;
                let state = TargetState::saved(state, ever_up, Duration::from_millis(since));
                let target = HealthTarget { check: (&*check).into(), address };
                saved.states.insert(target, (state, Duration::from_millis(named)));
            }
            Line::Override(key, set) => {
                saved.overrides.insert(key, set);
            }
        }
    }
    Some(saved)
}

/// The states of endpoints in a file of this folder; `None`: there is no folder for it. A damaged
/// file is reported, and then no state can be set.
pub fn endpoints_in(folder: Option<&Path>) -> Arc<FileDocuments> {
    let documents =
        FileDocuments::new(folder.map(|folder| operator::FILE.path(folder)), operator::FILE);
    if let Err(why) = documents.load() {
        tracing::error!("states that operators have set are unknown: {why}");
    }
    // Older versions had them among the states of targets.
    let before = folder.filter(|_| !documents.exists()).map(load);
    for (key, before) in before.and_then(Result::ok).into_iter().flat_map(|all| all.overrides) {
        if let Err(why) = operator::set(&documents, &key, Some(&before)) {
            tracing::error!(address = %key.address, "its state is not migrated: {why:?}");
        }
    }
    Arc::new(documents)
}

/// Saves a state that an operator has set, as older versions did.
#[cfg(test)]
pub fn save_override(folder: &Path, key: &OverrideKey, set: &Override) {
    FILE.save(folder, [Line::Override(key.clone(), set.clone())]).unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved() -> SavedHealth {
        let mut saved = SavedHealth::default();
        for last in 0..9u8 {
            let state =
                [ProbeState::Unknown, ProbeState::Up, ProbeState::Down][usize::from(last % 3)];
            let since = Duration::from_millis(1_700_000_000_000 + u64::from(last));
            let target = HealthTarget { check: "web".into(), address: [10, 0, 0, last].into() };
            saved.states.insert(target, (TargetState::saved(state, last > 3, since), since));
        }
        saved
    }

    #[test]
    fn damaged_file_is_named_and_one_of_an_older_version_is_read() {
        let folder = test_support::folder::Folder::new("health-saved");
        let path = FILE.path(&folder);
        assert_eq!(load(&folder), Ok(SavedHealth::default()));
        save(&folder, &saved()).unwrap();
        assert_eq!(load(&folder), Ok(saved()));
        let old = "{\"dunlin_health_state\":1}\n\
                   {\"Target\":[\"web\",\"10.0.0.1\",\"up\",true,1700000000000,1700000000000]}\n\
                   {\"lines\":2,\"checksum\":\"55636de5da1861ad\"}\n";
        std::fs::write(&path, old).unwrap();
        assert_eq!(load(&folder).unwrap().states.len(), 1);
        let damaged = old.replace("10.0.0.1", "10.0.0.2");
        std::fs::write(&path, &damaged).unwrap();
        let why = load(&folder).unwrap_err();
        assert!(
            why.starts_with(&format!("{}: is cut off or damaged. It", path.display())),
            "{why}"
        );
    }
}
