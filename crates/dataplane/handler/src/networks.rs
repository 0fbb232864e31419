//! The networks of clients, with the memory they are in.
use crate::AccessList;
use answer::{ClientNetworks, ClientPlaces, DeniedAnswer, NameRules, Network};
use image::{DepthMask, ENTRY_HEAD_LEN, HashKey, Location, NameList, NameRule, NameVerdicts};
use limit::{NetworkBounds, NetworkTable, Prefix, RangeIndex};
use packet::{LocationNumber, View};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use wire::QName;

/// The ranges of one family.
#[derive(Debug, Default)]
struct Ranges<B> {
    bounds: Vec<B>,
    numbers: Vec<u16>,
    index: RangeIndex,
    entries: Vec<u32>,
}

impl<B: limit::Bound> Ranges<B> {
    fn new(changes: Vec<(B, u16)>) -> Self {
        let bounds: Vec<B> = changes.iter().map(|(bound, _)| *bound).collect();
        let numbers = [0].into_iter().chain(changes.iter().map(|(_, number)| *number)).collect();
        Self::of(bounds, numbers)
    }

    /// Ascending bounds, and the number before the first and from each on.
    fn of(bounds: Vec<B>, numbers: Vec<u16>) -> Self {
        let (index, len) = RangeIndex::of(&bounds);
        let mut entries = vec![0; len];
        index.fill(&bounds, &mut entries);
        Self { bounds, numbers, index, entries }
    }

    fn bounds(&self) -> NetworkBounds<'_, B> {
        let Self { bounds, numbers, index, entries } = self;
        NetworkBounds { bounds, numbers, index: *index, entries }
    }
}

/// Names with verdicts, each once.
#[derive(Debug)]
pub struct NameSet {
    key: Arc<HashKey>,
    depths: DepthMask,
    slots: Vec<u32>,
    entries: Vec<u8>,
    len: usize,
}

impl NameSet {
    /// No names, with room for so many. The key must come from a good source of randomness.
    pub fn new(key: Arc<HashKey>, names: usize) -> Self {
        let slots = vec![0; (2 * names).next_power_of_two()];
        Self { key, depths: DepthMask::default(), slots, entries: Vec::new(), len: 0 }
    }

    /// Adds verdicts about a name, which is in lower case and without its root label. No effect
    /// above the number of names that there is room for.
    pub fn add(&mut self, name: &[u8], verdicts: NameVerdicts) {
        let Some((slot, known)) = self.list().slot(self.key.hash_of(name), name) else { return };
        if let Some(at) = known {
            self.entries[at] |= verdicts.0;
            return;
        }
        if 2 * (self.len + 1) > self.slots.len() {
            return;
        }
        let Ok(offset) = u32::try_from(self.entries.len() + 1) else { return };
        self.slots[slot] = offset;
        self.entries.extend([verdicts.0, name.len() as u8]);
        self.entries.extend(name);
        self.len += 1;
        self.depths.insert(labels(name));
    }

    fn list(&self) -> NameList<'_> {
        let Self { key, depths, slots, entries, .. } = self;
        NameList { key, depths: *depths, slots, entries }
    }
}

/// The number of labels of a name without its root label.
fn labels(mut name: &[u8]) -> usize {
    let mut labels = 0;
    while let [len, rest @ ..] = name {
        name = rest.get(usize::from(*len)..).unwrap_or_default();
        labels += 1;
    }
    labels
}

const _: () = assert!(ENTRY_HEAD_LEN == 2);

/// What queries for denied names get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// NXDOMAIN.
    NxDomain,
    /// REFUSED.
    Refused,
    /// These addresses.
    Addresses(Vec<IpAddr>),
}

/// One network.
#[derive(Debug)]
pub struct NetworkSettings {
    /// The prefixes of its clients.
    pub prefixes: Vec<Prefix>,
    /// The view of its clients.
    pub view: View,
    /// Where its clients are.
    pub location: Location,
    /// Lists of names that are denied to its clients, or allowed.
    pub names: Vec<Arc<NameSet>>,
    /// The answer to queries for denied names.
    pub denial: Denial,
    /// The counter of its queries, below [`NETWORK_SLOTS`](crate::limits::NETWORK_SLOTS).
    pub slot: u8,
}

/// The names that a network denies, and the answer.
#[derive(Debug)]
struct Rules {
    names: Vec<Arc<NameSet>>,
    denial: Denial,
}

/// Where clients are that are in no network.
#[derive(Debug)]
pub struct PlaceTable {
    v4: Ranges<u32>,
    v6: Ranges<u128>,
    locations: Vec<Location>,
}

/// The addresses at which a location begins, ascending, and the numbers of the locations: before
/// the first address and from each on.
type PlacedRanges<B> = (Vec<B>, Vec<u16>);

impl PlaceTable {
    /// A number counts the locations from 1; 0: the location is not known.
    pub fn new(v4: PlacedRanges<u32>, v6: PlacedRanges<u128>, locations: Vec<Location>) -> Self {
        Self { v4: Ranges::of(v4.0, v4.1), v6: Ranges::of(v6.0, v6.1), locations }
    }

    /// The number of locations.
    pub fn len(&self) -> usize {
        self.locations.len()
    }

    /// Whether no location is known.
    pub fn is_empty(&self) -> bool {
        self.locations.is_empty()
    }
}

