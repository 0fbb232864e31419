//! A cache and the memory it is a view of.
use cache::{Cache, Line, Shape, State};

pub struct Owned {
    pub state: State,
    pub lines: Vec<Line>,
    pub ghosts: Vec<u32>,
    pub octets: Vec<u8>,
}

impl Owned {
    pub fn new(memory: usize) -> Self {
        let shape = Shape::of(memory);
        Self {
            state: State::new(&shape),
            lines: vec![Line::EMPTY; shape.lines],
            ghosts: vec![0; shape.ghosts],
            octets: vec![0; shape.octets],
        }
    }

    pub fn lend(&mut self) -> Cache<'_> {
        let Self { state, lines, ghosts, octets } = self;
        Cache { state, lines, ghosts, octets }
    }
}
