//! Restores previous settings.
use crate::Failure;
use crate::events::Event;
use crate::groups::{CONTROL, EFFECTIVE, EXCLUSIVE, Groups, PARTITION};
use crate::state::{State, beside, machine_id};
use durable::files;
use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;

/// Writes a file of a group; a removed group is skipped.
pub(crate) fn write(
    groups: &mut impl Groups,
    group: &str,
    file: &str,
    text: &str,
) -> Result<(), Failure> {
    const NO_DEVICE: i32 = 19;
    match groups.write(group, file, text) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.raw_os_error() == Some(NO_DEVICE) => Ok(()),
        Err(error) => {
            let place = format!("{} of the control group {group:?}", file);
            Err(Failure::of(&format!("write {text:?} into"), place, &error))
        }
        Ok(()) => Ok(()),
    }
}

/// Restores previous settings. If this program enabled the controller, it disables it, which also
/// removes the sets.
pub(crate) fn restore(groups: &mut impl Groups, state: &State) -> Result<(), Failure> {
    for (number, cpus) in &state.interrupts {
        // Interrupts that no longer exist, or can no longer be moved, are skipped.
        drop(groups.set_interrupt(*number, cpus));
    }
    // A partition ends before the groups that it is in lose its CPUs.
    for file in [PARTITION, EXCLUSIVE] {
        for (group, files) in state.found.iter().rev() {
            if let Some(text) = files.get(file) {
                write(groups, group, file, text)?;
            }
        }
    }
    for group in state.switched_on.iter().rev() {
        match groups.write(group, CONTROL, "-cpuset") {
            // If another program has enabled it further down since, the sets are written instead.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
            _ => write(groups, group, CONTROL, "-cpuset")?,
        }
    }
    let all = groups.read("", EFFECTIVE).unwrap_or_default();
    for (group, files) in &state.found {
        let sets = files.iter().filter(|(file, _)| *file != PARTITION && *file != EXCLUSIVE);
        for (file, text) in sets {
            if groups.read(group, file).is_ok_and(|found| found == *text) {
                continue;
            }
            // The kernel refuses to empty the set of a group with processes. A set of all CPUs has
            // the same effect.
            let refused = groups
                .write(group, file, text)
                .is_err_and(|error| error.kind() == io::ErrorKind::StorageFull && text.is_empty());
            write(groups, group, file, if refused { &all } else { text })?;
        }
    }
    Ok(())
}

pub(crate) fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::of("remove", path.display(), &error))
        }
        _ => Ok(()),
    }
}

pub(crate) fn move_aside(path: &Path, fault: &str) -> Result<Event, Failure> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let aside = beside(path, &format!("unused-{}", now.as_nanos()));
    files::rename(path, &aside)
        .map_err(|error| Failure::of("move aside", path.display(), &error))?;
    let what = format!(
        "{fault}; it is kept as {}, and groups with rules keep the CPUs that they have",
        aside.display()
    );
    Ok(Event::Failed("the state".into(), what))
}

/// Restores all settings that a state file records, and removes the file. Returns the number of
/// groups; 0 if nothing was managed.
///
/// # Errors
/// The state cannot be used, or the kernel refuses. The file stays then.
pub fn uninstall(groups: &mut impl Groups, state_path: &Path) -> Result<usize, Failure> {
    let state = State::load(state_path, &machine_id()).map_err(|fault| {
        Failure(format!(
            "{fault}; the previous settings are unknown: write an empty line into cpuset.cpus of \
             each group, or restart the machine"
        ))
    })?;
    let Some(state) = state else { return Ok(0) };
    restore(groups, &state)?;
    remove(state_path)?;
    Ok(state.found.len())
}
