//! Names, types and record data in JSON, in presentation form (RFC 1035 §5.1).
use crate::problem::Problem;
use model::BrokenRule;
use records::{Policy, SetValue, StoredSet, View};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wire::{Name, NameBuf, Rtype};

/// A record set. Names are absolute, with or without the final dot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "name": "www.example.org.", "type": "A", "ttl": 300, "data": ["192.0.2.1"]
}))]
pub struct SetBody {
    /// The owner's name.
    #[schema(max_length = 1020)]
    pub name: String,
    /// The type, such as `AAAA`, or `TYPE65280` by its number.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The TTL in seconds (RFC 2181 §8).
    #[schema(maximum = 2147483647)]
    pub ttl: u32,
    /// The data of each record, in presentation form. Names in it are absolute, with or without
    /// the final dot; that of TXT is one text, unless it begins with a quote.
    #[schema(min_items = 1, max_items = 5000)]
    pub data: Vec<String>,
    /// The view: only `default` exists.
    #[serde(default = "default_view")]
    #[schema(default = "default")]
    pub view: String,
    /// Which of the records an answer has: only `all` exists.
    #[serde(default = "default_policy")]
    #[schema(default = "all")]
    pub policy: String,
}

impl SetBody {
    /// The content.
    pub fn value(self) -> ValueBody {
        let Self { ttl, data, view, policy, .. } = self;
        ValueBody { ttl, data, view, policy }
    }
}

/// The content of a record set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "ttl": 300, "data": ["192.0.2.1"] }))]
pub struct ValueBody {
    /// The TTL in seconds (RFC 2181 §8).
    #[schema(maximum = 2147483647)]
    pub ttl: u32,
    /// The data of each record, in presentation form. Names in it are absolute, with or without
    /// the final dot; that of TXT is one text, unless it begins with a quote.
    #[schema(min_items = 1, max_items = 5000)]
    pub data: Vec<String>,
    /// The view: only `default` exists.
    #[serde(default = "default_view")]
    #[schema(default = "default")]
    pub view: String,
    /// Which of the records an answer has: only `all` exists.
    #[serde(default = "default_policy")]
    #[schema(default = "all")]
    pub policy: String,
}

fn default_view() -> String {
    View::default().word().to_owned()
}

fn default_policy() -> String {
    Policy::default().word().to_owned()
}

/// Parses an absolute name, with or without the final dot.
pub fn read_name(text: &str, field: &str) -> Result<NameBuf, Problem> {
    zonefile::read_name(text)
        .map_err(|fault| Problem::invalid(field, BrokenRule::NAME, fault.to_string()))
}

/// Parses the owner's name of a set; it must be in the zone.
pub fn read_owner(text: &str, zone: Name<'_>, field: &str) -> Result<NameBuf, Problem> {
    let name = read_name(text, field)?;
    if name.as_name().is_within(zone) {
        return Ok(name);
    }
    let mut what = format!("{name} does not lie in the zone {zone}: names are absolute here");
    let labels = &name.as_name().as_bytes()[..name.as_name().len() - 1];
    if let (false, Ok(meant)) = (text.ends_with('.'), NameBuf::joined(labels, zone)) {
        what += &format!(", {meant} is probably meant");
    }
    Err(Problem::invalid(field, BrokenRule::OUT_OF_ZONE, what))
}

/// Parses a type of records.
pub fn read_type(text: &str, field: &str) -> Result<Rtype, Problem> {
    match text.parse::<Rtype>() {
        Ok(rtype) if rtype.is_meta() => {
            let what = "is a query type; no record has it";
            Err(Problem::invalid(field, BrokenRule::META_TYPE, what))
        }
        Ok(rtype) => Ok(rtype),
        Err(()) => {
            let what = "is not a type, such as AAAA, or TYPE65280 by its number";
            Err(Problem::invalid(field, BrokenRule::TYPE, what))
        }
    }
}

/// Parses the name of a view.
pub fn read_view(text: &str, field: &str) -> Result<View, Problem> {
    View::from_word(text).ok_or_else(|| not_yet(field, "view", View::default().word()))
}

fn not_yet(field: &str, what: &str, known: &str) -> Problem {
    let what = format!("not yet: the only {what} there is so far is \"{known}\"");
    Problem::invalid(field, BrokenRule::NOT_YET, what)
}

