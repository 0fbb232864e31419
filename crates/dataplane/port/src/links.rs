//! The links by which queries arrived, under numbers small enough to travel with a packet.

use crate::limits::LINKS;
use packet::frame::LinkHeader;

/// Bits of a number that say the place; the others say how often it was taken again.
const BITS: u32 = LINKS.trailing_zeros();

/// A table of links, each at the place that its bytes say.
#[derive(Debug)]
pub struct Links {
    places: Box<[(LinkHeader, u32)]>,
    /// The number that was asked for last: most of what comes is from one next hop.
    last: u32,
}

impl Links {
    pub fn new() -> Self {
        Self { places: vec![(LinkHeader::new([0; 6], [0; 6], 0), 0); LINKS].into(), last: 0 }
    }

    fn place(number: u32) -> usize {
        number as usize & (LINKS - 1)
    }

    /// The number that finds a link again, until another one takes its place.
    #[inline]
    pub fn number(&mut self, link: &LinkHeader) -> u32 {
        if self.places[Self::place(self.last)].0 == *link {
            return self.last;
        }
        self.put(link)
    }

    fn put(&mut self, link: &LinkHeader) -> u32 {
        let hash = link.hash();
        let (there, times) = &mut self.places[Self::place(hash)];
        if there != link {
            (*there, *times) = (*link, times.wrapping_add(1));
        }
        self.last = *times << BITS | hash & (LINKS as u32 - 1);
        self.last
    }

    /// The link of a number; nothing: it is gone.
    pub fn get(&self, number: u32) -> Option<LinkHeader> {
        let (link, times) = self.places[Self::place(number)];
        (times << BITS >> BITS == number >> BITS).then_some(link)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(number: u32) -> LinkHeader {
        let [a, b, c, d] = number.to_be_bytes();
        LinkHeader::new([2, 0, 0, 0, 0, 1], [2, 0, a, b, c, d], 53)
    }

    #[test]
    fn a_link_is_found_by_its_number_until_another_takes_its_place() {
        let mut links = Links::new();
        let first = links.number(&link(0));
        assert_eq!([links.number(&link(0)), links.number(&link(0))], [first; 2]);
        let mut taken = None;
        for nth in 1..20 * LINKS as u32 {
            let number = links.number(&link(nth));
            assert_eq!(links.get(number), Some(link(nth)));
            if Links::place(number) == Links::place(first) {
                taken = Some(number);
            }
            assert_eq!(links.get(first), taken.is_none().then(|| link(0)), "never another");
        }
        assert!(taken.is_some(), "as many links as these do not fit");
        let again = links.number(&link(0));
        assert_ne!(again, first);
        assert_eq!((links.get(first), links.get(again)), (None, Some(link(0))));
    }

    #[test]
    fn numbers_of_a_place_come_round_without_harm() {
        let mut links = Links::new();
        links.places.iter_mut().for_each(|(_, times)| *times = u32::MAX >> BITS);
        for nth in 0..3 {
            let number = links.number(&link(nth));
            assert_eq!(links.get(number), Some(link(nth)));
        }
    }
}
