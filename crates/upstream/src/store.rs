//! A thread's share of the cache, and the memory it is a view of.
use crate::limits::{FAILURE_TTL_MAX, STALE_RETRY};
use crate::neighbours::Life;
use answer::{Relayed, failure};
use cache::{Cache, Key, Line, Shape, State};

#[derive(Debug)]
pub(crate) struct Store {
    state: State,
    lines: Box<[Line]>,
    ghosts: Box<[u32]>,
    octets: Box<[u8]>,
    /// Seconds that a failure is remembered at first.
    failure_ttl: u32,
}

impl Store {
    /// Of so many octets. Those that are never used are never there: the system gives memory when
    /// it is written to. A failure is remembered for so many seconds at first.
    pub(crate) fn new(len: usize, failure_ttl: u32) -> Self {
        let shape = Shape::of(len);
        Self {
            state: State::new(&shape),
            lines: vec![Line::EMPTY; shape.lines].into(),
            ghosts: vec![0; shape.ghosts].into(),
            octets: vec![0; shape.octets].into(),
            failure_ttl,
        }
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Keeps an answer: that there is no such name, whatever type is asked for (RFC 2308 §5).
    pub(crate) fn keep(&mut self, key: &Key<'_>, now: u32, taken: &Relayed, message: &[u8]) {
        let value = &message[taken.value_at..taken.len];
        let mut cache = self.lend();
        // What is too large to be kept is told to who waits, and asked again.
        let _ = cache.put(key, now, taken.ttl, value);
        if taken.is_name_error && key.kind.is_as_others() {
            let _ = cache.put(&key.for_all_types(), now, taken.ttl, value);
        }
    }

    /// Remembers that nobody could answer: that what is known cannot be renewed for now, or, where
    /// nothing is and failures are `kept`, the failure itself, the longer the oftener it happens.
    ///
    /// `life` tells where somebody else found out how long he remembers it.
    pub(crate) fn fail(&mut self, key: &Key<'_>, now: u32, life: Option<Life>, kept: bool) {
        let first = Life { made: now, ttl: self.failure_ttl };
        let Life { made, mut ttl } = life.unwrap_or(first);
        let mut cache = self.lend();
        if let Some(found) = cache.find(key, now) {
            if !answer::is_failure(found.message, key.name.len()) {
                cache.hold(key, now + STALE_RETRY);
                return;
            }
            // What failed long ago and was not asked for since begins anew.
            if life.is_none() && found.age < found.ttl + FAILURE_TTL_MAX {
                ttl = (2 * found.ttl).min(FAILURE_TTL_MAX);
            }
        }
        if kept {
            let mut octets = [0; answer::FAILURE_LEN_MAX];
            let taken = failure(key, &mut octets);
            // It is far from too large.
            let _ = cache.put(key, made, ttl, &octets[taken.value_at..taken.len]);
            // Until then nothing is asked, not even ahead (RFC 9520 §3.2).
            cache.hold(key, made + ttl);
        }
    }

    /// Somebody answered, and what was said is not to be kept: what is known goes on to its end,
    /// and not beyond.
    pub(crate) fn let_end(&mut self, key: &Key<'_>, now: u32) {
        let mut cache = self.lend();
        if let Some(found) = cache.find(key, now) {
            let end = (now - found.age).saturating_add(found.ttl);
            cache.hold(key, end);
        }
    }

    /// Whether an answer is known, however old.
    pub(crate) fn has_answer(&mut self, key: &Key<'_>, now: u32) -> bool {
        let found = self.lend().into_found(key, now);
        found.is_some_and(|found| !answer::is_failure(found.message, key.name.len()))
    }

    pub(crate) fn lend(&mut self) -> Cache<'_> {
        let Self { state, lines, ghosts, octets, .. } = self;
        Cache { state, lines, ghosts, octets }
    }
}