/// Parses the content of a set; `place` is prepended to the names of fields.
pub fn read_value(body: &ValueBody, rtype: Rtype, place: &str) -> Result<SetValue, Problem> {
    read_view(&body.view, &format!("{place}view"))?;
    let policy = Policy::from_word(&body.policy)
        .ok_or_else(|| not_yet(&format!("{place}policy"), "policy", Policy::default().word()))?;
    let mut data = Vec::with_capacity(body.data.len());
    for (number, text) in body.data.iter().enumerate() {
        let read = zonefile::read_data(rtype, text).map_err(|fault| {
            Problem::invalid(format!("{place}data[{number}]"), fault.rule, fault.to_string())
        })?;
        data.push(read.into());
    }
    Ok(SetValue { ttl: body.ttl, policy, data })
}

/// The content of a set in presentation form.
pub fn write_value(rtype: Rtype, value: &SetValue) -> ValueBody {
    ValueBody {
        ttl: value.ttl,
        data: value.data.iter().map(|data| zonefile::data_text(rtype, data)).collect(),
        view: default_view(),
        policy: value.policy.word().to_owned(),
    }
}

/// A set in presentation form.
pub fn write_set(set: &StoredSet) -> SetBody {
    let ValueBody { ttl, data, view, policy } = write_value(set.key.rtype, &set.value);
    let (name, rtype) = (set.key.name.to_string(), set.key.rtype.to_string());
    SetBody { name, rtype, ttl, data, view, policy }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: serde_json::Value, rtype: &str) -> serde_json::Value {
        let body: ValueBody = serde_json::from_value(body).expect("JSON of this form");
        let rtype = rtype.parse().expect("a type");
        let problem = read_value(&body, rtype, "").expect_err("wrong");
        serde_json::to_value(problem).expect("JSON")
    }

    #[test]
    fn other_views_and_policies_are_not_yet_there() {
        for field in ["view", "policy"] {
            let told =
                refused(serde_json::json!({ "ttl": 1, "data": ["192.0.2.1"], field: "geo" }), "A");
            assert_eq!((&told["field"], &told["rule"]), (&field.into(), &"not-yet".into()));
            assert!(told["detail"].as_str().expect("a text").starts_with("not yet"), "{told}");
        }
    }

    #[test]
    fn wrong_data_has_its_field_and_its_rule() {
        let told =
            refused(serde_json::json!({ "ttl": 1, "data": ["192.0.2.1", "192.0.2.256"] }), "A");
        assert_eq!((&told["field"], &told["rule"]), (&"data[1]".into(), &"data".into()));
        assert_eq!(told["status"], 422);
    }

    #[test]
    fn unknown_fields_are_not_passed_over() {
        let typo = serde_json::json!({ "ttl": 1, "data": ["192.0.2.1"], "tll": 2 });
        assert!(serde_json::from_value::<ValueBody>(typo).is_err());
        let typo = serde_json::json!({ "name": "a.", "type": "A", "ttl": 1, "data": [], "x": 2 });
        assert!(serde_json::from_value::<SetBody>(typo).is_err());
    }

    #[test]
    fn owner_outside_of_its_zone_is_refused_with_the_name_that_is_meant() {
        let zone = read_name("example.org", "zone").expect("a name");
        for text in ["www.example.org", "WWW.example.org.", "example.org"] {
            read_owner(text, zone.as_name(), "name").expect(text);
        }
        for (text, meant) in [
            ("www", Some("www.example.org. is probably meant")),
            ("_acme-challenge.www", Some("_acme-challenge.www.example.org. is probably meant")),
            ("www.example.net.", None),
            ("@", None),
        ] {
            let problem = read_owner(text, zone.as_name(), "name").expect_err(text);
            let told = serde_json::to_value(problem).expect("JSON");
            let detail = told["detail"].as_str().expect("a text");
            assert_eq!((&told["status"], &told["field"]), (&422.into(), &"name".into()));
            match meant {
                Some(meant) => assert!(detail.contains(meant), "{detail}"),
                None => assert!(!detail.contains("meant"), "{detail}"),
            }
        }
    }
}
