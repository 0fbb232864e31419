//! Sets of several addresses, and what selects from them.
use crate::{load, name, service};
use compile::{AnswerRules, ChosenRecords, ChosenSets, Image, SetChange};
use image::{Location, Order};
use std::sync::Arc;
use wire::Rtype;

/// Addresses of each set.
const MEMBERS: usize = 8;

/// The location of a path.
pub fn location(path: &str) -> Location {
    Location::parse(path).expect("a location")
}

/// What is selected of each set.
#[derive(Clone, Copy)]
pub enum Sets {
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
            Self::All => None,
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

/// A zone in which each service has a set of addresses.
pub fn load_sets(names: u32, sets: Sets) -> Image {
    let mut image = load(names);
    let origin = name("cluster.local.");
    let mut zone = (**image.zone(origin.as_name()).expect("the zone")).clone();
    let owners: Vec<_> = (0..names).map(|n| name(&service(n))).collect();
    let addresses = |n: u32| (0..MEMBERS as u32).map(move |m| (m << 24 | n).to_be_bytes().to_vec());
    let data: Vec<Vec<Vec<u8>>> = (0..names).map(|n| addresses(n).collect()).collect();
    let changes = owners.iter().zip(&data).map(|(owner, data)| {
        let labels = owner.as_name().len() - origin.as_name().len();
        // Any rules: the chooser has those that count.
        let rules = if sets.rules().is_some() { vec![0] } else { Vec::new() };
        let (name, set) = (&owner.as_name().as_bytes()[..labels], Some((30, &data[..])));
        SetChange { name, rtype: Rtype::A, set, rules }
    });
    zone.change_all(&changes.collect::<Vec<_>>()).expect("sets");
    let mut choose = |_: image::Node<'_>, set: image::RecordSet<'_>| {
        let numbers = (0..set.count()).collect();
        Some(ChosenRecords { ttl: 30, numbers, selection: sets.rules() }.into())
    };
    let leaves = zone.changed_leaves(None);
    image.put_zone(Arc::new(zone.chosen(None, &leaves, ChosenSets::Ruled, &mut choose)));
    image
}
