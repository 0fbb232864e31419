//! The networks of clients, as the threads read them.
mod places;

use config::{Config, DenyAnswer, GeoTable, NetworkNames};
use handler::limits::NETWORK_SLOTS;
use handler::{Denial, NameSet, NetworkList, NetworkSettings, PlaceTable};
use image::{HASH_KEY_WORDS, HashKey, Location};
use packet::View;
pub use places::{KnownClients, Owner};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// What stays of networks when settings change.
#[derive(Debug)]
pub struct LastingNetworks {
    /// The key of hashes of denied names.
    key: Arc<HashKey>,
    /// The networks that have had a counter since the start. A counter is never given to another
    /// network: its value would go on from the first.
    counted: Mutex<Vec<String>>,
    /// Hashed names, as long as a config has them: a change of clients hashes none again.
    sets: Mutex<Vec<(Arc<NetworkNames>, Arc<NameSet>)>>,
    /// The clients of a cluster.
    clients: Mutex<Arc<KnownClients>>,
    /// The table of the last file of locations.
    places: Mutex<Option<(Arc<GeoTable>, Arc<PlaceTable>)>>,
    /// The network and the location of each number of the last list, from 1.
    owners: Mutex<Vec<Owner>>,
    /// The numbers of views.
    pub views: ViewNumbers,
}

