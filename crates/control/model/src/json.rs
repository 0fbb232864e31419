//! The content of a record set in JSON, in presentation form (RFC 1035 §5.1).
pub mod stored;
mod weight;

pub use weight::{RampBody, WeightBody};

use crate::rules::RAMP_NEEDS_WEIGHTS;
use crate::{
    BrokenRule, Choice, MemberRules, MinUp, ORDERS, Policy, SetRules, SetValue, VIEW_NAME_LEN_MAX,
    View,
};
use image::Order;
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;
use wire::Rtype;

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
    #[serde(default)]
    #[schema(max_items = 5000)]
    pub data: Vec<String>,
    /// The members with their tiers, weights and locations, instead of `data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 5000)]
    pub members: Option<Vec<MemberBody>>,
    /// The view: `default`, or one of the config.
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
    /// The check that the addresses have to pass; absent: that of the zone, if it has one; `off`:
    /// none.
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

/// Why a field is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidField {
    /// The field, such as `changes[3].data[0]`.
    pub field: String,
    /// The broken rule.
    pub rule: BrokenRule,
    /// The fault: a sentence without a period.
    pub what: String,
}

impl InvalidField {
    fn new(field: impl Into<String>, rule: BrokenRule, what: impl Into<String>) -> Self {
        Self { field: field.into(), rule, what: what.into() }
    }
}

/// The field, and what is wrong.
impl fmt::Display for InvalidField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.what)
    }
}

/// The word of the only view.
pub fn default_view() -> String {
    View::default().word().to_owned()
}

/// The word of the usual policy.
pub fn default_policy() -> String {
    Choice::default().word().to_owned()
}

/// A member of a record set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "data": "192.0.2.1", "tier": 1 }))]
pub struct MemberBody {
    /// The data of its record, in presentation form.
    pub data: String,
    /// Its tier: with the policy `failover`, members of a tier are answered if the tiers below it
    /// have none.
    #[serde(default)]
    #[schema(maximum = 99, default = 0)]
    pub tier: u8,
    /// Its weight, 1 if it is absent, or how it changes over time: its share of the answers is in
    /// proportion to it. With 0 it is answered only if no other member is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<WeightBody>,
    /// Where it is: a path of up to 4 levels, such as `eu/fra1/a`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
}

/// How many members have to be up: a number, or a share such as `50%`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum MinUpBody {
    /// A number of members.
    Number(u16),
    /// A share of all members.
    Share(String),
}

/// What is answered if no member is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum FailWord {
    /// Members that are down.
    Open,
    /// No member.
    Closed,
}

impl From<MinUp> for MinUpBody {
    fn from(min_up: MinUp) -> Self {
        match min_up {
            MinUp::Members(number) => Self::Number(number),
            MinUp::Percent(_) => Self::Share(min_up.to_string()),
        }
    }
}

fn read_min_up(body: &MinUpBody, field: &str) -> Result<MinUp, InvalidField> {
    let share = match body {
        MinUpBody::Number(number @ 1..) => return Ok(MinUp::Members(*number)),
        MinUpBody::Number(0) => None,
        MinUpBody::Share(text) => text.strip_suffix('%').and_then(|text| text.parse().ok()),
    };
    match share {
        Some(percent @ 1..=100) => Ok(MinUp::Percent(percent)),
        _ => {
            let what = "is a number of members from 1, or a share such as \"50%\"";
            Err(InvalidField::new(field, BrokenRule::SET_RULES, what))
        }
    }
}

/// Parses the rules; `place` is prepended to the names of fields.
fn read_policy(body: &ValueBody, place: &str) -> Result<Policy, InvalidField> {
    let field = |name: &str| format!("{place}{name}");
    let broken =
        |name: &str, what: &str| InvalidField::new(field(name), BrokenRule::SET_RULES, what);
    let choice = Choice::from_word(&body.policy).ok_or_else(|| {
        let what = "is not a policy: \"all\", \"failover\", \"one\", \"weighted\", \"hash\" or \
                    \"nearest\"";
        broken("policy", what)
    })?;
    let then = body.then.as_deref().map_or(Some(Order::Random), |then| {
        ORDERS.into_iter().find(|(_, word)| *word == then).map(|(order, _)| order)
    });
    let then = then
        .ok_or_else(|| broken("then", "is not an order: \"random\", \"weighted\" or \"hash\""))?;
    let members: Vec<MemberRules> = body
        .members
        .iter()
        .flatten()
        .enumerate()
        .map(|(number, member)| read_member(member, &format!("{place}members[{number}]")))
        .collect::<Result<_, _>>()?;
    let min_up =
        body.min_up.as_ref().map(|min_up| read_min_up(min_up, &field("min_up"))).transpose()?;
    let mut rules = SetRules {
        choice,
        then,
        max: body.max.unwrap_or_default(),
        check: body.check.as_deref().unwrap_or_default().into(),
        min_up: min_up.unwrap_or_default(),
        is_closed: body.fail == Some(FailWord::Closed),
        comment: body.comment.as_deref().unwrap_or_default().into(),
        ..SetRules::default()
    };
    rules.set_members(&members);
    if let Some(number) = rules.ramps.iter().position(Option::is_some)
        && rules.order() == Order::Random
    {
        return Err(broken(&format!("members[{number}].weight"), RAMP_NEEDS_WEIGHTS));
    }
    Ok(Policy::new(rules))
}

