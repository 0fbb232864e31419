//! Forms of the file: a new file gets the newest, an older one is brought there step by step, a
//! newer one is refused.
use crate::tables::{FORM, GONE, JOURNAL, META, SETS, ZONES};
use crate::{failed, told};
use records::StoreError;
use redb::{Database, ReadableDatabase, WriteTransaction};

/// Brings a file from one form to the next. Step `n` leaves form `n + 2`: the first form is 1.
pub type Step = fn(&WriteTransaction) -> Result<(), redb::Error>;

/// The steps there are.
const STEPS: [Step; FORM as usize - 1] = [with_a_log];

/// Brings a file to the newest form, in one transaction, or leaves it as it was.
pub fn to_newest(database: &Database) -> Result<(), StoreError> {
    to(database, &STEPS)
}

fn to(database: &Database, steps: &[Step]) -> Result<(), StoreError> {
    let newest = steps.len() as u64 + 1;
    let found = form(database).map_err(told)?;
    if found == Some(newest) {
        return Ok(());
    }
    if let Some(form) = found.filter(|form| *form > newest) {
        return Err(failed(&format!(
            "it was written by a newer version of Dunlin (form {form}; this one knows up to \
             {newest}): use that version, or restore a snapshot into another [server] data_dir"
        )));
    }
    let run = || -> Result<(), redb::Error> {
        let transaction = database.begin_write()?;
        match found {
            None => create(&transaction)?,
            Some(form) => {
                tracing::info!(from = form, to = newest, "the store is brought to a newer form");
                for step in &steps[form as usize - 1..] {
                    step(&transaction)?;
                }
            }
        }
        transaction.open_table(META)?.insert("form", newest)?;
        transaction.commit()?;
        Ok(())
    };
    run().map_err(told)
}

fn form(database: &Database) -> Result<Option<u64>, redb::Error> {
    match database.begin_read()?.open_table(META) {
        Ok(meta) => Ok(meta.get("form")?.map(|form| form.value())),
        Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn create(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(ZONES)?;
    transaction.open_table(SETS)?;
    transaction.open_table(JOURNAL)?;
    transaction.open_table(GONE)?;
    with_a_log(transaction)
}

/// To form 2: there is a log beside the file, with a key of its own.
fn with_a_log(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    let mut meta = transaction.open_table(META)?;
    for name in ["log 0", "log 1"] {
        let random = getrandom::u64().map_err(std::io::Error::other)?;
        meta.insert(name, random)?;
    }
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

    fn revision(database: &Database) -> Option<u64> {
        let meta = database.begin_read().unwrap().open_table(META).unwrap();
        meta.get("revision").unwrap().map(|revision| revision.value())
    }

    #[test]
    fn an_older_form_is_brought_to_the_newest_step_by_step_or_left_as_it_was() {
        let database = database();
        to(&database, &[]).unwrap();
        let steps: [Step; 2] = [|_| Ok(()), |_| Err(redb::Error::ValueTooLarge(1))];
        assert!(to(&database, &steps).is_err());
        assert_eq!((form(&database).unwrap(), revision(&database)), (Some(1), None));
        let steps: [Step; 2] = [
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
        to(&database, &steps).unwrap();
        to(&database, &steps).unwrap();
        assert_eq!((form(&database).unwrap(), revision(&database)), (Some(3), Some(12)));
    }

    #[test]
    fn a_newer_form_is_refused_and_left_as_it_is() {
        let database = database();
        let newer: [Step; FORM as usize] = [|_| Ok(()); FORM as usize];
        to(&database, &newer).unwrap();
        let told = to_newest(&database).unwrap_err().to_string();
        assert!(told.contains("newer version of Dunlin (form 3"), "{told}");
        assert_eq!(form(&database).unwrap(), Some(3));
    }
}
