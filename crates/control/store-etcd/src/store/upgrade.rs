//! Raises the form of the keys, once every server of the fleet knows the new one.
use crate::limits::RETRIES_MAX;
use crate::shared::Shared;
use etcd_client::{Compare, CompareOp, GetOptions, TxnOp};
use etcd_link::{RequestError, has_value, is_absent};
use keyspace::keys::{check_format, read_member};
use keyspace::limits::WRITE_MAX;
use records::{Form, StoreError};

/// Makes the newest form that of the keys. Each commit compares the key `format`, so from then on a
/// server that does not know the form commits nothing.
///
/// # Errors
/// [`StoreError::Form`]: a member does not know the form, or etcd has no records yet. Otherwise
/// etcd does not answer; the form may be raised, or later.
pub fn raise(shared: &Shared) -> Result<(), StoreError> {
    let raising = async {
        for _ in 0..RETRIES_MAX {
            match try_once(shared).await {
                Ok(done) => return done,
                // Another server has joined, or has the lock; or the answer was lost: read again.
                Err(RequestError::Unanswered(_)) => (),
                Err(why) => return Err(super::store_error(why)),
            }
        }
        Err(StoreError::Unreachable("other servers join or replace everything: try again".into()))
    };
    let late = || Err(StoreError::Unreachable("etcd has not answered: try again".into()));
    shared.link.wait(WRITE_MAX, raising).unwrap_or_else(late)
}

/// [`RequestError::Unanswered`]: it is not known whether it is done.
async fn try_once(shared: &Shared) -> Result<Result<(), StoreError>, RequestError> {
    let (connection, keys) = (&shared.link.connection, &shared.link.keys);
    let got = connection.get(keys.members(), GetOptions::new().with_prefix()).await?;
    let format = connection.value(&keys.format()).await?;
    let form = check_format(format.as_deref()).map_err(RequestError::Unusable)?;
    shared.has_form(form);
    let Some(form) = form else {
        let why = "etcd has no records yet, whose form could be raised".to_owned();
        return Ok(Err(StoreError::Form(why)));
    };
    if form >= Form::NEWEST {
        return Ok(Ok(()));
    }
    let members = got.kvs().iter().filter_map(read_member);
    let behind: Vec<String> = members
        .filter(|member| member.form < Form::NEWEST.0)
        .map(|member| format!("{} (version {})", member.name, member.version))
        .collect();
    if !behind.is_empty() {
        let (form, behind) = (Form::NEWEST, behind.join(", "));
        return Ok(Err(StoreError::Form(format!(
            "these servers do not know form {form}: {behind}; upgrade or stop them first"
        ))));
    }
    let at = got.header().map_or(0, |header| header.revision());
    let end = [keys.members().trim_end_matches('/'), "0"].concat();
    let compares = [
        has_value(keys.format(), Some(form.of_keys().to_string())),
        is_absent(keys.hold()),
        // No server has joined since.
        Compare::create_revision(keys.members(), CompareOp::Less, at + 1).with_range(end),
    ];
    let put = TxnOp::put(keys.format(), Form::NEWEST.of_keys().to_string(), None);
    if !connection.write(compares, [put]).await? {
        return Err(RequestError::Unanswered("something has changed meanwhile".into()));
    }
    shared.has_form(Some(Form::NEWEST));
    Ok(Ok(()))
}
