//! Names, types and record data in JSON, in presentation form (RFC 1035 §5.1).
use crate::members::{
    self, FailWord, MemberBody, MinUpBody, ValueBody, default_policy, default_view, not_yet,
};
use crate::problem::Problem;
use model::BrokenRule;
use records::{MinUp, SetValue, StoredSet, View};
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
    /// The members with their tiers, instead of `data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 5000)]
    pub members: Option<Vec<MemberBody>>,
    /// The view: only `default` exists.
    #[serde(default = "default_view")]
    #[schema(default = "default")]
    pub view: String,
    /// Which of the records an answer has: `all`, or with `failover` those of the first tier that
    /// has any. Only for addresses.
    #[serde(default = "default_policy")]
    #[schema(default = "all")]
    pub policy: String,
    /// The most records of an answer; absent: no bound.
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
    /// What operators note of the set; absent: nothing. No answer has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 255)]
    pub comment: Option<String>,
}

impl SetBody {
    /// The content.
    pub fn value(self) -> ValueBody {
        let Self { ttl, data, members, view, policy, max, check, min_up, fail, comment, .. } = self;
        ValueBody { ttl, data, members, view, policy, max, check, min_up, fail, comment }
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
    View::from_word(text).ok_or_else(|| not_yet(field, "views", "\"default\""))
}

/// Parses the content of a set; `place` is prepended to the names of fields.
pub fn read_value(body: &ValueBody, rtype: Rtype, place: &str) -> Result<SetValue, Problem> {
    read_view(&body.view, &format!("{place}view"))?;
    let policy = members::read_policy(body, place)?;
    let texts = members::texts(&body.data, body.members.as_deref(), place)?;
    let data = read_texts(texts, rtype)?;
    members::check_rules(&policy, rtype, data.len(), place)?;
    Ok(SetValue { ttl: body.ttl, policy, data })
}

fn read_texts(texts: Vec<(&str, String)>, rtype: Rtype) -> Result<Vec<Box<[u8]>>, Problem> {
    let read = |(text, field)| {
        zonefile::read_data(rtype, text)
            .map(Box::from)
            .map_err(|fault| Problem::invalid(field, fault.rule, fault.to_string()))
    };
    texts.into_iter().map(read).collect()
}

/// Parses the data of records; `place` is prepended to the names of fields.
pub fn read_data(data: &[String], rtype: Rtype, place: &str) -> Result<Vec<Box<[u8]>>, Problem> {
    read_texts(members::texts(data, None, place)?, rtype)
}

/// The content of a set in presentation form.
pub fn write_value(rtype: Rtype, value: &SetValue) -> ValueBody {
    let data: Vec<_> = value.data.iter().map(|data| zonefile::data_text(rtype, data)).collect();
    let rules = value.policy.rules();
    ValueBody {
        ttl: value.ttl,
        members: members::write_members(&value.policy, &data),
        data,
        view: default_view(),
        policy: rules.map(|rules| rules.choice).unwrap_or_default().word().to_owned(),
        max: rules.map(|rules| rules.max).filter(|max| *max > 0),
        check: rules.map(|rules| String::from(&*rules.check)).filter(|check| !check.is_empty()),
        min_up: rules
            .map(|rules| rules.min_up)
            .filter(|min_up| *min_up != MinUp::default())
            .map(MinUpBody::from),
        fail: rules.filter(|rules| rules.is_closed).map(|_| FailWord::Closed),
        comment: Some(value.policy.comment().to_owned()).filter(|text| !text.is_empty()),
    }
}

/// A set in presentation form.
pub fn write_set(set: &StoredSet) -> SetBody {
    let ValueBody { ttl, data, members, view, policy, max, check, min_up, fail, comment } =
        write_value(set.key.rtype, &set.value);
    let (name, rtype) = (set.key.name.to_string(), set.key.rtype.to_string());
    SetBody { name, rtype, ttl, data, members, view, policy, max, check, min_up, fail, comment }
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
        let not_yet = [("view", "geo"), ("policy", "weighted"), ("policy", "nearest")];
        for (field, word) in not_yet {
            let told =
                refused(serde_json::json!({ "ttl": 1, "data": ["192.0.2.1"], field: word }), "A");
            assert_eq!((&told["field"], &told["rule"]), (&field.into(), &"not-yet".into()));
            assert!(told["detail"].as_str().expect("a text").starts_with("not yet"), "{told}");
        }
        for (field, value) in [("weight", 5.into()), ("location", "eu".into())] {
            let value: serde_json::Value = value;
            let member = serde_json::json!({ "data": "192.0.2.1", field: value });
            let told = refused(serde_json::json!({ "ttl": 1, "members": [member] }), "A");
            let place = format!("members[0].{field}");
            assert_eq!((&told["field"], &told["rule"]), (&place.into(), &"not-yet".into()));
        }
    }

    #[test]
    fn rules_are_read_and_written_alike() {
        for (rules, canonical) in [
            (r#"{"check":"web","policy":"all"}"#, None),
            (r#"{"policy":"failover","max":2,"min_up":"50%"}"#, None),
            (r#"{"min_up":2,"policy":"all"}"#, None),
            (r#"{"check":"web","fail":"closed","policy":"all"}"#, None),
            (r#"{"fail":"open","policy":"all"}"#, Some(r#"{"policy":"all"}"#)),
            (r#"{"comment":"rack 7","policy":"all"}"#, None),
            (r#"{"check":"web","comment":"rack 7","policy":"all"}"#, None),
            (r#"{"comment":"","policy":"all"}"#, Some(r#"{"policy":"all"}"#)),
            (r#"{"min_up":1,"policy":"all"}"#, Some(r#"{"policy":"all"}"#)),
        ] {
            let mut body: serde_json::Value = serde_json::from_str(rules).expect("JSON");
            body["ttl"] = 5.into();
            body["data"] = serde_json::json!(["192.0.2.1", "192.0.2.2"]);
            let body: ValueBody = serde_json::from_value(body).expect("a body");
            let value = read_value(&body, Rtype::A, "").expect("valid");
            let mut told = serde_json::to_value(write_value(Rtype::A, &value)).expect("JSON");
            for key in ["ttl", "data", "view"] {
                told.as_object_mut().expect("an object").remove(key);
            }
            let wanted: serde_json::Value =
                serde_json::from_str(canonical.unwrap_or(rules)).expect("JSON");
            assert_eq!(told, wanted);
        }
    }

    #[test]
    fn members_have_tiers_and_stand_for_the_data() {
        let json = r#"{"ttl":5,"policy":"failover","members":[{"data":"192.0.2.2"},
            {"data":"192.0.2.1","tier":1}]}"#;
        let body: ValueBody = serde_json::from_str(json).expect("a body");
        let value = read_value(&body, Rtype::A, "").expect("valid");
        let told = write_value(Rtype::A, &value);
        assert_eq!(told.data, ["192.0.2.2", "192.0.2.1"]);
        assert_eq!(read_value(&told, Rtype::A, "").expect("valid"), value);
        let other = ValueBody { data: vec!["192.0.2.9".into()], ..body };
        let problem = read_value(&other, Rtype::A, "").expect_err("two sets");
        assert_eq!(serde_json::to_value(problem).expect("JSON")["field"], "data");
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
