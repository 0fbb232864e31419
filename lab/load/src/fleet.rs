//! Queries as containers send them: each name is tried through a search list, with a pair of
//! queries (A and AAAA) on one socket. The next name of the list follows a denial.
//!
//! This is what glibc does (resolv.conf(5)). A name with fewer dots than `ndots` is first tried
//! with each domain of the list, then as it is; a name with more dots is first tried as it is. A
//! name with a final dot is only tried as it is. A reply without an address leads to the next name;
//! a timeout ends the lookup.

use crate::limits::{LOOKUPS_MAX, SEARCH_MAX};
use crate::names::{QuestionSet, each_line, fill};
use crate::query::QueryFormat;
use crate::random::Random;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use wire::{Name, NameBuf, Rtype};

/// The resolver's configuration, which every lookup follows.
#[derive(Clone, Debug)]
pub struct Resolver {
    /// Domains, absolute, in order.
    pub search: Vec<NameBuf>,
    /// Dots a name has to have to be tried as it is first.
    pub ndots: usize,
}

/// Names that applications look up, and the queries of each lookup.
#[derive(Debug)]
pub struct Lookups {
    pub(crate) set: QuestionSet,
    /// Of each name its first query, and how many names are tried: two queries each.
    steps: Vec<(u32, u8)>,
}

impl Lookups {
    /// Of these names, as applications write them.
    ///
    /// # Errors
    /// One that is not a name, or a search list that is too long.
    pub fn new<'a>(
        names: impl Iterator<Item = &'a str>,
        resolver: &Resolver,
        form: QueryFormat,
    ) -> Result<Self, String> {
        let mut lookups = Self::none(resolver, form)?;
        names.into_iter().try_for_each(|name| lookups.push(name, resolver))?;
        lookups.some()
    }

    /// Of a data file: the first word of each line; a type behind it is read over, since a lookup
    /// asks for both kinds of addresses.
    ///
    /// # Errors
    /// As [`Lookups::new`], after file and line.
    pub fn read(path: &Path, resolver: &Resolver, form: QueryFormat) -> Result<Self, String> {
        let mut lookups = Self::none(resolver, form)?;
        each_line(path, |line| {
            lookups.push(line.split_whitespace().next().unwrap_or_default(), resolver)
        })?;
        lookups.some().map_err(|why| format!("{}: {why}", path.display()))
    }

    /// The names that a pattern gives, as [`QuestionSet::from_pattern`].
    ///
    /// # Errors
    /// As [`Lookups::new`]; or the pattern is none.
    pub fn from_pattern(
        pattern: &str,
        count: usize,
        resolver: &Resolver,
        form: QueryFormat,
    ) -> Result<Self, String> {
        let mut lookups = Self::none(resolver, form)?;
        (0..count as u64).try_for_each(|n| lookups.push(&fill(pattern, n)?, resolver))?;
        lookups.some()
    }

    fn none(resolver: &Resolver, form: QueryFormat) -> Result<Self, String> {
        match resolver.search.len() {
            ..=SEARCH_MAX => Ok(Self { set: QuestionSet::new(form), steps: Vec::new() }),
            many => Err(format!("{many} domains to search in are more than {SEARCH_MAX}")),
        }
    }

    fn some(self) -> Result<Self, String> {
        if self.steps.is_empty() { Err("there is no name to look up".into()) } else { Ok(self) }
    }

    fn push(&mut self, text: &str, resolver: &Resolver) -> Result<(), String> {
        let first = self.set.len() as u32;
        let mut steps = 0u8;
        for name in candidates(text, resolver)? {
            self.set.push(name.as_name(), Rtype::A)?;
            self.set.push(name.as_name(), Rtype::AAAA)?;
            steps += 1;
        }
        self.steps.push((first, steps));
        Ok(())
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// The names that are tried, in order; those that would be too long are left out.
fn candidates(text: &str, resolver: &Resolver) -> Result<Vec<NameBuf>, String> {
    let read = |origin: Name<'_>| NameBuf::from_text(text.as_bytes(), origin);
    let plain = read(Name::ROOT).map_err(|why| format!("`{text}` is not a name: {why}"))?;
    if text.ends_with('.') {
        return Ok(vec![plain]);
    }
    let dots = plain.as_name().labels().count().saturating_sub(1);
    let searched = resolver.search.iter().filter_map(|domain| read(domain.as_name()).ok());
    Ok(match dots >= resolver.ndots {
        true => std::iter::once(plain.clone()).chain(searched).collect(),
        false => searched.chain([plain.clone()]).collect(),
    })
}

/// A query that a lookup leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LookupStep {
    /// Where it is in the set.
    pub index: usize,
    pub due: u64,
    pub lookup: u32,
    pub channel: u32,
}

