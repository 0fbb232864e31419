//! Why a client gets an answer.
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// An answer, and why the client gets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The name.
    pub name: String,
    /// The type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The client.
    pub client: IpAddr,
    /// The network it is in; `None`: in none.
    pub network: Option<String>,
    /// The view of that network; `None`: the default view.
    pub view: Option<String>,
    /// Where it is; `None`: not known.
    pub location: Option<String>,
    /// Whether the network denies the name.
    pub denied: bool,
    /// The zone that has the name; `None`: none has, so it is forwarded or refused.
    pub zone: Option<String>,
    /// The response code.
    pub rcode: String,
    /// The records of the answer, in their order.
    pub answer: Vec<AnsweredRecord>,
    /// The sets of the answer, and that of the name, without those of a view.
    pub sets: Vec<ExplainedSet>,
}

/// A record of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnsweredRecord {
    /// Its owner.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// Its TTL in seconds.
    pub ttl: u32,
    /// Its data, in presentation form.
    pub data: String,
}

/// A set that answers are chosen from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedSet {
    /// Its owner: the name, or a wildcard.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// Its policy.
    pub policy: String,
    /// The order of its records.
    pub order: String,
    /// The most records of an answer; `None`: no bound.
    pub max: Option<u16>,
    /// Its members.
    pub members: Vec<ExplainedMember>,
}

/// A member of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedMember {
    /// The data of its record, in presentation form.
    pub data: String,
    /// Its health; `None`: the set has no check.
    pub state: Option<String>,
    /// Its tier.
    pub tier: u8,
    /// Its weight now.
    pub weight: u16,
    /// How its weight changes over time; `None`: it does not.
    #[serde(default)]
    pub ramp: Option<ExplainedRamp>,
    /// Where it is; `None`: not known.
    pub location: Option<String>,
    /// Why this answer does not have it: `state`, `tier`, `location`, `weight` or `max`; `None`: it
    /// does.
    pub dropped: Option<String>,
}

/// A weight that changes over time. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedRamp {
    /// The weight at the start.
    pub from: u16,
    /// The weight at the end.
    pub to: u16,
    /// When it starts.
    pub start_seconds: u64,
    /// When it ends.
    pub end_seconds: u64,
}
