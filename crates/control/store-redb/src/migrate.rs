//! Formats of the tree: new files have the newest, older ones are upgraded step by step, newer ones
//! are refused.
use crate::tables::{DELETED, FORM, GONE, JOURNAL, META, SETS, ZONES};
use crate::wal::StoreKey;
use crate::{failed, store_error};
use records::StoreError;
use records::snapshot::FORMAT as SNAPSHOT_FORMAT;
use redb::{Database, ReadableDatabase, WriteTransaction};

/// Upgrades a file by one format. Step `n` leads to format `n + 2`: the first format is 1.
pub type MigrationStep = fn(&WriteTransaction) -> Result<(), redb::Error>;

/// All steps.
const STEPS: [MigrationStep; FORM as usize - 1] =
    [with_a_log, with_journals_of_deleted_zones, with_rules_of_sets, with_comments_of_sets];

/// Upgrades a file to a format in one transaction, or leaves it unchanged.
///
/// # Errors
/// The format is newer, or the disk failed.
pub fn to(database: &Database, form: u64) -> Result<(), StoreError> {
    by(database, &STEPS[..form as usize - 1])
}

/// The error for a format newer than the known ones.
pub fn newer(form: u64, known: u64) -> StoreError {
    failed(&format!(
        "it was written by a newer version of Dunlin (format {form}; the newest known is {known}): \
         use that version, or with it write `dunlin zones snapshot --format {SNAPSHOT_FORMAT} \
         FILE`, and restore FILE with this version into another [server] data_dir"
    ))
}

fn by(database: &Database, steps: &[MigrationStep]) -> Result<(), StoreError> {
    let newest = steps.len() as u64 + 1;
    let found = form(database).map_err(store_error)?;
    if found >= Some(newest) {
        return if found > Some(newest) { Err(newer(found.unwrap_or(0), newest)) } else { Ok(()) };
    }
    let Some(form) = found else { return Err(failed("it holds no store")) };
    let run = || -> Result<(), redb::Error> {
        let transaction = database.begin_write()?;
        tracing::info!(from = form, to = newest, "upgrading the format of the store");
        for step in &steps[form as usize - 1..] {
            step(&transaction)?;
        }
        transaction.open_table(META)?.insert("form", newest)?;
        transaction.commit()?;
        Ok(())
    };
    run().map_err(store_error)
}

fn form(database: &Database) -> Result<Option<u64>, redb::Error> {
    match database.begin_read()?.open_table(META) {
        Ok(meta) => Ok(meta.get("form")?.map(|form| form.value())),
        Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Creates the tables in an empty file, in the newest format.
pub fn create(database: &Database, store: StoreKey) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        transaction.open_table(ZONES)?;
        transaction.open_table(SETS)?;
        transaction.open_table(JOURNAL)?;
        transaction.open_table(GONE)?;
        transaction.open_table(DELETED)?;
        let mut meta = transaction.open_table(META)?;
        meta.insert("form", FORM)?;
        meta.insert("log 0", store[0])?;
        meta.insert("log 1", store[1])?;
    }
    transaction.commit()?;
    Ok(())
}

/// To format 2: there is a log, with a key of its own.
fn with_a_log(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    let mut meta = transaction.open_table(META)?;
    for name in ["log 0", "log 1"] {
        let random = getrandom::u64().map_err(std::io::Error::other)?;
        meta.insert(name, random)?;
    }
    Ok(())
}

/// To format 3: journals of deleted zones stay, entries may have a reason, and the log has a
/// header. `files::upgrade` creates that log.
fn with_journals_of_deleted_zones(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(DELETED)?;
    Ok(())
}

/// To format 4: sets may have rules. Those of format 3 have none, so nothing changes but the
/// number, which earlier versions refuse.
fn with_rules_of_sets(_: &WriteTransaction) -> Result<(), redb::Error> {
    Ok(())
}

/// To format 5: sets may have comments. As for format 4, only the number changes.
fn with_comments_of_sets(_: &WriteTransaction) -> Result<(), redb::Error> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use redb::ReadableTable;
    use redb::backends::InMemoryBackend;

    fn database() -> Database {
        redb::Builder::new().create_with_backend(InMemoryBackend::new()).unwrap()
    }

    fn of_form(form: u64) -> Database {
        let database = database();
        create(&database, [1, 2]).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(META).unwrap().insert("form", form).unwrap();
        transaction.commit().unwrap();
        database
    }

    fn revision(database: &Database) -> Option<u64> {
        let meta = database.begin_read().unwrap().open_table(META).unwrap();
        meta.get("revision").unwrap().map(|revision| revision.value())
    }

    #[test]
    fn older_format_is_upgraded_or_left_unchanged() {
        let database = of_form(1);
        let steps: [MigrationStep; 2] = [|_| Ok(()), |_| Err(redb::Error::ValueTooLarge(1))];
        assert!(by(&database, &steps).is_err());
        assert_eq!((form(&database).unwrap(), revision(&database)), (Some(1), None));
        let steps: [MigrationStep; 2] = [
            |transaction| {
                transaction.open_table(META)?.insert("revision", 1)?;
                Ok(())
            },
            |transaction| {
                let mut meta = transaction.open_table(META)?;
                let before = meta.get("revision")?.map_or(0, |found| found.value());
                meta.insert("revision", before * 10 + 2)?;
                Ok(())
            },
        ];
        by(&database, &steps).unwrap();
        by(&database, &steps).unwrap();
        assert_eq!((form(&database).unwrap(), revision(&database)), (Some(3), Some(12)));
    }

    #[test]
    fn newer_format_is_refused_and_left_unchanged() {
        let database = of_form(FORM + 1);
        let message = to(&database, FORM).unwrap_err().to_string();
        assert!(message.contains("newer version of Dunlin (format 6"), "{message}");
        assert!(message.contains("dunlin zones snapshot --format 4"), "{message}");
        assert_eq!(form(&database).unwrap(), Some(6));
    }
}