/// How one query of a lookup ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookupEnd {
    /// With an address.
    Address,
    /// With another answer.
    Nothing,
    /// Without an answer.
    Silence,
}

/// How a lookup ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LookupResult {
    pub found: bool,
    /// When it was due.
    pub due: u64,
}

#[derive(Clone, Copy, Debug)]
struct Lookup {
    due: u64,
    next: u32,
    left: u8,
    waits_for: u8,
    found: bool,
    silent: bool,
    channel: u32,
}

/// One thread's lookups.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub names: Arc<Lookups>,
    lookups: Vec<Lookup>,
    free: Vec<u32>,
    /// Queries that are due because of an answer, or are the second of a pair; in order.
    pub ready: VecDeque<LookupStep>,
}

impl Fleet {
    pub fn new(names: Arc<Lookups>) -> Self {
        let free = (0..LOOKUPS_MAX as u32).rev().collect();
        let none = Lookup {
            due: 0,
            next: 0,
            left: 0,
            waits_for: 0,
            found: false,
            silent: false,
            channel: 0,
        };
        let ready = VecDeque::with_capacity(2 * LOOKUPS_MAX);
        Self { names, lookups: vec![none; LOOKUPS_MAX], free, ready }
    }

    /// Begins to look a name up on a channel; its two first queries are ready then. False: too many
    /// are under way.
    pub fn begin(&mut self, name: usize, due: u64, channel: u32) -> bool {
        let Some(lookup) = self.free.pop() else { return false };
        let (next, left) = self.names.steps[name];
        self.lookups[lookup as usize] =
            Lookup { due, next, left, waits_for: 0, found: false, silent: false, channel };
        self.step(lookup, due);
        true
    }

    /// A name among them, by chance.
    pub fn pick(&self, random: &mut Random) -> usize {
        random.below(self.names.len() as u64) as usize
    }

    /// How many lookups are under way.
    pub fn len(&self) -> usize {
        LOOKUPS_MAX - self.free.len()
    }

    fn step(&mut self, lookup: u32, due: u64) {
        let state = &mut self.lookups[lookup as usize];
        let (index, channel) = (state.next as usize, state.channel);
        state.next += 2;
        state.left -= 1;
        state.waits_for = 2;
        let step = LookupStep { index, due, lookup, channel };
        self.ready.extend([step, LookupStep { index: index + 1, ..step }]);
    }

