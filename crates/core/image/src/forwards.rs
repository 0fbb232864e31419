//! Forward rules.
use crate::DepthMask;
use core::cmp::Ordering;
use wire::{Name, NameBuf, QName};

/// Names at and below a suffix belong to a group of upstream servers.
#[derive(Clone, Debug)]
pub struct ForwardRule {
    /// The suffix, in lower case.
    pub suffix: NameBuf,
    /// The number of the group, or [`ForwardRule::NO_GROUP`].
    pub group: u16,
}

impl ForwardRule {
    /// Excludes a suffix from forwarding, also from rules above it.
    pub const NO_GROUP: u16 = u16::MAX;
}

/// All forward rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forwards<'f> {
    rules: &'f [ForwardRule],
    depths: DepthMask,
}

impl<'f> Forwards<'f> {
    /// Rules for different suffixes, in canonical order (RFC 4034 §6.1); see [`Forwards::sort`].
    pub fn new(rules: &'f [ForwardRule]) -> Self {
        let mut depths = DepthMask::default();
        rules.iter().for_each(|rule| depths.insert(rule.suffix.as_name().labels().count()));
        Self { rules, depths }
    }

    /// Sorts rules for [`Forwards::new`].
    pub fn sort(rules: &mut [ForwardRule]) {
        rules.sort_unstable_by(|a, b| a.suffix.as_name().canonical_cmp(b.suffix.as_name()));
    }

    /// Whether there are no rules.
    pub const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether some names below this one are forwarded.
    pub fn has_below(&self, name: Name<'_>) -> bool {
        let at = self
            .rules
            .partition_point(|rule| rule.suffix.as_name().canonical_cmp(name) != Ordering::Greater);
        self.rules.get(at).is_some_and(|rule| rule.suffix.as_name().is_within(name))
    }

    /// The rule with the longest suffix of a name, if the suffix has at least `labels_min` labels.
    /// With `above`, a rule for the name itself does not count.
    #[inline]
    pub fn find(&self, name: &QName, labels_min: usize, above: bool) -> Option<&'f ForwardRule> {
        let labels_max = name.labels() - usize::from(above && name.labels() > 0);
        let mut best = None;
        for depth in self.depths.up_to(labels_max).filter(|depth| *depth >= labels_min) {
            let suffix = name.from(name.start_of_last(depth));
            let found = self.rules.binary_search_by(|rule| {
                wire::canonical_cmp(rule.suffix.as_name().as_bytes(), suffix)
            });
            best = found.ok().and_then(|at| self.rules.get(at)).or(best);
        }
        best
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn name(text: &str) -> NameBuf {
        NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap()
    }

    fn rules(suffixes: &[&str]) -> Vec<ForwardRule> {
        let rule =
            |(at, text): (usize, &&str)| ForwardRule { suffix: name(text), group: at as u16 };
        let mut rules: Vec<_> = suffixes.iter().enumerate().map(rule).collect();
        Forwards::sort(&mut rules);
        rules
    }

    fn find(forwards: &Forwards<'_>, text: &str, labels_min: usize) -> Option<u16> {
        let mut qname = QName::new();
        qname.set(name(text).as_name());
        forwards.find(&qname, labels_min, false).map(|rule| rule.group)
    }

    #[test]
    fn the_longest_suffix_wins_on_label_boundaries() {
        let rules = rules(&["corp.example.", "lab.corp.example.", "example.net."]);
        let forwards = Forwards::new(&rules);
        assert_eq!(find(&forwards, "www.Corp.example.", 0), Some(0));
        assert_eq!(find(&forwards, "corp.example.", 0), Some(0));
        assert_eq!(find(&forwards, "a.b.lab.corp.example.", 0), Some(1));
        assert_eq!(find(&forwards, "evilcorp.example.", 0), None);
        assert_eq!(find(&forwards, "example.", 0), None);
        assert_eq!(find(&forwards, ".", 0), None);
        assert_eq!(find(&forwards, "www.corp.example.", 3), None, "a zone's origin is longer");
        assert_eq!(find(&forwards, "www.lab.corp.example.", 3), Some(1));
    }

    #[test]
    fn the_root_is_everybodys_suffix() {
        let rules = rules(&[".", "example."]);
        let forwards = Forwards::new(&rules);
        assert_eq!(find(&forwards, ".", 0), Some(0));
        assert_eq!(find(&forwards, "www.example.net.", 0), Some(0));
        assert_eq!(find(&forwards, "www.example.", 0), Some(1));
    }

    #[test]
    fn names_below_a_name_are_found() {
        let rules = rules(&["b.example.", "z.a.example.", "net."]);
        let forwards = Forwards::new(&rules);
        for (text, below) in
            [("example.", true), ("a.example.", true), (".", true), ("b.example.", false)]
        {
            assert_eq!(forwards.has_below(name(text).as_name()), below, "{text}");
        }
        assert!(!forwards.has_below(name("c.example.").as_name()));
        assert!(!Forwards::default().has_below(Name::ROOT));
    }
}
