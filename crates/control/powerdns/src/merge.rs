//! Changes of a set that has more than `PowerDNS` knows: rules and weights, which stay.
use model::SetValue;

/// The set after a `REPLACE` of its records: its rules stay, and those of members that stay.
#[must_use]
pub fn merge(mut current: SetValue, ttl: u32, data: Vec<Box<[u8]>>) -> SetValue {
    let gone = current.data.iter().filter(|held| !data.contains(held)).cloned().collect::<Vec<_>>();
    let new = data.into_iter().filter(|wanted| !current.data.contains(wanted)).collect();
    // First added, then removed: an empty set has no rules.
    current.add(SetValue::new(ttl, new));
    current.take(&gone);
    current
}
