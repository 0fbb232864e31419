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
    /// The members with their weights, instead of `data`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Member>,
    /// `weighted`, with members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<&'static str>,
    /// The most records of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u16>,
}

/// A member of a set with weights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Member {
    /// The data.
    pub data: String,
    /// The weight.
    pub weight: u16,
}

/// The records of one set.
#[derive(Debug, Default)]
struct Records {
    /// The data with its key's weight, in the order of the keys.
    data: Vec<(String, u16)>,
    ttl: u32,
    max: u16,
    /// A key whose TTL is another one.
    differs: Option<String>,
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
            let Records { data, ttl, max, differs } = records;
            if let Some(key) = differs {
                let what = format!("the TTLs of {name} {} differ: it gets {ttl}", Rtype(rtype));
                imported.notes.push(KeyReport { key, what, is_lost: false });
            }
            let is_weighted = data.iter().any(|(_, weight)| *weight > 0);
            let mut set = RecordSet {
                name: name.to_string(),
                rtype: Rtype(rtype).to_string(),
                ttl,
                max: (max > 0).then_some(max),
                ..RecordSet::default()
            };
            if is_weighted {
                set.policy = Some("weighted");
                set.members =
                    data.into_iter().map(|(data, weight)| Member { data, weight }).collect();
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
