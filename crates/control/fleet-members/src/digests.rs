//! Compares what the members of the fleet have.
//!
//! Each member reports a digest of all zones beside the revision that it serves, so its key stays
//! small. Every other one compares it with the digest that it had at this revision. Only if they
//! differ, both write `digests/NAME`, with the digest of each zone, and so find out which it is.
use crate::limits::{DIFFERENT_ZONES_MAX, DIGESTS_INTERVAL};
use etcd_client::{Compare, CompareOp, KeyValue};
use etcd_link::{Mirror, RequestError, put_under};
use keyspace::EtcdLink;
use keyspace::keys::read_member;
use records::{Revision, ZoneDigest, ZoneDigests, hash_of_origin};
use std::collections::{BTreeMap, HashMap};
use tokio::time::{Instant, sleep_until};
use wire::Name;

/// The report of another member.
struct Reported {
    name: String,
    revision: Revision,
    /// `None`: it reports none.
    digest: Option<u64>,
}

/// A digest in hexadecimal, as members report it.
pub fn text(digest: Option<u64>) -> String {
    digest.map(|digest| format!("{digest:016x}")).unwrap_or_default()
}

fn read_report(kv: &KeyValue) -> Option<Reported> {
    let member = read_member(kv)?;
    let digest = u64::from_str_radix(&member.digest, 16).ok();
    Some(Reported { name: member.name, revision: Revision(member.revision), digest })
}

/// A member whose content is another one at the same revision.
struct Difference {
    revision: Revision,
    /// The zones, once they are known.
    zones: Vec<String>,
}

/// Compares this server with the others while it is a member.
#[derive(Default)]
pub struct Comparison {
    reported: Option<Mirror<Reported>>,
    /// By the name of the other member.
    differences: BTreeMap<String, Difference>,
    /// The revision at which this server has written its digests.
    written: Revision,
    /// When to look again which zones differ; `None`: that is known.
    look_at: Option<Instant>,
}

impl Comparison {
    /// Watches the members, if they are not watched.
    pub async fn watch(&mut self, link: &EtcdLink) {
        if self.reported.is_none() {
            let started = Mirror::start(&link.connection, link.keys.members(), read_report);
            self.reported = started.await.ok();
        }
    }

    /// Returns when there is something to compare, or to look up.
    pub async fn change(&mut self) {
        let changed = async {
            match &mut self.reported {
                Some(reported) => reported.change().await.is_err(),
                None => std::future::pending().await,
            }
        };
        let look_at = self.look_at;
        tokio::select! {
            is_lost = changed => if is_lost {
                self.reported = None;
            },
            () = sleep_until(look_at.unwrap_or_else(Instant::now)), if look_at.is_some() => {}
        }
    }

    /// Compares everything. Returns what differs, and what to do; `None`: nothing.
    pub async fn compare(
        &mut self,
        link: &EtcdLink,
        digests: &ZoneDigests,
        lease: i64,
    ) -> Option<String> {
        let Some(reported) = &self.reported else { return self.text() };
        let others: Vec<_> =
            reported.values.values().filter(|member| member.name != link.server.0).collect();
        self.differences.retain(|name, _| others.iter().any(|other| other.name == *name));
        for Reported { name, revision, digest } in others {
            let (Some(own), Some(its)) = (digests.at(*revision), *digest) else { continue };
            if own == its {
                self.differences.remove(name);
            } else if self.differences.get(name).is_none_or(|one| one.revision < *revision) {
                let before = self.differences.remove(name);
                let zones = before.map(|before| before.zones).unwrap_or_default();
                let difference = Difference { revision: *revision, zones };
                self.differences.insert(name.clone(), difference);
                self.look_at.get_or_insert_with(Instant::now);
            }
        }
        if self.look_at.is_some_and(|at| at <= Instant::now()) {
            // The servers are known all the same, and a member stays one.
            let looked = self.look(link, digests, lease).await;
            let is_known = self.differences.values().all(|one| !one.zones.is_empty());
            self.look_at = (!is_known).then(|| Instant::now() + DIGESTS_INTERVAL);
            if let Err(why) = looked {
                tracing::debug!("digests of zones cannot be exchanged: {}", why.why());
            }
        }
        self.text()
    }

    /// Writes the digests of this server, and reads those of the others.
    async fn look(
        &mut self,
        link: &EtcdLink,
        digests: &ZoneDigests,
        lease: i64,
    ) -> Result<(), RequestError> {
        let (connection, keys, name) = (&link.connection, &link.keys, &*link.server.0);
        let (revision, own) = digests.zones();
        let newest = self.differences.values().map(|one| one.revision).max();
        if newest.is_some_and(|newest| newest > self.written) {
            let key = keys.digests(name);
            let put = put_under(lease, key, encode(revision, &own));
            let member = keys.member(name);
            let is_member = Compare::lease(member, CompareOp::Equal, lease);
            connection.write([is_member], [put]).await?;
            self.written = revision;
        }
        for (name, difference) in &mut self.differences {
            let found = connection.value(&keys.digests(name)).await?;
            let Some((of, its)) = found.as_deref().and_then(decode) else { continue };
            let zones = different(&own, &its, of == revision);
            if !zones.is_empty() {
                difference.zones = zones;
            }
        }
        Ok(())
    }

