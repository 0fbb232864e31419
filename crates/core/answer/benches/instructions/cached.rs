//! What is known of forwarded names.
use answer::{CacheLookup, Resolver};
use cache::{Bucket, Cache, CacheHit, CacheKey, CacheShape, CacheState};
use packet::Packet;

/// What is known of others, in a cache.
#[derive(Default)]
pub struct ForwardedAnswer(pub Option<Memory>);

pub struct Memory {
    state: CacheState,
    lines: Vec<Bucket>,
    ghosts: Vec<u32>,
    bytes: Vec<u8>,
}

impl Memory {
    pub fn new() -> Self {
        let shape = CacheShape::of(64 << 20);
        Self {
            state: CacheState::new(&shape),
            lines: vec![Bucket::EMPTY; shape.lines],
            ghosts: vec![0; shape.ghosts],
            bytes: vec![0; shape.bytes],
        }
    }

    pub fn lend(&mut self) -> Cache<'_> {
        let Self { state, lines, ghosts, bytes } = self;
        Cache { state, lines, ghosts, bytes }
    }
}

impl Resolver for ForwardedAnswer {
    fn prefetch(&self, key: &CacheKey<'_>) {
        let lines = self.0.as_ref().map_or(&[][..], |memory| &memory.lines);
        packet::prefetch(cache::memory(lines, key));
    }

    fn find(&mut self, key: &CacheKey<'_>) -> Option<CacheHit<'_>> {
        self.0.as_mut()?.lend().into_found(key, 3)
    }

    fn count(&mut self, _lookup: CacheLookup) {}

    fn request(&mut self, _key: &CacheKey<'_>, _group: u16, _packet: &Packet<'_>) -> bool {
        false
    }

    fn renew(&mut self, _key: &CacheKey<'_>, _group: u16) {}

    fn confirm(&mut self, key: &CacheKey<'_>, map: u32) {
        if let Some(memory) = &mut self.0 {
            memory.lend().confirm(key, map);
        }
    }
}
