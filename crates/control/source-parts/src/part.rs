//! The part of one object of one cluster: which record sets it adds to, and as JSON in a map.
use crate::limits::{FAULTS_MAX, RECORDS_MAX, SETS_MAX};
use image::Location;
use model::{CHECK_NAME_MAX, Choice, SetValue, TIER_MAX, TTL_MAX, WEIGHT_DEFAULT, is_check_name};
use serde::{Deserialize, Serialize};
use std::fmt;
use wire::{Name, NameBuf, Rtype};

/// The format of the values.
const FORMAT: u64 = 1;
/// Keys of parts begin so, behind those of other objects.
const BEGIN: &str = "parts/";

/// The types that a part may have. Others say how a zone is cut or signed.
const TYPES: [Rtype; 13] = [
    Rtype::A,
    Rtype::AAAA,
    Rtype::CNAME,
    Rtype::TXT,
    Rtype::MX,
    Rtype::SRV,
    Rtype::PTR,
    Rtype::CAA,
    Rtype::NAPTR,
    Rtype::TLSA,
    Rtype::SSHFP,
    Rtype::SVCB,
    Rtype::HTTPS,
];

/// The kind of the part by which the writer of a cluster says that it is there. It has no sets;
/// `created` is the time.
const HEARTBEAT: &str = "heartbeat";

/// Whether a part may have sets of a type.
pub fn is_part_type(rtype: Rtype) -> bool {
    TYPES.contains(&rtype)
}

/// Which object of which cluster a part is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartKey {
    /// The name of the cluster; empty: it has none.
    pub cluster: Box<str>,
    /// The kind of the object in the plural, such as `services`.
    pub kind: Box<str>,
    /// The namespace of the object.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
}

/// `services shop/web of fra1-a`.
impl fmt::Display for PartKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, kind, namespace, name } = self;
        write!(f, "{kind} {namespace}/{name}")?;
        if cluster.is_empty() { Ok(()) } else { write!(f, " of {cluster}") }
    }
}

/// The key of a part among the objects of its cluster.
pub fn object_key(kind: &str, namespace: &str, name: &str) -> String {
    format!("{BEGIN}{kind}/{namespace}/{name}")
}

/// The kind, namespace and name in a key among the objects of a cluster; `None`: it is no key of a
/// part.
pub fn read_object_key(key: &str) -> Option<(&str, &str, &str)> {
    let mut each = key.strip_prefix(BEGIN)?.split('/');
    let (kind, namespace, name) = (each.next()?, each.next()?, each.next()?);
    let is_whole = ![kind, namespace, name].iter().any(|text| text.is_empty());
    (is_whole && each.next().is_none()).then_some((kind, namespace, name))
}

impl PartKey {
    /// Reads a key among those of all clusters, such as `fra1-a/objects/parts/services/shop/web`.
    pub fn read(key: &str) -> Option<Self> {
        let (cluster, key) = key.split_once("/objects/")?;
        let (kind, namespace, name) = read_object_key(key)?;
        let (cluster, kind) = (cluster.into(), kind.into());
        Some(Self { cluster, kind, namespace: namespace.into(), name: name.into() })
    }

    /// The key by which the writer of a cluster says that it is there.
    pub fn heartbeat(cluster: &str) -> Self {
        let none = || "-".into();
        Self { cluster: cluster.into(), kind: HEARTBEAT.into(), namespace: none(), name: none() }
    }

    /// Whether it is such a key.
    pub fn is_heartbeat(&self) -> bool {
        *self.kind == *HEARTBEAT
    }

    /// The key among the objects of its cluster.
    pub fn object_key(&self) -> String {
        object_key(&self.kind, &self.namespace, &self.name)
    }

    /// The key among those of all clusters.
    pub fn write(&self) -> String {
        format!("{}/objects/{}", self.cluster, self.object_key())
    }
}

