//! Why a client gets an answer.
use crate::command::ThreadCacheEntry;
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
    /// The client subnet option of the query; `None`: it has none.
    #[serde(default)]
    pub subnet: Option<ExplainedSubnet>,
    /// The network it is in; `None`: in none.
    pub network: Option<String>,
    /// The view of that network; `None`: the default view.
    pub view: Option<String>,
    /// Where it is; `None`: not known.
    pub location: Option<String>,
    /// Whether the network denies the name.
    pub denied: bool,
    /// The rule of the network that decides so, such as `deny *.ads.example.`; `None`: no rule is
    /// about the name.
    #[serde(default)]
    pub rule: Option<String>,
    /// The zone that has the name; `None`: none has, so it is forwarded or refused.
    pub zone: Option<String>,
    /// The servers that know the answer; `None`: this one does.
    #[serde(default)]
    pub forward: Option<ExplainedForward>,
    /// The response code; `None`: an upstream decides it.
    pub rcode: Option<String>,
    /// The records of the answer, in their order.
    pub answer: Vec<AnsweredRecord>,
    /// The sets of the answer, and that of the name.
    pub sets: Vec<ExplainedSet>,
}

/// A client subnet option (RFC 7871).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedSubnet {
    /// The prefix that the query names.
    pub subnet: String,
    /// Whether `[ecs] trust` has the client; otherwise the option is ignored.
    pub is_trusted: bool,
    /// The length of the prefix for which the answer holds; `None`: the reply has no option.
    pub scope: Option<u8>,
}

/// The servers that a query is forwarded to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedForward {
    /// The name that they are asked for: that of the query, or the end of its aliases.
    pub name: String,
    /// The suffix of the rule.
    pub suffix: String,
    /// The servers of the rule.
    pub servers: Vec<String>,
    /// What is cached of the name and type, by thread.
    pub cached: Vec<ThreadCacheEntry>,
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
    /// The view that has it; `None`: it is for all clients.
    #[serde(default)]
    pub view: Option<String>,
    /// The name whose addresses it has, if it stands for an ALIAS record.
    #[serde(default)]
    pub alias: Option<String>,
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
