//! Names, types and record data in JSON, in presentation form (RFC 1035 §5.1).
use crate::problem::Problem;
use model::{
    BrokenRule, FailWord, MemberBody, MinUpBody, ValueBody, default_policy, default_view,
    write_value,
};
use records::StoredSet;
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
    #[serde(default)]
    #[schema(max_items = 5000)]
    pub data: Vec<String>,
    /// The members with their tiers, weights and locations, instead of `data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 5000)]
    pub members: Option<Vec<MemberBody>>,
    /// The view: only `default` exists.
    #[serde(default = "default_view")]
    #[schema(default = "default")]
    pub view: String,
    /// Which of the records an answer has: `all`; `failover`, those of the first tier that has any;
    /// `nearest`, those with the longest path in common with the client's location; or one: `one`,
    /// `weighted` or `hash`. Only for A, AAAA, SRV, HTTPS and PTR.
    #[serde(default = "default_policy")]
    #[schema(default = "all")]
    pub policy: String,
    /// The order of the records of an answer: `random`, `weighted` or `hash`; absent: `random`.
    /// Policies that answer one record have their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    /// The most records of an answer; absent: 1 with `one`, `weighted` and `hash`, else no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u16>,
    /// The check that the addresses have to pass; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// With fewer members up, those that are not are answered, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_up: Option<MinUpBody>,
    /// What is answered if no member is up: `open`, those that are down; `closed`, none of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail: Option<FailWord>,
    /// Comment of operators; absent: none. No answer has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 255)]
    pub comment: Option<String>,
}

impl SetBody {
    /// The content.
    pub fn value(self) -> ValueBody {
        let Self { ttl, data, members, view, policy, then, max, .. } = self;
        let (check, min_up, fail, comment) = (self.check, self.min_up, self.fail, self.comment);
        ValueBody { ttl, data, members, view, policy, then, max, check, min_up, fail, comment }
    }
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

/// Parses the begin of a name, relative to a zone.
pub fn read_prefix(text: &str, zone: Name<'_>) -> Result<NameBuf, Problem> {
    if text == "@" {
        return Ok(zone.into());
    }
    let read = NameBuf::from_text(text.as_bytes(), zone).ok().filter(|_| !text.ends_with('.'));
    let mut name = read.ok_or_else(|| {
        let what = "is not the beginning of a name, relative to the zone and without a final dot";
        Problem::invalid("prefix", BrokenRule::NAME, what)
    })?;
    name.make_lowercase();
    Ok(name)
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

/// A set in presentation form.
pub fn write_set(set: &StoredSet) -> SetBody {
    let ValueBody { ttl, data, members, policy, then, max, check, min_up, fail, comment, .. } =
        write_value(set.key.rtype, &set.value);
    let (name, rtype) = (set.key.name.to_string(), set.key.rtype.to_string());
    let view = set.key.view.word().to_owned();
    SetBody {
        name,
        rtype,
        ttl,
        data,
        members,
        view,
        policy,
        then,
        max,
        check,
        min_up,
        fail,
        comment,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