    fn text(&self) -> Option<String> {
        let of = |(name, Difference { revision, zones }): (&String, &Difference)| {
            let zones = match &zones[..] {
                [] => String::new(),
                zones => format!(" in {}", zones.join(", ")),
            };
            format!("{name} at revision {revision}{zones}")
        };
        let all: Vec<String> = self.differences.iter().map(of).collect();
        (!all.is_empty()).then(|| {
            format!(
                "this server has other content than {}: one of the copies is damaged. Stop the \
                 server that differs from all others, remove the folder `replica` in its \
                 `data_dir`, and start it again",
                all.join("; ")
            )
        })
    }
}

/// The digests of zones, by the hashes of their names.
type Table = HashMap<u64, (Revision, u64)>;

/// The revision, then the hash of the name, the revision and the digest of each zone.
fn encode(revision: Revision, zones: &HashMap<Box<[u8]>, ZoneDigest>) -> Vec<u8> {
    let mut bytes = revision.0.to_le_bytes().to_vec();
    for (at, zone) in zones {
        let Some(digest) = zone.digest else { continue };
        [hash_of_origin(at), zone.revision.0, digest]
            .iter()
            .for_each(|n| bytes.extend(n.to_le_bytes()));
    }
    bytes
}

fn decode(bytes: &[u8]) -> Option<(Revision, Table)> {
    let (numbers, []) = bytes.as_chunks::<8>() else { return None };
    let mut numbers = numbers.iter().map(|number| u64::from_le_bytes(*number));
    let revision = Revision(numbers.next()?);
    let numbers: Vec<u64> = numbers.collect();
    let (zones, []) = numbers.as_chunks::<3>() else { return None };
    let zone = |[at, revision, digest]: &[u64; 3]| (*at, (Revision(*revision), *digest));
    Some((revision, zones.iter().map(zone).collect()))
}

/// The zones that differ. Those written at different times say nothing, unless both servers have
/// the same revision.
fn different(
    own: &HashMap<Box<[u8]>, ZoneDigest>,
    its: &Table,
    is_same_revision: bool,
) -> Vec<String> {
    let mut left = its.clone();
    let mut found = Vec::new();
    for (at, zone) in own {
        let Some(digest) = zone.digest else { continue };
        let is_different = match left.remove(&hash_of_origin(at)) {
            Some((revision, other)) if revision == zone.revision => other != digest,
            _ => is_same_revision,
        };
        if let (true, Ok(origin)) = (is_different, Name::parse(at)) {
            found.push(format!("the zone {origin}"));
        }
    }
    if is_same_revision && !left.is_empty() {
        found.push("a zone that this server does not have".to_owned());
    }
    found.sort();
    let more = found.len().saturating_sub(DIFFERENT_ZONES_MAX);
    found.truncate(DIFFERENT_ZONES_MAX);
    if more > 0 {
        found.push(format!("{more} more"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zones(all: &[(&[u8], u64, u64)]) -> HashMap<Box<[u8]>, ZoneDigest> {
        let zone = |(at, revision, digest): &(&[u8], u64, u64)| {
            let (revision, digest) = (Revision(*revision), Some(*digest));
            (Box::from(*at), ZoneDigest { revision, digest })
        };
        all.iter().map(zone).collect()
    }

    #[test]
    fn zones_that_differ_are_named_and_later_ones_are_not() {
        let own = zones(&[(b"\x01a\0", 1, 1), (b"\x01b\0", 2, 2), (b"\x01c\0", 3, 3)]);
        let compare = |its: &[(&[u8], u64, u64)], at: u64| {
            let (of, its) = decode(&encode(Revision(at), &zones(its))).expect("a table");
            different(&own, &its, of == Revision(3)).join(", ")
        };
        let damaged = [(&b"\x01a\0"[..], 1, 1), (b"\x01b\0", 2, 9), (b"\x01c\0", 4, 4)];
        assert_eq!(compare(&damaged, 4), "the zone b.");
        assert_eq!(compare(&damaged, 3), "the zone b., the zone c.");
        assert_eq!(compare(&damaged[..1], 4), "");
        let other = [(&b"\x01a\0"[..], 1, 1), (b"\x01d\0", 2, 2)];
        let all = "a zone that this server does not have, the zone b., the zone c.";
        assert_eq!(compare(&other, 3), all);
    }

    #[test]
    fn bytes_that_are_no_table_are_ignored() {
        let bytes = encode(Revision(3), &zones(&[(b"\x01a\0", 1, 1)]));
        assert!((1..bytes.len()).all(|len| len == 8 || decode(&bytes[..len]).is_none()));
        assert!(decode(&[]).is_none());
    }
}
