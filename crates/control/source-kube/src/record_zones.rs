//! Zones in which objects have records: which namespaces may write each, and the part of an object.
use crate::objects::{GivenRecords, Listener, PartObject, Targets};
use crate::shared_zone::{address_sets, alias, annotations};
use model::TTL_MAX;
use source_parts::limits::{RECORDS_MAX, SETS_MAX};
use source_parts::{Part, PartSet, is_part_type};
use std::net::IpAddr;
use wire::{Name, NameBuf, Rtype};

/// Faults of one part: more are counted.
const FAULTS_SHOWN: usize = source_parts::limits::FAULTS_MAX - 1;

/// A zone in which objects have records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordZone {
    /// The origin, in lower case.
    pub origin: NameBuf,
    /// The namespaces whose objects may have records in it; empty: all.
    pub namespaces: Vec<Box<str>>,
}

/// The zones in which objects have records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordZones {
    /// The zones.
    pub zones: Vec<RecordZone>,
    /// Seconds that records may be cached.
    pub ttl: u32,
    /// Where the cluster is; empty: not known.
    pub location: Box<str>,
}

/// A part while it is made.
struct Making<'z> {
    zones: &'z RecordZones,
    namespace: &'z str,
    ttl: u32,
    part: Part,
    records: usize,
    more_faults: usize,
    /// Names in none of the zones.
    outside: usize,
}

impl RecordZones {
    fn start<'z>(&'z self, namespace: &'z str, object: &PartObject) -> Making<'z> {
        let (created, location) = (object.rules.created, self.location.clone());
        let mut part = Part { created, location, ..Part::default() };
        let ttl = annotations(&object.rules, self.ttl, &mut part);
        Making { zones: self, namespace, ttl, part, records: 0, more_faults: 0, outside: 0 }
    }

    /// The part of an object with hostnames; `None`: it has none.
    pub(crate) fn hosts<'h>(
        &self,
        namespace: &str,
        object: &PartObject,
        hosts: impl Iterator<Item = (&'h str, &'h Targets)>,
    ) -> Option<Part> {
        let mut making = self.start(namespace, object);
        // Without a name there is nothing to say of annotations, either.
        let faults = std::mem::take(&mut making.part.faults);
        let mut is_inside = false;
        for (host, targets) in hosts {
            is_inside |= making.host(host, targets);
        }
        if is_inside {
            making.part.faults.splice(0..0, faults);
        }
        let part = making.finish();
        (!part.sets.is_empty() || !part.faults.is_empty()).then_some(part)
    }

    /// The part of an object that lists its records; `None`: none of them is in a zone.
    pub(crate) fn records(
        &self,
        namespace: &str,
        object: &PartObject,
        given: &GivenRecords,
    ) -> Option<Part> {
        let mut making = self.start(namespace, object);
        for set in &given.sets {
            match making.name(&set.name) {
                Ok(None) => making.outside += 1,
                Ok(Some(name)) => {
                    if let Err(why) = making.given(name, &set.rtype, set.ttl, &set.targets) {
                        making.fault(format!("{} {}: {why}", set.name, set.rtype));
                    }
                }
                Err(why) => making.fault(why),
            }
        }
        if making.outside > 0 && making.outside == given.sets.len() {
            return None;
        }
        if making.outside > 0 {
            let (outside, all) = (making.outside, given.sets.len());
            making.fault(format!("{outside} of {all} records are in none of the zones"));
        }
        if given.left_out > 0 {
            making.fault(format!("it has more than {SETS_MAX} records: the others are left out"));
        }
        making.part.generation = given.generation;
        Some(making.finish())
    }
}

