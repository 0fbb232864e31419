//! The policy, check and members of a record set in JSON.
use crate::problem::Problem;
use crate::text::{SetRulesBody, not_yet};
use model::{BrokenRule, Choice, MinUp, Policy, SetRules};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wire::Rtype;

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

/// Parses the rules; `place` is prepended to the names of fields. `data`: that of each member.
pub fn read_policy(body: &SetRulesBody<'_>, place: &str) -> Result<Policy, Problem> {
    let field = |name: &str| format!("{place}{name}");
    let choice = Choice::from_word(body.policy).ok_or_else(|| {
        if Choice::NOT_YET.contains(&body.policy) {
            return not_yet(&field("policy"), "policies", "\"all\" and \"failover\"");
        }
        let what = "is not a policy: \"all\" or \"failover\"";
        Problem::invalid(field("policy"), BrokenRule::SET_RULES, what)
    })?;
    let mut tiers = Vec::new();
    for (number, member) in body.members.iter().flat_map(|members| members.iter()).enumerate() {
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
    let min_up = body.min_up.map(|min_up| read_min_up(min_up, &field("min_up"))).transpose()?;
    Ok(Policy::new(SetRules {
        choice,
        max: body.max.unwrap_or_default(),
        check: body.check.unwrap_or_default().into(),
        min_up: min_up.unwrap_or_default(),
        is_closed: body.fail == Some(FailWord::Closed),
        tiers: tiers.into(),
        comment: Box::default(),
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
