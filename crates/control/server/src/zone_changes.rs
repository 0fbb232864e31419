//! Compares the zones before a reload with those after it.
use server_status::ZoneStatus;
use server_status::command::ZoneChange;
use std::collections::HashMap;

/// The zones that were added, changed or removed, by serial and number of records.
pub fn compare(before: &[ZoneStatus], now: &[ZoneStatus]) -> Vec<ZoneChange> {
    let mut old: HashMap<&str, &ZoneStatus> =
        before.iter().map(|zone| (zone.name.as_str(), zone)).collect();
    let mut changes = Vec::new();
    for new in now {
        let zone = new.name.clone();
        match old.remove(new.name.as_str()) {
            None => changes.push(ZoneChange::Added { zone }),
            Some(old) if (old.serial, old.records) != (new.serial, new.records) => {
                let (serials, records) = ((old.serial, new.serial), (old.records, new.records));
                changes.push(ZoneChange::Changed { zone, serials, records });
            }
            Some(_) => {}
        }
    }
    let gone = before.iter().filter(|zone| old.contains_key(zone.name.as_str()));
    changes.extend(gone.map(|zone| ZoneChange::Removed { zone: zone.name.clone() }));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_changed_and_removed_zones_are_found() {
        let zone = |name: &str, serial, records| ZoneStatus {
            name: name.into(),
            serial: Some(serial),
            records,
            ..ZoneStatus::default()
        };
        let before = [zone("a.", 1, 5), zone("gone.", 1, 5), zone("same.", 1, 5)];
        let now = [zone("a.", 2, 6), zone("same.", 1, 5), zone("new.", 1, 0)];
        let expected = [
            ZoneChange::Changed { zone: "a.".into(), serials: (Some(1), Some(2)), records: (5, 6) },
            ZoneChange::Added { zone: "new.".into() },
            ZoneChange::Removed { zone: "gone.".into() },
        ];
        assert_eq!(compare(&before, &now), expected);
    }
}
