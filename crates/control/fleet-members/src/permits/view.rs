//! The servers with announced addresses, as etcd has them.
use etcd_client::KeyValue;
use keyspace::Keys;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The value of the key of a server with addresses.
#[derive(Debug, Serialize, Deserialize)]
pub struct AnnouncedValue {
    pub addresses: Vec<String>,
}

/// The value of a permit.
#[derive(Debug, Serialize, Deserialize)]
pub struct PermitValue {
    pub reason: String,
}

impl AnnouncedValue {
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("text is JSON")
    }
}

impl PermitValue {
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("text is JSON")
    }
}

/// All servers that had addresses in the last ten minutes.
#[derive(Debug, Default)]
pub struct FleetView {
    /// The addresses of each.
    servers: BTreeMap<String, Vec<String>>,
    /// The reasons of those with a permit.
    permits: BTreeMap<String, String>,
    /// The living members.
    alive: BTreeSet<String>,
}

impl FleetView {
    /// Reads keys. Values that cannot be read are left out.
    pub fn read(keys: &Keys, announcing: &[KeyValue], members: &[KeyValue]) -> Self {
        let mut view = Self::default();
        for kv in announcing {
            let Ok(key) = str::from_utf8(kv.key()) else { continue };
            if let Some(name) = key.strip_prefix(&keys.announcing_server("")) {
                let value = serde_json::from_slice(kv.value());
                view.servers
                    .extend(value.map(|value: AnnouncedValue| (name.into(), value.addresses)));
            } else if let Some(name) = key.strip_prefix(&keys.permit("")) {
                let value = serde_json::from_slice(kv.value());
                view.permits.extend(value.map(|value: PermitValue| (name.into(), value.reason)));
            }
        }
        let names = members.iter().filter(|kv| kv.lease() != 0).filter_map(|kv| {
            str::from_utf8(kv.key()).ok()?.strip_prefix(&keys.member("")).map(str::to_owned)
        });
        view.alive.extend(names);
        view
    }

    /// Whether a server may withdraw these addresses: of the servers with one of them, at most a
    /// third, or one, may be withdrawn or gone.
    ///
    /// # Errors
    /// It may not, and why.
    pub fn check(&self, own: &str, addresses: &[String]) -> Result<(), String> {
        for address in addresses {
            let has = |(_, all): &(&String, &Vec<String>)| all.contains(address);
            let others = self.servers.iter().filter(has).map(|(name, _)| name);
            let others: Vec<&String> = others.filter(|name| *name != own).collect();
            let out: Vec<String> = others.iter().filter_map(|name| self.absence(name)).collect();
            let all = others.len() + 1;
            let most = (all / 3).max(1);
            if out.len() >= most {
                let out = out.join(", ");
                return Err(format!(
                    "of {all} servers with {address} at most {most} may be withdrawn or gone, and \
                     {out}"
                ));
            }
        }
        Ok(())
    }

    /// Why a server does not announce; `None`: it does.
    fn absence(&self, name: &str) -> Option<String> {
        match self.permits.get(name) {
            Some(reason) => Some(format!("{name} is withdrawn ({reason})")),
            None if self.alive.contains(name) => None,
            None => Some(format!("{name} is gone")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fleet of so many servers with one address, of which some are withdrawn or dead.
    fn fleet(count: usize, withdrawn: usize, dead: usize) -> FleetView {
        let names: Vec<String> = (1..=count).map(|nth| format!("s{nth}")).collect();
        let servers = names.iter().map(|name| (name.clone(), vec!["192.0.2.53".to_owned()]));
        let permits = names.iter().rev().take(withdrawn);
        FleetView {
            servers: servers.collect(),
            permits: permits.map(|name| (name.clone(), "rack 7".to_owned())).collect(),
            alive: names.iter().rev().skip(dead).cloned().collect(),
        }
    }

    #[test]
    fn a_third_of_the_servers_or_one_may_be_withdrawn_or_gone() {
        let own = ["192.0.2.53".to_owned()];
        for (count, withdrawn, dead, is_given) in [
            (1, 0, 0, true),
            (2, 0, 0, true),
            (2, 1, 0, false),
            (2, 0, 1, false),
            (3, 0, 0, true),
            (3, 1, 0, false),
            (3, 0, 1, false),
            (5, 1, 0, false),
            (6, 1, 0, true),
            // The dead one has a permit, too: it counts once.
            (6, 1, 1, true),
            (6, 2, 0, false),
            (6, 0, 2, false),
            (9, 2, 1, true),
            (9, 2, 3, false),
        ] {
            let found = fleet(count, withdrawn, dead).check("s1", &own);
            assert_eq!(found.is_ok(), is_given, "{count} {withdrawn} {dead}: {found:?}");
        }
        let why = fleet(3, 1, 0).check("s1", &own).expect_err("one is withdrawn");
        assert!(why.contains("of 3 servers") && why.ends_with("s3 is withdrawn (rack 7)"), "{why}");
    }

    #[test]
    fn servers_without_the_address_do_not_count() {
        let view = fleet(3, 1, 0);
        assert_eq!(view.check("s1", &["198.51.100.1".to_owned()]), Ok(()));
        let both = ["198.51.100.1".to_owned(), "192.0.2.53".to_owned()];
        assert!(view.check("s1", &both).is_err());
    }
}
