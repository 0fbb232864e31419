//! Sets of several addresses, what selects from them, and sets of a view.
use crate::{load, name, service};
use compile::{AnswerRules, ChosenRecords, ChosenSets, Image, SetChange, ViewSets};
use image::{Location, Order};
use packet::{BURST_MAX, View};
use std::sync::Arc;
use wire::{Rtype, canonical_cmp};

/// Most instructions of a burst of sets of two addresses and of eight, of one of eight, of those
/// that are nearest, and of sets of a view.
pub const TWO_MAX: u64 = 560 * BURST_MAX as u64;
pub const ALL_MAX: u64 = 626 * BURST_MAX as u64;
pub const WEIGHTED_MAX: u64 = 670 * BURST_MAX as u64;
pub const HASH_MAX: u64 = 753 * BURST_MAX as u64;
pub const HASH_AND_WEIGHT_MAX: u64 = 1007 * BURST_MAX as u64;
pub const NEAREST_MAX: u64 = 893 * BURST_MAX as u64;
pub const VIEW_MAX: u64 = 402 * BURST_MAX as u64;
/// Bytes of the origin.
const ORIGIN_LEN: usize = "_cluster_local_".len();
/// Addresses of a set from which is selected.
const MEMBERS: usize = 8;
/// The view of clients.
pub const VIEW: View = View(1);

/// The location of a path.
pub fn location(path: &str) -> Location {
    Location::parse(path).expect("a location")
}

/// What is selected of each set.
#[derive(Clone, Copy)]
pub enum Sets {
    Two,
    All,
    OneByWeight,
    OneByHash,
    OneByHashAndWeight,
    Nearest,
}

impl Sets {
    fn rules(self) -> Option<AnswerRules> {
        let weights = vec![1, 2, 3, 4, 5, 6, 7, 8];
        let one = AnswerRules { others: 1, ..AnswerRules::default() };
        match self {
            Self::Two | Self::All => None,
            Self::OneByWeight => Some(AnswerRules { order: Order::Weighted, weights, ..one }),
            Self::OneByHash => Some(AnswerRules { order: Order::Hash, ..one }),
            Self::OneByHashAndWeight => Some(AnswerRules { order: Order::Hash, weights, ..one }),
            Self::Nearest => {
                let places = ["eu/ams1", "eu/fra1/a", "eu/fra1/b", "eu/par1"];
                let mut locations: Vec<_> =
                    places.iter().flat_map(|path| [location(path); MEMBERS / 4]).collect();
                locations.sort_unstable();
                Some(AnswerRules { others: u16::MAX, locations, ..AnswerRules::default() })
            }
        }
    }
}

/// The names of services below the origin, in canonical order, each with so many addresses.
struct Services {
    names: Vec<Vec<u8>>,
    data: Vec<Vec<Vec<u8>>>,
}

impl Services {
    fn new(names: u32, members: usize) -> Self {
        let relative = |n: u32| {
            let name = name(&service(n));
            name.as_name().as_bytes()[..name.as_name().len() - ORIGIN_LEN].to_vec()
        };
        let addresses =
            |n: u32| (0..members as u32).map(|m| (m << 24 | n).to_be_bytes().to_vec()).collect();
        let mut names: Vec<_> = (0..names).map(relative).collect();
        names.sort_by(|a, b| canonical_cmp(a, b));
        Self { data: (0..names.len() as u32).map(addresses).collect(), names }
    }

    fn changes(&self, rules: &[u8]) -> Vec<SetChange<'_, Vec<u8>>> {
        let changes = self.names.iter().zip(&self.data).map(|(name, data)| {
            let set = Some((30, &data[..]));
            SetChange { name, rtype: Rtype::A, set, rules: rules.to_vec() }
        });
        changes.collect()
    }
}

/// A zone in which each service has a set of addresses.
pub fn load_sets(names: u32, sets: Sets) -> Image {
    let mut image = load(names);
    let mut zone = (**image.zone(name("cluster.local.").as_name()).expect("the zone")).clone();
    let services = Services::new(names, if matches!(sets, Sets::Two) { 2 } else { MEMBERS });
    // Any rules: the chooser has those that count.
    let rules = if sets.rules().is_some() { &[0][..] } else { &[] };
    zone.change_all(&services.changes(rules)).expect("sets");
    let mut choose = |_, _: image::Node<'_>, set: image::RecordSet<'_>| {
        let numbers = (0..set.count()).collect();
        Some(ChosenRecords { ttl: 30, numbers, selection: sets.rules() }.into())
    };
    let leaves = zone.changed_leaves(None);
    image.put_zone(Arc::new(zone.chosen(None, &leaves, ChosenSets::Ruled, &mut choose)));
    image
}

/// A zone in which each service has another address in a view.
pub fn load_view(names: u32) -> Image {
    let mut image = load(names);
    let origin = name("cluster.local.");
    let mut zone = (**image.zone(origin.as_name()).expect("the zone")).clone();
    let services = Services::new(names, 1);
    let mut sets = ViewSets::none(Arc::clone(image.key()));
    sets.change_all(origin.as_name(), &services.changes(&[])).expect("sets");
    let names: Vec<&[u8]> = services.names.iter().map(|name| &name[..]).collect();
    zone.put_view(VIEW, &sets, &names).expect("a view");
    image.put_zone(Arc::new(zone));
    image
}