/// All networks. Without any, none is looked up.
#[derive(Debug, Default)]
pub struct NetworkList {
    v4: Ranges<u32>,
    v6: Ranges<u128>,
    /// By number; the first is of clients in no network.
    networks: Vec<Network>,
    /// Whether any of them denies names.
    denies: bool,
    rules: Vec<Rules>,
    slots: Vec<u8>,
    /// Those of networks, each once; [`LocationNumber`] counts them from 1.
    locations: Vec<Location>,
    trust: AccessList,
    places: Option<Arc<PlaceTable>>,
}

impl NetworkList {
    /// A list of at most 65,535 networks and places. `trust`: resolvers that say where their
    /// clients are.
    pub fn new(
        settings: Vec<NetworkSettings>,
        trust: &[Prefix],
        places: Option<Arc<PlaceTable>>,
    ) -> Self {
        let of = |(at, settings): (usize, &NetworkSettings)| {
            let number = u16::try_from(at + 1).unwrap_or_default();
            settings.prefixes.iter().map(|prefix| (*prefix, number)).collect::<Vec<_>>()
        };
        let mut prefixes: Vec<(Prefix, u16)> = settings.iter().enumerate().flat_map(of).collect();
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        NetworkTable::flatten(
            &mut prefixes,
            |at, number| v4.push((at, number)),
            |at, number| v6.push((at, number)),
        );
        let (mut networks, mut slots) = (vec![Network::default()], vec![0]);
        let mut rules = vec![Rules { names: Vec::new(), denial: Denial::Refused }];
        let mut locations = Locations::default();
        for NetworkSettings { view, location, names, denial, slot, .. } in settings {
            let location = locations.number(location);
            networks.push(Network { view, location, denies: !names.is_empty() });
            slots.push(slot);
            rules.push(Rules { names, denial });
        }
        // Behind them, one for each place.
        for location in places.iter().flat_map(|places| &places.locations) {
            let location = locations.number(*location);
            networks.push(Network { location, ..Network::default() });
        }
        Self {
            v4: Ranges::new(v4),
            v6: Ranges::new(v6),
            denies: networks.iter().any(|network| network.denies),
            networks,
            rules,
            slots,
            locations: locations.all,
            trust: AccessList::of(trust),
            places,
        }
    }

    /// Whether neither a network nor a resolver to trust is configured.
    pub fn is_empty(&self) -> bool {
        self.networks.len() <= 1 && self.trust.acl().is_none()
    }

    /// Whether no network is configured.
    pub(crate) fn has_none(&self) -> bool {
        self.networks.len() <= 1
    }

    /// The locations of networks, as `answer` reads them.
    pub(crate) fn locations(&self) -> &[Location] {
        &self.locations
    }

    /// The number of the network of a client; 0: it is in none.
    pub fn number(&self, client: IpAddr) -> u16 {
        self.networks().map_or(0, |networks| networks.number(client))
    }

    /// The rule about a name that decides for the clients of a network.
    #[inline]
    pub fn rule(&self, network: u16, name: &QName) -> Option<NameRule> {
        let rules = self.rules.get(usize::from(network))?;
        NameList::rule(rules.names.iter().map(|set| set.list()), name)
    }

    /// The counter of a network's queries.
    pub(crate) fn slot(&self, number: u16) -> usize {
        self.slots.get(usize::from(number)).copied().unwrap_or_default().into()
    }

    fn table(&self) -> NetworkTable<'_> {
        NetworkTable { v4: self.v4.bounds(), v6: self.v6.bounds() }
    }

    /// The networks as `answer` reads them; `None`: nothing is configured.
    pub(crate) fn networks(&self) -> Option<ClientNetworks<'_>> {
        (!self.is_empty()).then(|| ClientNetworks {
            table: self.table(),
            places: self.places.as_ref().map(|places| ClientPlaces {
                table: NetworkTable { v4: places.v4.bounds(), v6: places.v6.bounds() },
                before: (self.rules.len() - 1) as u16,
            }),
            networks: &self.networks,
            rules: self,
            trust: self.trust.acl(),
            denies: self.denies,
            placed: false,
        })
    }
}

/// Counts locations, each once.
#[derive(Default)]
struct Locations {
    all: Vec<Location>,
    numbers: HashMap<Location, LocationNumber>,
}

impl Locations {
    fn number(&mut self, location: Location) -> LocationNumber {
        if location == Location::UNKNOWN {
            return LocationNumber::UNKNOWN;
        }
        *self.numbers.entry(location).or_insert_with(|| {
            self.all.push(location);
            LocationNumber(u16::try_from(self.all.len()).unwrap_or_default())
        })
    }
}

impl NameRules for NetworkList {
    fn deny(&self, network: u16, name: &QName) -> bool {
        self.rule(network, name).is_some_and(|rule| rule.is_denied)
    }

    fn answer(&self, network: u16) -> DeniedAnswer<'_> {
        match self.rules.get(usize::from(network)).map(|rules| &rules.denial) {
            Some(Denial::NxDomain) => DeniedAnswer::NxDomain,
            Some(Denial::Addresses(addresses)) => DeniedAnswer::Addresses(addresses),
            Some(Denial::Refused) | None => DeniedAnswer::Refused,
        }
    }
}

#[cfg(test)]
mod tests;
