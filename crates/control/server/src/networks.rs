//! The networks of clients, as the threads read them.
use config::{Config, DenyAnswer, NetworkNames};
use handler::limits::NETWORK_SLOTS;
use handler::{Denial, NameSet, NetworkList, NetworkSettings};
use image::{HASH_KEY_WORDS, HashKey};
use packet::View;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What stays of networks when settings change.
#[derive(Debug)]
pub struct LastingNetworks {
    /// The key of hashes of denied names.
    key: Arc<HashKey>,
    /// The networks that have had a counter since the start. A counter is never given to another
    /// network: its value would go on from the first.
    counted: Mutex<Vec<String>>,
}

/// The counter of clients in no network, and that of networks without one of their own.
const OF_NO_NETWORK: &str = "default";
const OF_OTHERS: &str = "other";

impl LastingNetworks {
    /// No network has a counter.
    ///
    /// # Errors
    /// The kernel returns no random bytes.
    pub fn new() -> Result<Self, getrandom::Error> {
        let mut words = [0; HASH_KEY_WORDS];
        for word in &mut words {
            *word = getrandom::u64()?;
        }
        Ok(Self { key: Arc::new(HashKey::new(words)), counted: Mutex::default() })
    }

    /// The networks of a config.
    pub fn list(&self, config: &Config) -> NetworkList {
        // A file that several networks name is in memory once.
        let mut sets: HashMap<*const NetworkNames, Arc<NameSet>> = HashMap::new();
        let mut set = |names: &Arc<NetworkNames>| {
            Arc::clone(sets.entry(Arc::as_ptr(names)).or_insert_with(|| self.set(names)))
        };
        let all = config.networks.iter().map(|network| NetworkSettings {
            prefixes: network.prefixes.clone(),
            view: View::DEFAULT,
            location: network.location,
            names: network.names.iter().map(&mut set).collect(),
            denial: denial(&network.deny_answer),
            slot: self.slot(&network.name),
        });
        NetworkList::new(all.collect())
    }

    fn set(&self, names: &NetworkNames) -> Arc<NameSet> {
        let mut set = NameSet::new(Arc::clone(&self.key), names.len);
        for (verdicts, name) in names.iter() {
            set.add(name, verdicts);
        }
        Arc::new(set)
    }

    /// The counter of a network: its own, or that of others once all are taken.
    fn slot(&self, name: &str) -> u8 {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let at = counted.iter().position(|known| known == name).unwrap_or_else(|| {
            if counted.len() + 2 < NETWORK_SLOTS {
                counted.push(name.to_owned());
                return counted.len() - 1;
            }
            NETWORK_SLOTS - 2
        });
        u8::try_from(at + 1).unwrap_or_default()
    }

    /// The names of all counters, in their order.
    pub fn names(&self) -> Vec<String> {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut names = vec![OF_NO_NETWORK.to_owned()];
        names.extend(counted.iter().cloned());
        names.resize(NETWORK_SLOTS, OF_OTHERS.to_owned());
        names
    }
}

fn denial(answer: &DenyAnswer) -> Denial {
    match answer {
        DenyAnswer::NxDomain => Denial::NxDomain,
        DenyAnswer::Refused => Denial::Refused,
        DenyAnswer::Addresses(addresses) => Denial::Addresses(addresses.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn counter_stays_with_its_network_and_the_last_is_of_all_others() {
        let lasting = LastingNetworks::new().expect("randomness");
        let config = |names: &[String]| {
            let network = |(n, name): (usize, &String)| {
                format!("[[network]]\nname = \"{name}\"\nprefixes = [\"10.0.{n}.0/24\"]\n")
            };
            let text: String = names.iter().enumerate().map(network).collect();
            Config::parse(Path::new("f"), &text).expect("a config")
        };
        let many: Vec<String> = (0..200).map(|n| format!("n{n}")).collect();
        lasting.list(&config(&many));
        let first = lasting.names();
        assert_eq!(first.len(), NETWORK_SLOTS);
        assert_eq!((&*first[0], &*first[1], &*first[124]), ("default", "n0", "other"));
        lasting.list(&config(&["new".to_owned(), "n5".to_owned()]));
        assert_eq!(lasting.names(), first);
        assert_eq!([lasting.slot("n5"), lasting.slot("new"), lasting.slot("n199")], [6, 124, 124]);
    }
}
