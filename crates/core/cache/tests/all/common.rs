//! A cache and the memory it is a view of.
use cache::{Bucket, Cache, CacheShape, CacheState};

pub struct Owned {
    pub state: CacheState,
    pub lines: Vec<Bucket>,
    pub ghosts: Vec<u32>,
    pub bytes: Vec<u8>,
}

impl Owned {
    pub fn new(memory: usize) -> Self {
        let shape = CacheShape::of(memory);
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