fn read_member(member: &MemberBody, place: &str) -> Result<MemberRules, InvalidField> {
    let (weight, ramp) = weight::read(member.weight.as_ref(), &format!("{place}.weight"))?;
    let location = member.location.as_deref().unwrap_or_default();
    if let Some(path) = &member.location {
        image::Location::parse(path).map_err(|why| {
            let what = format!("{path:?} is none: {why}");
            InvalidField::new(format!("{place}.location"), BrokenRule::SET_RULES, what)
        })?;
    }
    Ok(MemberRules { tier: member.tier, weight, ramp, location: location.into() })
}

/// The members with what the rules say of them, if they do.
fn write_members(policy: &Policy, data: &[String]) -> Option<Vec<MemberBody>> {
    let rules = policy.rules().filter(|rules| {
        let has_weights = !rules.weights.is_empty() || !rules.ramps.is_empty();
        has_weights || !rules.tiers.is_empty() || !rules.locations.is_empty()
    })?;
    let member = |(at, data): (usize, &String)| {
        let MemberRules { tier, weight, ramp, location } = rules.member(at);
        let has_weights = !rules.weights.is_empty() || !rules.ramps.is_empty();
        MemberBody {
            data: data.clone(),
            tier,
            weight: has_weights.then(|| weight::write(weight, ramp)),
            location: (!location.is_empty()).then(|| location.into()),
        }
    };
    Some(data.iter().enumerate().map(member).collect())
}

/// The data of the members, in presentation form, and the name of its field.
fn texts<'b>(
    data: &'b [String],
    members: Option<&'b [MemberBody]>,
    place: &str,
) -> Result<Vec<(&'b str, String)>, InvalidField> {
    let Some(members) = members else {
        let texts = data.iter().enumerate();
        return Ok(texts.map(|(at, text)| (&**text, format!("{place}data[{at}]"))).collect());
    };
    if !data.is_empty() && !members.iter().map(|member| &member.data).eq(data) {
        let what = "stands beside `members`, and is not the data of these: write one of them";
        return Err(InvalidField::new(format!("{place}data"), BrokenRule::SET_RULES, what));
    }
    let texts = members.iter().enumerate();
    Ok(texts.map(|(at, member)| (&*member.data, format!("{place}members[{at}].data"))).collect())
}

/// Checks what [`read_policy`] cannot know: whether the set can have these rules.
fn check_rules(
    policy: &Policy,
    rtype: Rtype,
    members: usize,
    place: &str,
) -> Result<(), InvalidField> {
    let Some(rules) = policy.rules() else { return Ok(()) };
    rules
        .check(rtype, members)
        .map_err(|(field, rule, what)| InvalidField::new(format!("{place}{field}"), rule, what))
}

/// Parses the name of a view.
///
/// # Errors
/// No view can have this name.
pub fn read_view(text: &str, field: &str) -> Result<View, InvalidField> {
    View::from_word(text).ok_or_else(|| {
        let what = format!(
            "is not the name of a view: 1 to {VIEW_NAME_LEN_MAX} letters, digits, `-`, `_` and `.`"
        );
        InvalidField::new(field, BrokenRule::SET_RULES, what)
    })
}

/// Parses the content of a set; `place` is prepended to the names of fields.
///
/// # Errors
/// The first field that is invalid.
pub fn read_value(body: &ValueBody, rtype: Rtype, place: &str) -> Result<SetValue, InvalidField> {
    read_view(&body.view, &format!("{place}view"))?;
    let policy = read_policy(body, place)?;
    let data = read_texts(texts(&body.data, body.members.as_deref(), place)?, rtype)?;
    check_rules(&policy, rtype, data.len(), place)?;
    Ok(SetValue { ttl: body.ttl, policy, data })
}

