//! Conditional requests (RFC 9110 §13). The entity tag of a record set, a zone or the store is the
//! revision of its last write. The writer thread checks the condition, so no write comes in
//! between.
use crate::problem::Problem;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use records::{Precondition, Revision};

/// The entity tag of a revision.
pub fn tag(revision: Revision) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{revision}\"")).expect("digits in quotes")
}

/// The condition of a write.
///
/// # Errors
/// A field is invalid, both fields are present, or an entity tag cannot express the condition.
pub fn expected(headers: &HeaderMap) -> Result<Precondition, Problem> {
    match (field(headers, &IF_MATCH)?, field(headers, &IF_NONE_MATCH)?) {
        (None, None) => Ok(Precondition::Anything),
        (Some("*"), None) => Ok(Precondition::Present),
        (Some(text), None) => read_tag(text).map(Precondition::At).ok_or_else(|| {
            let detail = "If-Match is `*`, or one entity tag as a GET gives it, such as \"7\"";
            Problem::unreadable("If-Match", detail)
        }),
        (None, Some("*")) => Ok(Precondition::Absent),
        (None, Some(_)) => Err(Problem::unreadable("If-None-Match", "a write accepts only `*`")),
        (Some(_), Some(_)) => {
            Err(Problem::unreadable("If-None-Match", "send this or If-Match, not both"))
        }
    }
}

/// Refuses a condition where no entity tag exists.
///
/// # Errors
/// The request has a condition.
pub fn none(headers: &HeaderMap) -> Result<(), Problem> {
    let named = [IF_MATCH, IF_NONE_MATCH].into_iter().find(|name| headers.contains_key(name));
    named.map_or(Ok(()), |name| {
        let detail = "there is no entity tag here that it could be met by: send it without";
        Err(Problem::unreadable(name.as_str(), detail))
    })
}

/// Whether the client's copy is still current.
pub fn is_known(headers: &HeaderMap, revision: Revision) -> bool {
    let Ok(Some(text)) = field(headers, &IF_NONE_MATCH) else { return false };
    let is_it = |tag: &str| read_tag(tag.trim().trim_start_matches("W/")) == Some(revision);
    revision != Revision::NONE && text.split(',').any(is_it)
}

fn field<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Problem> {
    let mut all = headers.get_all(name).iter();
    let Some(first) = all.next() else { return Ok(None) };
    match (first.to_str(), all.next()) {
        (Ok(text), None) => Ok(Some(text.trim())),
        _ => Err(Problem::unreadable(name.as_str(), "is not text, or is there twice")),
    }
}

/// A strong entity tag that is a revision.
fn read_tag(text: &str) -> Option<Revision> {
    let digits = text.strip_prefix('"')?.strip_suffix('"')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number).map(Revision)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(HeaderName, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name.clone(), HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn conditions_of_a_write_are_parsed() {
        for (fields, expect) in [
            (&[][..], Some(Precondition::Anything)),
            (&[(IF_MATCH, "*")], Some(Precondition::Present)),
            (&[(IF_MATCH, " \"7\" ")], Some(Precondition::At(Revision(7)))),
            (&[(IF_NONE_MATCH, "*")], Some(Precondition::Absent)),
            (&[(IF_MATCH, "7")], None),
            (&[(IF_MATCH, "")], None),
            (&[(IF_MATCH, "\"\"")], None),
            (&[(IF_NONE_MATCH, "W/\"7\"")], None),
            (&[(IF_NONE_MATCH, "*"), (IF_NONE_MATCH, "*")], None),
            (&[(IF_MATCH, "W/\"7\"")], None),
            (&[(IF_MATCH, "\"+7\"")], None),
            (&[(IF_MATCH, "\"99999999999999999999\"")], None),
            (&[(IF_MATCH, "\"7\", \"8\"")], None),
            (&[(IF_MATCH, "\"7\""), (IF_MATCH, "\"8\"")], None),
            (&[(IF_NONE_MATCH, "\"7\"")], None),
            (&[(IF_MATCH, "*"), (IF_NONE_MATCH, "*")], None),
        ] {
            assert_eq!(expected(&headers(fields)).ok(), expect, "{fields:?}");
        }
    }

    #[test]
    fn conditions_of_a_reader_are_parsed() {
        for (value, known) in
            [("\"7\"", true), ("W/\"7\"", true), ("\"6\", \"7\"", true), ("\"8\"", false)]
        {
            assert_eq!(
                is_known(&headers(&[(IF_NONE_MATCH, value)]), Revision(7)),
                known,
                "{value}"
            );
        }
        assert_eq!(tag(Revision(7)), "\"7\"");
        assert!(!is_known(&headers(&[(IF_NONE_MATCH, "\"0\"")]), Revision::NONE), "of no store");
    }
}
