//! The record sets under construction.
use crate::key::Key;
use crate::{Imported, KeyReport};
use serde::Serialize;
use std::collections::BTreeMap;
use wire::{NameBuf, Rtype};

/// A record set, as a line of NDJSON that `dunlin records import` reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecordSet {
    /// The owner, absolute.
    pub name: String,
    /// The type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The TTL: the smallest one of its keys.
    pub ttl: u32,
    /// The data, in presentation form.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<String>,
    /// The members, instead of `data`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Member>,
    /// `one`, `weighted` or `hash`, with members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<&'static str>,
    /// The most records of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u16>,
}

/// A member of a set with a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Member {
    /// The data.
    pub data: String,
    /// The weight, of the policy `weighted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u16>,
}

/// The records of one set.
#[derive(Debug, Default)]
struct Records {
    /// The data with its key's weight, in the order of the keys.
    data: Vec<(String, u16)>,
    ttl: u32,
    max: u16,
    /// KDNS: how the members are chosen, by the first key that says so.
    mode: Option<u8>,
    /// A key whose TTL is another one, and one whose mode is.
    differs: Option<String>,
    differs_in_mode: Option<String>,
}

/// The policy of a mode of KDNS, and whether it uses weights; `None`: there is no such mode.
fn policy_of(mode: u8) -> Option<(Option<&'static str>, bool)> {
    match mode {
        0 => Some((None, false)),
        1 => Some((Some("one"), false)),
        2 => Some((Some("weighted"), true)),
        3 => Some((Some("hash"), false)),
        _ => None,
    }
}

/// A set: the labels of its owner from the root, and its type.
type SetId = (Vec<Vec<u8>>, u16);

/// The record sets of a zone.
#[derive(Debug, Default)]
pub struct Sets(BTreeMap<SetId, (NameBuf, Records)>);

impl Sets {
    /// Adds a record, unless it is there already.
    ///
    /// # Errors
    /// It is no record of this type.
    pub fn add(
        &mut self,
        name: &NameBuf,
        rtype: Rtype,
        data: &str,
        key: &Key,
    ) -> Result<(), String> {
        let wire = zonefile::read_data(rtype, data).map_err(|fault| fault.to_string())?;
        let text = zonefile::data_text(rtype, &wire);
        let labels: Vec<Vec<u8>> = name.as_name().labels().map(<[u8]>::to_vec).rev_collect();
        let (_, records) = self
            .0
            .entry((labels, rtype.0))
            .or_insert_with(|| (name.clone(), Records { ttl: key.ttl, ..Records::default() }));
        if records.ttl != key.ttl {
            records.differs.get_or_insert_with(|| key.text.clone());
        }
        records.ttl = records.ttl.min(key.ttl);
        records.max = records.max.max(key.service.max_answer);
        match (records.mode, key.service.lb_mode) {
            (None, Some(mode)) if policy_of(mode).is_some() => records.mode = Some(mode),
            (mode, Some(own)) if mode != Some(own) => {
                records.differs_in_mode.get_or_insert_with(|| key.text.clone());
            }
            _ => {}
        }
        if !records.data.iter().any(|(there, _)| *there == text) {
            records.data.push((text, key.service.lb_weight));
        }
        Ok(())
    }

    /// Whether a name has another type than this one.
    pub fn has_other(&self, name: &NameBuf, rtype: Rtype) -> bool {
        let labels: Vec<Vec<u8>> = name.as_name().labels().map(<[u8]>::to_vec).rev_collect();
        let of_name = self.0.range((labels.clone(), 0)..=(labels, u16::MAX));
        of_name.into_iter().any(|((_, other), _)| *other != rtype.0)
    }

    /// Passes the sets on.
    pub fn finish(self, imported: &mut Imported) {
        for ((_, rtype), (name, records)) in self.0 {
            let Records { data, ttl, max, mode, differs, differs_in_mode } = records;
            let (owner, rtype) = (name.to_string(), Rtype(rtype).to_string());
            if let Some(key) = differs {
                let what = format!("the TTLs of {owner} {rtype} differ: it gets {ttl}");
                imported.notes.push(KeyReport { key, what, is_lost: false });
            }
            let is_weighted = data.iter().any(|(_, weight)| *weight > 0);
            let by_weights = || (is_weighted.then_some("weighted"), is_weighted);
            let (policy, has_weights) = mode.and_then(policy_of).unwrap_or_else(by_weights);
            if let Some(key) = differs_in_mode {
                let gets = policy.unwrap_or("all");
                let what = format!(
                    "its lbMode is none, or that of another key of {owner} {rtype} differs: the \
                     set has the policy {gets}"
                );
                imported.notes.push(KeyReport { key, what, is_lost: false });
            }
            let max = (max > 0).then_some(max);
            let mut set =
                RecordSet { name: owner, rtype, ttl, max, policy, ..RecordSet::default() };
            if policy.is_some() {
                let member =
                    |(data, weight)| Member { data, weight: has_weights.then_some(weight) };
                set.members = data.into_iter().map(member).collect();
            } else {
                set.data = data.into_iter().map(|(data, _)| data).collect();
            }
            imported.sets.push(set);
        }
    }
}

/// Collects labels from the root.
trait Reversed {
    fn rev_collect(self) -> Vec<Vec<u8>>;
}

impl<I: Iterator<Item = Vec<u8>>> Reversed for I {
    fn rev_collect(self) -> Vec<Vec<u8>> {
        let mut labels: Vec<_> = self.collect();
        labels.reverse();
        labels
    }
}