/// The numbers of views: a view that stays in the config keeps its number, because settings and
/// zones are published one after the other. Those of the first config are the same for everyone.
#[derive(Debug, Default)]
pub struct ViewNumbers(Mutex<Vec<String>>);

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
        let (key, counted) = (Arc::new(HashKey::new(words)), Mutex::default());
        let (sets, clients, places, owners) = Default::default();
        let views = ViewNumbers::default();
        Ok(Self { key, counted, sets, clients, places, owners, views })
    }

    /// The networks of a config.
    pub fn list(&self, config: &Config) -> NetworkList {
        let sets = self.sets(config);
        let set = |names: &Arc<NetworkNames>| Arc::clone(&sets[&Arc::as_ptr(names)]);
        let views = self.views.of(config);
        let view = |name: &Option<String>| name.as_ref().and_then(|name| views.get(name)).copied();
        let clients = Arc::clone(&self.clients.lock().unwrap_or_else(PoisonError::into_inner));
        let owners = places::owners(config, &clients);
        let places = self.places(config, owners.len());
        *self.owners.lock().unwrap_or_else(PoisonError::into_inner) =
            owners.keys().cloned().collect();
        let all = owners.into_iter().map(|((at, path), prefixes)| {
            let location = path.and_then(|path| Location::parse(&path).ok()).unwrap_or_default();
            let Some(network) = at.map(|at| &config.networks[at]) else {
                return NetworkSettings { prefixes, location, ..in_no_network() };
            };
            NetworkSettings {
                prefixes,
                view: view(&network.view).unwrap_or_default(),
                location,
                names: network.names.iter().map(set).collect(),
                denial: denial(&network.deny_answer),
                slot: self.slot(&network.name),
            }
        });
        NetworkList::new(all.collect(), &config.ecs.trust, places)
    }

    /// The network with this number of the last list, and the path of its location.
    pub fn owner(&self, number: u16) -> Owner {
        let Some(at) = usize::from(number).checked_sub(1) else { return Owner::default() };
        let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let of_places = |at: usize| places.as_ref()?.0.paths.get(at).cloned();
        match owners.get(at) {
            Some(owner) => owner.clone(),
            None => (None, of_places(at - owners.len())),
        }
    }

    /// The table of the locations of a config, made once for each file. Beside too many networks
    /// it has no numbers left.
    fn places(&self, config: &Config, networks: usize) -> Option<Arc<PlaceTable>> {
        let mut known = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(geo) = &config.geo.locations else {
            *known = None;
            return None;
        };
        let table = match &*known {
            Some((of, table)) if Arc::ptr_eq(of, geo) => Arc::clone(table),
            _ => {
                let locations =
                    geo.paths.iter().map(|path| Location::parse(path).unwrap_or_default());
                let (v4, v6) = (&geo.v4, &geo.v6);
                let table = Arc::new(PlaceTable::new(
                    (v4.bounds.clone(), v4.numbers.clone()),
                    (v6.bounds.clone(), v6.numbers.clone()),
                    locations.collect(),
                ));
                *known = Some((Arc::clone(geo), Arc::clone(&table)));
                table
            }
        };
        let fits = networks + table.len() <= usize::from(u16::MAX);
        if !fits {
            tracing::error!(
                "[networks] maxmind: {networks} networks and {} locations are more than {}: the \
                 locations are not used",
                table.len(),
                u16::MAX
            );
        }
        Some(table).filter(|_| fits)
    }

    /// Takes in the clients of a cluster: the next list has them.
    pub fn set_clients(&self, clients: KnownClients) {
        *self.clients.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(clients);
    }

    /// The hashed names of a config. A file that several networks name is in memory once.
    fn sets(&self, config: &Config) -> HashMap<*const NetworkNames, Arc<NameSet>> {
        let mut known = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        let mut new: HashMap<*const NetworkNames, (Arc<NetworkNames>, Arc<NameSet>)> =
            HashMap::new();
        for names in config.networks.iter().flat_map(|network| &network.names) {
            new.entry(Arc::as_ptr(names)).or_insert_with(|| {
                let hashed = known.iter().find(|(of, _)| Arc::ptr_eq(of, names));
                let set = hashed.map_or_else(|| self.set(names), |(_, set)| Arc::clone(set));
                (Arc::clone(names), set)
            });
        }
        *known = new.values().cloned().collect();
        new.into_iter().map(|(at, (_, set))| (at, set)).collect()
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

impl ViewNumbers {
    /// The numbers of a config's views.
    pub fn of(&self, config: &Config) -> HashMap<String, View> {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let views = config.zones.iter().flat_map(|zone| &zone.views);
        let of_files = views.map(|of| &of.view);
        let views = of_files.chain(&config.store.views);
        let used: HashSet<&str> = views.clone().map(String::as_str).collect();
        let mut numbers = HashMap::new();
        for view in views {
            let at = names.iter().position(|name| name == view).unwrap_or_else(|| {
                if names.len() < usize::from(u8::MAX) {
                    names.push(view.clone());
                    return names.len() - 1;
                }
                // A config has no more views than there are numbers.
                let free = names.iter().position(|name| !used.contains(name.as_str()));
                let at = free.unwrap_or_default();
                names[at].clone_from(view);
                at
            });
            numbers.insert(view.clone(), View(u8::try_from(at + 1).unwrap_or_default()));
        }
        numbers
    }
}

/// Clients of which only the location is known.
fn in_no_network() -> NetworkSettings {
    NetworkSettings {
        prefixes: Vec::new(),
        view: View::default(),
        location: Location::UNKNOWN,
        names: Vec::new(),
        denial: Denial::Refused,
        slot: 0,
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
    use config::GeoRanges;
    use std::path::Path;

    #[test]
    fn view_keeps_its_number_while_it_is_in_the_config() {
        let numbers = ViewNumbers::default();
        let of = |views: &[usize]| {
            let base = "[[zone]]\nname = \"{z}\"\nfile = \"b\"\n";
            let view = |(n, view): (usize, &usize)| {
                let zone = format!("z{}", n / 16);
                let base = if n % 16 == 0 { base.replace("{z}", &zone) } else { String::new() };
                format!("{base}[[zone]]\nname = \"{zone}\"\nview = \"v{view}\"\nfile = \"v\"\n")
            };
            let text: String = views.iter().enumerate().map(view).collect();
            numbers.of(&Config::parse(Path::new("f"), &text).expect("a config"))
        };
        let first = of(&[1, 2]);
        assert_eq!([first["v1"], first["v2"]], [View(1), View(2)]);
        assert_eq!(of(&[3, 2])["v2"], View(2));
        let many: Vec<usize> = (100..355).collect();
        let all: HashSet<u8> = of(&many).values().map(|view| view.0).collect();
        assert_eq!(all.len(), 255);
        assert!(!all.contains(&0));
    }

    #[test]
    fn clients_in_no_network_are_where_the_file_says() {
        let lasting = LastingNetworks::new().expect("randomness");
        let text = "[[network]]\nname = \"n\"\nprefixes = [\"10.0.0.0/8\"]\n";
        let mut config = Config::parse(Path::new("f"), text).expect("a config");
        let v4 = GeoRanges { bounds: vec![0x0a00_0000, 0x0c00_0000], numbers: vec![0, 2, 1] };
        let paths = vec!["eu/de".into(), "na".into()];
        let geo = GeoTable { v4, v6: GeoRanges::default(), paths };
        config.geo.locations = Some(Arc::new(geo));
        let list = lasting.list(&config);
        let of = |list: &NetworkList, client: [u8; 4]| lasting.owner(list.number(client.into()));
        for (client, owner) in [
            ([10, 0, 0, 1], (Some(0), None)),
            ([11, 0, 0, 1], (None, Some("na".into()))),
            ([192, 0, 2, 1], (None, Some("eu/de".into()))),
            ([9, 0, 0, 1], (None, None)),
        ] {
            assert_eq!(of(&list, client), owner, "{client:?}");
        }
        let made = [(); 2].map(|()| lasting.places(&config, 1).expect("a table"));
        assert!(Arc::ptr_eq(&made[0], &made[1]), "it is made once");
        assert!(lasting.places(&config, 65_534).is_none(), "there are no numbers left");
        config.geo.locations = None;
        assert_eq!(of(&lasting.list(&config), [11, 0, 0, 1]), (None, None));
    }

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