    /// A query of a lookup has ended at `now`. Something: so has the lookup.
    pub fn ended(&mut self, lookup: u32, end: LookupEnd, now: u64) -> Option<LookupResult> {
        let state = &mut self.lookups[lookup as usize];
        state.waits_for -= 1;
        state.found |= end == LookupEnd::Address;
        state.silent |= end == LookupEnd::Silence;
        if state.waits_for > 0 {
            return None;
        }
        if !state.found && !state.silent && state.left > 0 {
            self.step(lookup, now);
            return None;
        }
        let done = LookupResult { found: state.found, due: state.due };
        self.free.push(lookup);
        Some(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: QueryFormat =
        QueryFormat { recursion: true, edns: false, dnssec: false, option: None };

    fn resolver() -> Resolver {
        let name = |text: &str| NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap();
        let search = ["dev.svc.cluster.local", "svc.cluster.local", "cluster.local"].map(name);
        Resolver { search: search.into(), ndots: 5 }
    }

    fn tried(text: &str) -> Vec<String> {
        let names = candidates(text, &resolver()).unwrap();
        names.iter().map(|name| name.as_name().to_string()).collect()
    }

    #[test]
    fn names_go_through_the_search_list() {
        assert_eq!(
            tried("www.example.org"),
            [
                "www.example.org.dev.svc.cluster.local.",
                "www.example.org.svc.cluster.local.",
                "www.example.org.cluster.local.",
                "www.example.org.",
            ]
        );
        assert_eq!(
            tried("a.b.c.d.e.f")[..2],
            ["a.b.c.d.e.f.", "a.b.c.d.e.f.dev.svc.cluster.local."]
        );
        assert_eq!(tried("www.example.org."), ["www.example.org."]);
        assert_eq!(tried("api")[0], "api.dev.svc.cluster.local.");
        assert!(candidates("a..b", &resolver()).is_err());
        let long = [[b'a'; 60]; 4].map(|label| String::from_utf8(label.into()).unwrap()).join(".");
        assert_eq!(tried(&long), [format!("{long}.")], "there is no room for a domain");
    }

    fn fleet(name: &str) -> Fleet {
        let names = Lookups::new([name].into_iter(), &resolver(), FORM).unwrap();
        Fleet::new(Arc::new(names))
    }

    /// Takes the pair that is ready.
    fn pair(fleet: &mut Fleet) -> [LookupStep; 2] {
        let pair = [fleet.ready.pop_front().unwrap(), fleet.ready.pop_front().unwrap()];
        assert!(fleet.ready.is_empty());
        pair
    }

    #[test]
    fn the_next_name_waits_for_both_answers() {
        let mut fleet = fleet("www.example.org");
        assert!(fleet.begin(0, 100, 3));
        for step in 0..4 {
            let [a, aaaa] = pair(&mut fleet);
            assert_eq!(
                (a.index, aaaa.index, a.channel, aaaa.channel),
                (2 * step, 2 * step + 1, 3, 3)
            );
            assert_eq!(a.due, if step == 0 { 100 } else { 200 + step as u64 });
            assert_eq!(fleet.ended(aaaa.lookup, LookupEnd::Nothing, 150), None);
            assert!(fleet.ready.is_empty(), "the other is still under way");
            let last = if step == 3 { LookupEnd::Address } else { LookupEnd::Nothing };
            let done = fleet.ended(a.lookup, last, 201 + step as u64);
            assert_eq!(done, (step == 3).then_some(LookupResult { found: true, due: 100 }));
        }
        assert_eq!(fleet.len(), 0);
    }

    #[test]
    fn an_address_or_silence_ends_it() {
        for (ends, found) in [
            ([LookupEnd::Address, LookupEnd::Nothing], true),
            ([LookupEnd::Silence, LookupEnd::Address], true),
            ([LookupEnd::Nothing, LookupEnd::Silence], false),
        ] {
            let mut fleet = fleet("api.other");
            fleet.begin(0, 0, 0);
            let [a, _] = pair(&mut fleet);
            assert_eq!(fleet.ended(a.lookup, ends[0], 1), None);
            assert_eq!(fleet.ended(a.lookup, ends[1], 2), Some(LookupResult { found, due: 0 }));
        }
    }

    #[test]
    fn the_list_has_an_end() {
        let mut fleet = fleet("gone.");
        fleet.begin(0, 0, 0);
        let [a, _] = pair(&mut fleet);
        fleet.ended(a.lookup, LookupEnd::Nothing, 1);
        let done = fleet.ended(a.lookup, LookupEnd::Nothing, 2);
        assert_eq!(done, Some(LookupResult { found: false, due: 0 }));
    }

    #[test]
    fn too_many_lookups_are_refused() {
        let mut fleet = fleet("api");
        (0..LOOKUPS_MAX).for_each(|_| assert!(fleet.begin(0, 0, 0)));
        assert!(!fleet.begin(0, 0, 0));
        assert_eq!(fleet.len(), LOOKUPS_MAX);
        let many = Resolver { search: vec![NameBuf::root(); SEARCH_MAX + 1], ndots: 1 };
        assert!(Lookups::new(["a"].into_iter(), &many, FORM).is_err());
    }
}