impl Making<'_> {
    fn fault(&mut self, why: String) {
        match self.part.faults.len() < FAULTS_SHOWN {
            true => self.part.faults.push(why),
            false => self.more_faults += 1,
        }
    }

    fn finish(mut self) -> Part {
        if self.more_faults > 0 {
            self.part.faults.push(format!("{} more faults", self.more_faults));
        }
        self.part
    }

    /// A name in one of the zones, if the namespace may write that one; `None`: it is in none.
    fn name(&self, text: &str) -> Result<Option<NameBuf>, String> {
        let bare = text.strip_suffix('.').unwrap_or(text);
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let mut labels = bare.strip_prefix("*.").unwrap_or(bare).split('.');
        if !labels.all(|label| !label.is_empty() && label.bytes().all(is_plain)) {
            return Err(format!("{text:?} is not a name of letters, digits, hyphens and _"));
        }
        let name = NameBuf::from_text(bare.as_bytes(), Name::ROOT);
        let mut name = name.map_err(|why| format!("{text:?} is not a name: {why}"))?;
        name.make_lowercase();
        let zones = self.zones.zones.iter();
        let within = zones.filter(|zone| name.as_name().is_within(zone.origin.as_name()));
        let Some(zone) = within.max_by_key(|zone| zone.origin.as_name().len()) else {
            return Ok(None);
        };
        let mut allowed = zone.namespaces.iter();
        let is_allowed = allowed.any(|namespace| **namespace == *self.namespace);
        match zone.namespaces.is_empty() || is_allowed {
            true => Ok(Some(name)),
            false => Err(format!(
                "{text}: the namespace {} may not write the zone {} (`record_zones`)",
                self.namespace, zone.origin
            )),
        }
    }

    fn is_apex(&self, name: &NameBuf) -> bool {
        self.zones.zones.iter().any(|zone| zone.origin == *name)
    }

    fn push(&mut self, set: PartSet) -> Result<(), String> {
        if set.rtype == Rtype::CNAME && self.is_apex(&set.name) {
            return Err("the top of a zone cannot be an alias".into());
        }
        let sets = self.part.sets.len();
        let mut known = self.part.sets.iter_mut();
        let known = known.find(|known| known.name == set.name && known.rtype == set.rtype);
        let records = self.records + set.data.len();
        if records > RECORDS_MAX || (known.is_none() && sets >= SETS_MAX) {
            return Err(format!("there are more than {SETS_MAX} sets or {RECORDS_MAX} records"));
        }
        self.records = records;
        match known {
            Some(known) => {
                known.data.extend(set.data);
                known.data.sort_unstable();
                known.data.dedup();
            }
            None => self.part.sets.push(set),
        }
        Ok(())
    }

    /// Adds a hostname; whether it is in one of the zones.
    fn host(&mut self, host: &str, targets: &Targets) -> bool {
        let name = match self.name(host) {
            Ok(None) => return false,
            Ok(Some(name)) => name,
            Err(why) => {
                self.fault(why);
                return true;
            }
        };
        let sets = match (&*targets.addresses, &*targets.name) {
            ([], "") => Ok(Vec::new()),
            ([], target) => alias(target)
                .map(|data| {
                    vec![PartSet { name, rtype: Rtype::CNAME, ttl: self.ttl, data: vec![data] }]
                })
                .ok_or_else(|| format!("{target:?} is not the target of an alias")),
            (addresses, _) => Ok(address_sets(&name, self.ttl, addresses)),
        };
        let added = sets.and_then(|sets| sets.into_iter().try_for_each(|set| self.push(set)));
        if let Err(why) = added {
            self.fault(format!("{host}: {why}"));
        }
        true
    }

    /// Adds records that an object lists.
    fn given(
        &mut self,
        name: NameBuf,
        rtype: &str,
        ttl: i64,
        targets: &[Box<str>],
    ) -> Result<(), String> {
        let rtype = match rtype {
            // As the definition says, and as an address says.
            "" => match targets.first().map(|target| target.parse::<IpAddr>()) {
                Some(Ok(IpAddr::V6(_))) => Rtype::AAAA,
                Some(Ok(IpAddr::V4(_))) => Rtype::A,
                _ => Rtype::CNAME,
            },
            text => text.parse().map_err(|_| "there is no such type".to_owned())?,
        };
        if !is_part_type(rtype) {
            return Err("records of this type are not taken".into());
        }
        let ttl = match ttl {
            0 => self.ttl,
            seconds => u32::try_from(seconds)
                .ok()
                .filter(|seconds| *seconds <= TTL_MAX)
                .ok_or_else(|| format!("its TTL is above {TTL_MAX} s, or negative"))?,
        };
        let texts: Vec<String> = targets.iter().map(ToString::to_string).collect();
        let mut data = model::read_data(&texts, rtype, "").map_err(|why| why.to_string())?;
        data.sort_unstable();
        data.dedup();
        match data.len() {
            0 => Err("it has no targets".into()),
            2.. if rtype == Rtype::CNAME => Err("an alias has one target".into()),
            _ => self.push(PartSet { name, rtype, ttl, data }),
        }
    }
}

/// Whether a listener of a Gateway takes a hostname of a route.
pub(crate) fn takes(listener: &Listener, host: &str) -> bool {
    let below = |wildcard: &str, name: &str| {
        let suffix = wildcard.strip_prefix('*');
        suffix.is_some_and(|suffix| {
            name.len() > suffix.len()
                && name.as_bytes()[name.len() - suffix.len()..]
                    .eq_ignore_ascii_case(suffix.as_bytes())
        })
    };
    let wanted = &*listener.hostname;
    wanted.is_empty()
        || wanted.eq_ignore_ascii_case(host)
        || below(wanted, host)
        || below(host, wanted)
}

#[cfg(test)]
mod tests;
