//! The content of a record set in JSON: its policy, check and members.
use crate::problem::Problem;
use model::{BrokenRule, Choice, MinUp, Policy, SetRules, View};
use serde::{Deserialize, Serialize};
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
    /// Not yet: refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Not yet: refused.
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

fn read_min_up(body: &MinUpBody, field: &str) -> Result<MinUp, Problem> {
    let share = match body {
        MinUpBody::Number(number @ 1..) => return Ok(MinUp::Members(*number)),
        MinUpBody::Number(0) => None,
        MinUpBody::Share(text) => text.strip_suffix('%').and_then(|text| text.parse().ok()),
    };
    match share {
        Some(percent @ 1..=100) => Ok(MinUp::Percent(percent)),
        _ => {
            let what = "is a number of members from 1, or a share such as \"50%\"";
            Err(Problem::invalid(field, BrokenRule::SET_RULES, what))
        }
    }
}

/// The refusal of a value that is not known yet.
pub fn not_yet(field: &str, what: &str, known: &str) -> Problem {
    let what = format!("not yet: the only {what} so far are {known}");
    Problem::invalid(field, BrokenRule::NOT_YET, what)
}

/// Parses the rules; `place` is prepended to the names of fields.
pub fn read_policy(body: &ValueBody, place: &str) -> Result<Policy, Problem> {
    let field = |name: &str| format!("{place}{name}");
    let choice = Choice::from_word(&body.policy).ok_or_else(|| {
        if Choice::NOT_YET.contains(&&*body.policy) {
            return not_yet(&field("policy"), "policies", "\"all\" and \"failover\"");
        }
        let what = "is not a policy: \"all\" or \"failover\"";
        Problem::invalid(field("policy"), BrokenRule::SET_RULES, what)
    })?;
    let mut tiers = Vec::new();
    for (number, member) in body.members.iter().flatten().enumerate() {
        let at = |name: &str| format!("{place}members[{number}].{name}");
        if member.weight.is_some() {
            return Err(not_yet(&at("weight"), "properties of a member", "`data` and `tier`"));
        }
        if member.location.is_some() {
            return Err(not_yet(&at("location"), "properties of a member", "`data` and `tier`"));
        }
        tiers.push(member.tier);
    }
    if tiers.iter().all(|tier| *tier == 0) {
        tiers.clear();
    }
    let min_up =
        body.min_up.as_ref().map(|min_up| read_min_up(min_up, &field("min_up"))).transpose()?;
    Ok(Policy::new(SetRules {
        choice,
        max: body.max.unwrap_or_default(),
        check: body.check.as_deref().unwrap_or_default().into(),
        min_up: min_up.unwrap_or_default(),
        is_closed: body.fail == Some(FailWord::Closed),
        tiers: tiers.into(),
        comment: body.comment.as_deref().unwrap_or_default().into(),
    }))
}

/// The members with their tiers, if any has another one than 0.
pub fn write_members(policy: &Policy, data: &[String]) -> Option<Vec<MemberBody>> {
    let rules = policy.rules().filter(|rules| !rules.tiers.is_empty())?;
    let member = |(at, data): (usize, &String)| MemberBody {
        data: data.clone(),
        tier: rules.tier(at),
        weight: None,
        location: None,
    };
    Some(data.iter().enumerate().map(member).collect())
}

/// The data of the members, in presentation form, and the name of its field.
pub fn texts<'b>(
    data: &'b [String],
    members: Option<&'b [MemberBody]>,
    place: &str,
) -> Result<Vec<(&'b str, String)>, Problem> {
    let Some(members) = members else {
        let texts = data.iter().enumerate();
        return Ok(texts.map(|(at, text)| (&**text, format!("{place}data[{at}]"))).collect());
    };
    if !data.is_empty() && !members.iter().map(|member| &member.data).eq(data) {
        let what = "stands beside `members`, and is not the data of these: write one of them";
        return Err(Problem::invalid(format!("{place}data"), BrokenRule::SET_RULES, what));
    }
    let texts = members.iter().enumerate();
    Ok(texts.map(|(at, member)| (&*member.data, format!("{place}members[{at}].data"))).collect())
}

/// Checks what [`read_policy`] cannot know: whether the set can have these rules.
pub fn check_rules(
    policy: &Policy,
    rtype: Rtype,
    members: usize,
    place: &str,
) -> Result<(), Problem> {
    let Some(rules) = policy.rules() else { return Ok(()) };
    rules
        .check(rtype, members)
        .map_err(|(field, rule, what)| Problem::invalid(format!("{place}{field}"), rule, what))
}