/// A record set of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartSet {
    /// Its name, absolute and in lower case.
    pub name: NameBuf,
    /// Its type.
    pub rtype: Rtype,
    /// Its TTL in seconds.
    pub ttl: u32,
    /// The data of each record, in wire form.
    pub data: Vec<Box<[u8]>>,
}

/// What one object of a cluster adds to record sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// When the object was created, in seconds since 1970: the oldest wins a conflict.
    pub created: u64,
    /// The generation of the object, if its status is to say whether it is live; 0: not.
    pub generation: u64,
    /// Where its members are; empty: not known.
    pub location: Box<str>,
    /// The policy of its sets; `None`: whatever others say.
    pub policy: Option<Choice>,
    /// The check of its addresses; empty: whatever others say.
    pub check: Box<str>,
    /// The weight of its members.
    pub weight: u16,
    /// The tier of its members.
    pub tier: u8,
    /// Its sets.
    pub sets: Vec<PartSet>,
    /// What of the object cannot be a record, and why.
    pub faults: Vec<String>,
}

impl Default for Part {
    fn default() -> Self {
        Self {
            created: 0,
            generation: 0,
            location: Box::default(),
            policy: None,
            check: Box::default(),
            weight: WEIGHT_DEFAULT,
            tier: 0,
            sets: Vec::new(),
            faults: Vec::new(),
        }
    }
}

#[derive(Deserialize, Serialize)]
struct Value {
    format: u64,
    created: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    location: Box<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    check: Box<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    weight: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tier: Option<u8>,
    sets: Vec<SetText>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    faults: Vec<String>,
}

#[derive(Deserialize, Serialize)]
struct SetText {
    name: String,
    #[serde(rename = "type")]
    rtype: String,
    ttl: u32,
    data: Vec<String>,
}

impl Part {
    /// The part as JSON.
    ///
    /// # Panics
    /// Never: a part is JSON.
    pub fn write(&self) -> Vec<u8> {
        let set = |set: &PartSet| SetText {
            name: set.name.to_string(),
            rtype: set.rtype.to_string(),
            ttl: set.ttl,
            data: model::write_value(set.rtype, &SetValue::new(set.ttl, set.data.clone())).data,
        };
        let value = Value {
            format: FORMAT,
            created: self.created,
            generation: Some(self.generation).filter(|generation| *generation != 0),
            location: self.location.clone(),
            policy: self.policy.map(|policy| policy.word().into()),
            check: self.check.clone(),
            weight: Some(self.weight).filter(|weight| *weight != WEIGHT_DEFAULT),
            tier: Some(self.tier).filter(|tier| *tier != 0),
            sets: self.sets.iter().map(set).collect(),
            faults: self.faults.clone(),
        };
        serde_json::to_vec(&value).expect("a part is JSON")
    }

    /// Reads a part. Everything in it is verified: another server wrote it.
    ///
    /// # Errors
    /// Its fault.
    pub fn read(json: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Format {
            format: u64,
        }
        let wrong = |why: serde_json::Error| format!("its value is wrong: {why}");
        match serde_json::from_slice::<Format>(json).map_err(wrong)?.format {
            FORMAT => Self::from_value(serde_json::from_slice(json).map_err(wrong)?),
            format => Err(format!("a newer version wrote it, in format {format}")),
        }
    }

    fn from_value(value: Value) -> Result<Self, String> {
        let Value { created, location, policy, check, weight, tier, sets, mut faults, .. } = value;
        let generation = value.generation.unwrap_or_default();
        let policy = policy.map(|word| {
            Choice::from_word(&word).ok_or_else(|| format!("there is no policy {word:?}"))
        });
        if !location.is_empty() {
            Location::parse(&location).map_err(|why| format!("{location:?}: {why}"))?;
        }
        if !check.is_empty() && !is_check_name(&check) {
            return Err(format!("the name of a check has up to {CHECK_NAME_MAX} plain letters"));
        }
        let tier = tier.unwrap_or_default();
        if tier > TIER_MAX {
            return Err(format!("the highest tier is {TIER_MAX}"));
        }
        let records: usize = sets.iter().map(|set| set.data.len()).sum();
        if sets.len() > SETS_MAX || records > RECORDS_MAX {
            return Err(format!("it has more than {SETS_MAX} sets or {RECORDS_MAX} records"));
        }
        faults.truncate(FAULTS_MAX);
        Ok(Self {
            created,
            generation,
            location,
            policy: policy.transpose()?,
            check,
            weight: weight.unwrap_or(WEIGHT_DEFAULT),
            tier,
            sets: sets.into_iter().map(read_set).collect::<Result<_, _>>()?,
            faults,
        })
    }
}

