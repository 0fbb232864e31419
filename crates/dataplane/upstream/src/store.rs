//! A thread's share of the cache, with its memory.
use crate::limits::{FAILURE_TTL_MAX, STALE_RETRY};
use crate::peer_shards::AnswerLifetime;
use answer::{ForwardedRecords, failure};
use cache::{Bucket, Cache, CacheHit, CacheKey, CacheShape, CacheState};

#[derive(Debug)]
pub(crate) struct CacheStore {
    state: CacheState,
    lines: Box<[Bucket]>,
    ghosts: Box<[u32]>,
    bytes: Box<[u8]>,
    /// First lifetime of a failure, in seconds.
    failure_ttl: u32,
}

impl CacheStore {
    /// A cache of `len` bytes. The system provides memory only when it is written to.
    pub(crate) fn new(len: usize, failure_ttl: u32) -> Self {
        let shape = CacheShape::of(len);
        Self {
            state: CacheState::new(&shape),
            lines: vec![Bucket::EMPTY; shape.lines].into(),
            ghosts: vec![0; shape.ghosts].into(),
            bytes: vec![0; shape.bytes].into(),
            failure_ttl,
        }
    }

    pub(crate) fn state(&self) -> &CacheState {
        &self.state
    }

    pub(crate) fn lines(&self) -> &[Bucket] {
        &self.lines
    }

    /// Caches an answer. NXDOMAIN is cached for all types (RFC 2308 §5).
    pub(crate) fn keep(
        &mut self,
        key: &CacheKey<'_>,
        now: u32,
        taken: &ForwardedRecords,
        message: &[u8],
    ) {
        let value = &message[taken.value_at..taken.len];
        let mut cache = self.lend();
        // An answer that is too large is sent to the waiting clients, but not cached.
        let _ = cache.put(key, now, taken.ttl, value);
        match key.kind.applies_to_other_types() {
            true if taken.is_name_error => {
                let _ = cache.put(&key.for_all_types(), now, taken.ttl, value);
            }
            // The name exists now.
            true => _ = cache.forget(&key.for_all_types(), now),
            false => {}
        }
    }

    /// Caches a failure: a cached answer is not renewed for a while. Without one, the failure
    /// itself is cached if `caches_failures`, twice as long each time.
    ///
    /// `life` is the lifetime that the owner shard has chosen.
    pub(crate) fn fail(
        &mut self,
        key: &CacheKey<'_>,
        now: u32,
        life: Option<AnswerLifetime>,
        caches_failures: bool,
    ) {
        let first = AnswerLifetime { made: now, ttl: self.failure_ttl };
        let AnswerLifetime { made, mut ttl } = life.unwrap_or(first);
        let mut cache = self.lend();
        if let Some(found) = cache.find(key, now) {
            if is_answer(&found, key) {
                cache.hold(key, now + STALE_RETRY);
                return;
            }
            // An old failure starts again with the first lifetime.
            let is_failure = answer::is_failure(found.message, key.name.len());
            if life.is_none() && is_failure && found.age < found.ttl + FAILURE_TTL_MAX {
                ttl = (2 * found.ttl).min(FAILURE_TTL_MAX);
            }
        }
        if caches_failures {
            let mut bytes = [0; answer::FAILURE_LEN_MAX];
            let taken = failure(key, &mut bytes);
            // It always fits.
            let _ = cache.put(key, made, ttl, &bytes[taken.value_at..taken.len]);
            // No renewal before that (RFC 9520 §3.2).
            cache.hold(key, made + ttl);
        }
    }

    /// Removes what an uncacheable answer of this time displaces: no older answer may be served
    /// after it, not even as a stale one. Returns whether there was one.
    pub(crate) fn displace(&mut self, key: &CacheKey<'_>, made: u32) -> bool {
        let mut cache = self.lend();
        let had_own = cache.forget(key, made);
        let all = key.kind.applies_to_other_types().then(|| key.for_all_types());
        all.is_some_and(|all| cache.forget(&all, made)) || had_own
    }

    /// Whether there is an answer, fresh or stale, that is not older than `made`.
    pub(crate) fn has_answer_since(&mut self, key: &CacheKey<'_>, made: u32, now: u32) -> bool {
        let found = self.lend().into_found(key, now);
        found.is_some_and(|found| is_answer(&found, key) && now - found.age >= made)
    }

    pub(crate) fn lend(&mut self) -> Cache<'_> {
        let Self { state, lines, ghosts, bytes, .. } = self;
        Cache { state, lines, ghosts, bytes }
    }
}

/// Whether an entry is an answer, and one that may be served stale if it is.
pub(crate) fn is_answer(found: &CacheHit<'_>, key: &CacheKey<'_>) -> bool {
    match found.is_fresh() {
        true => !answer::is_failure(found.message, key.name.len()),
        false => answer::may_be_stale(found.message, key.name.len()),
    }
}
