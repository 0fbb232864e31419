//! The JSON of a record set in a shared store, with the revision of its last write.
use super::{ValueBody, read_value, write_value};
use crate::{Revision, SetValue};
use serde::Serialize;
use serde_json::Value;
use wire::Rtype;

#[derive(Serialize)]
struct StoredBody {
    #[serde(flatten)]
    value: ValueBody,
    revision: u64,
}

/// Writes a set with the revision of its last write.
pub fn write_stored(rtype: Rtype, revision: Revision, value: &SetValue) -> Vec<u8> {
    let body = StoredBody { value: write_value(rtype, value), revision: revision.0 };
    serde_json::to_vec(&body).unwrap_or_default()
}

/// Parses a set of this type, with the revision of its last write.
///
/// # Errors
/// Its fault.
pub fn read_stored(json: &[u8], rtype: Rtype) -> Result<(Revision, SetValue), String> {
    let mut body: Value = serde_json::from_slice(json).map_err(|why| why.to_string())?;
    let revision = body.as_object_mut().and_then(|body| body.remove("revision"));
    let revision = revision.as_ref().and_then(Value::as_u64).ok_or("it has no `revision`")?;
    let body: ValueBody = serde_json::from_value(body).map_err(|why| why.to_string())?;
    let value = read_value(&body, rtype, "").map_err(|why| why.to_string())?;
    Ok((Revision(revision), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_set_round_trips_and_says_what_is_wrong() {
        let value = SetValue::new(300, vec![[192, 0, 2, 1][..].into()]);
        let json = write_stored(Rtype::A, Revision(7), &value);
        let text =
            r#"{"ttl":300,"data":["192.0.2.1"],"view":"default","policy":"all","revision":7}"#;
        assert_eq!(String::from_utf8_lossy(&json), text);
        assert_eq!(read_stored(&json, Rtype::A), Ok((Revision(7), value)));
        for (wrong, why) in [
            ("{", "EOF"),
            (r#"{"ttl":300,"data":["192.0.2.1"]}"#, "`revision`"),
            (r#"{"ttl":300,"data":["x"],"revision":7}"#, "data[0]"),
            (r#"{"ttl":300,"data":["192.0.2.1"],"revision":7,"a":1}"#, "unknown field `a`"),
        ] {
            let found = read_stored(wrong.as_bytes(), Rtype::A).unwrap_err();
            assert!(found.contains(why), "{found}");
        }
    }
}