fn read_set(text: SetText) -> Result<PartSet, String> {
    let SetText { name: shown, rtype, ttl, data } = text;
    let mut name = NameBuf::from_text(shown.as_bytes(), Name::ROOT)
        .map_err(|why| format!("{shown:?} is not a name: {why}"))?;
    name.make_lowercase();
    let known = rtype.parse::<Rtype>().ok().filter(|rtype| is_part_type(*rtype));
    let rtype = known.ok_or_else(|| format!("{shown}: records of type {rtype} are not taken"))?;
    let data =
        model::read_data(&data, rtype, "").map_err(|why| format!("{shown} {rtype} {why}"))?;
    if data.is_empty() || ttl > TTL_MAX {
        return Err(format!("{shown} {rtype} has no records, or a TTL above {TTL_MAX} s"));
    }
    Ok(PartSet { name, rtype, ttl, data })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_round_trips_and_keys_do() {
        let name = NameBuf::from_text(b"web.shop.svc.example.", Name::ROOT).expect("a name");
        let data = vec![[10, 0, 0, 1][..].into()];
        let set = PartSet { name, rtype: Rtype::A, ttl: 5, data };
        let part = Part {
            created: 7,
            generation: 2,
            location: "eu/fra1".into(),
            sets: vec![set],
            ..Part::default()
        };
        let json = part.write();
        let text = concat!(
            r#"{"format":1,"created":7,"generation":2,"location":"eu/fra1","sets":["#,
            r#"{"name":"web.shop.svc.example.","type":"A","ttl":5,"data":["10.0.0.1"]}]}"#
        );
        assert_eq!(String::from_utf8_lossy(&json), text);
        assert_eq!(Part::read(&json), Ok(part));
        let key = PartKey::read("a/objects/parts/services/shop/web").expect("a key");
        assert_eq!(key.write(), "a/objects/parts/services/shop/web");
        assert_eq!(key.to_string(), "services shop/web of a");
        for other in ["a/leader", "a/objects/services/shop/web", "a/objects/parts/services/shop"] {
            assert_eq!(PartKey::read(other), None, "{other}");
        }
    }

    #[test]
    fn what_no_part_may_have_is_refused() {
        let with = |key: &str| format!("{{\"format\":1,\"created\":1,{key}}}");
        let set = |set: &str| with(&format!("\"sets\":[{set}]"));
        for (json, why) in [
            ("{".into(), "its value is wrong"),
            ("{\"format\":2}".into(), "a newer version wrote it"),
            (with("\"sets\":[],\"policy\":\"best\""), "no policy"),
            (with("\"sets\":[],\"location\":\"a//b\""), "a//b"),
            (with("\"sets\":[],\"check\":\"a b\""), "check"),
            (with("\"sets\":[],\"tier\":100"), "tier"),
            (set(r#"{"name":"a..b","type":"A","ttl":1,"data":["10.0.0.1"]}"#), "not a name"),
            (set(r#"{"name":"a.","type":"NS","ttl":1,"data":["b."]}"#), "type NS"),
            (set(r#"{"name":"a.","type":"A","ttl":1,"data":["x"]}"#), "a. A"),
            (set(r#"{"name":"a.","type":"A","ttl":1,"data":[]}"#), "no records"),
        ] {
            let found = Part::read(json.as_bytes()).expect_err("it is wrong");
            assert!(found.contains(why), "{json}: {found}");
        }
    }
}