fn read_texts(texts: Vec<(&str, String)>, rtype: Rtype) -> Result<Vec<Box<[u8]>>, InvalidField> {
    let read = |(text, field)| {
        zonefile::read_data(rtype, text)
            .map(Box::from)
            .map_err(|fault| InvalidField::new(field, fault.rule, fault.to_string()))
    };
    texts.into_iter().map(read).collect()
}

/// Parses the data of records; `place` is prepended to the names of fields.
///
/// # Errors
/// The first one that is invalid.
pub fn read_data(
    data: &[String],
    rtype: Rtype,
    place: &str,
) -> Result<Vec<Box<[u8]>>, InvalidField> {
    read_texts(texts(data, None, place)?, rtype)
}

/// The content of a set in presentation form.
pub fn write_value(rtype: Rtype, value: &SetValue) -> ValueBody {
    let data: Vec<_> = value.data.iter().map(|data| zonefile::data_text(rtype, data)).collect();
    let rules = value.policy.rules();
    ValueBody {
        ttl: value.ttl,
        members: write_members(&value.policy, &data),
        data,
        view: default_view(),
        policy: rules.map(|rules| rules.choice).unwrap_or_default().word().to_owned(),
        then: rules.filter(|rules| rules.then != Order::Random).and_then(|rules| {
            let word = ORDERS.into_iter().find(|(order, _)| *order == rules.then);
            word.map(|(_, word)| word.to_owned())
        }),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: serde_json::Value, rtype: &str) -> InvalidField {
        let body: ValueBody = serde_json::from_value(body).expect("JSON of this form");
        let rtype = rtype.parse().expect("a type");
        read_value(&body, rtype, "").expect_err("wrong")
    }

    #[test]
    fn view_that_cannot_be_is_refused() {
        let told =
            refused(serde_json::json!({ "ttl": 1, "data": ["192.0.2.1"], "view": "a b" }), "A");
        assert_eq!((&*told.field, told.rule), ("view", BrokenRule::SET_RULES));
        assert!(told.what.contains("63 letters"), "{told}");
    }

    #[test]
    fn wrong_policies_and_members_are_refused_with_their_field() {
        for (field, value) in [("policy", "fastest"), ("then", "sorted")] {
            let told =
                refused(serde_json::json!({ "ttl": 1, "data": ["192.0.2.1"], field: value }), "A");
            assert_eq!((&*told.field, told.rule), (field, BrokenRule::SET_RULES));
        }
        for (field, value) in [
            ("weight", serde_json::json!(65_536)),
            ("location", "eu//a".into()),
            ("location", "".into()),
        ] {
            let member = serde_json::json!({ "data": "192.0.2.1", field: value });
            let told = refused(serde_json::json!({ "ttl": 1, "members": [member] }), "A");
            assert_eq!(told.field, format!("members[0].{field}"));
            assert_eq!(told.rule, BrokenRule::SET_RULES);
        }
        let told =
            refused(serde_json::json!({ "ttl": 1, "data": ["5 a."], "policy": "one" }), "MX");
        assert_eq!(told.field, "policy");
        assert!(told.what.contains("A, AAAA, SRV, HTTPS and PTR"), "{told}");
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
            (r#"{"policy":"one"}"#, None),
            (r#"{"policy":"weighted","max":2}"#, None),
            (r#"{"policy":"hash","comment":"sticky"}"#, None),
            (r#"{"policy":"nearest","then":"hash","max":1}"#, None),
            (r#"{"policy":"all","then":"random"}"#, Some(r#"{"policy":"all"}"#)),
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
        let json = r#"{"ttl":5,"policy":"failover","members":[{"data":"192.0.2.2","weight":7},
            {"data":"192.0.2.1","tier":1,"location":"eu/fra1"}]}"#;
        let body: ValueBody = serde_json::from_str(json).expect("a body");
        let value = read_value(&body, Rtype::A, "").expect("valid");
        let told = write_value(Rtype::A, &value);
        assert_eq!(told.data, ["192.0.2.2", "192.0.2.1"]);
        assert_eq!(read_value(&told, Rtype::A, "").expect("valid"), value);
        let other = ValueBody { data: vec!["192.0.2.9".into()], ..body };
        let problem = read_value(&other, Rtype::A, "").expect_err("two sets");
        assert_eq!(problem.field, "data");
    }

    #[test]
    fn wrong_data_has_its_field_and_its_rule() {
        let told =
            refused(serde_json::json!({ "ttl": 1, "data": ["192.0.2.1", "192.0.2.256"] }), "A");
        assert_eq!((&*told.field, told.rule.id), ("data[1]", "data"));
    }
}
