//! A thread's share of the cache, and the memory it is a view of.
use cache::{Cache, Line, Shape, State};

#[derive(Debug)]
pub(crate) struct Store {
    state: State,
    lines: Box<[Line]>,
    ghosts: Box<[u32]>,
    octets: Box<[u8]>,
}

impl Store {
    /// Of so many octets. Those that are never used are never there: the system gives memory when
    /// it is written to.
    pub(crate) fn new(len: usize) -> Self {
        let shape = Shape::of(len);
        Self {
            state: State::new(&shape),
            lines: vec![Line::EMPTY; shape.lines].into(),
            ghosts: vec![0; shape.ghosts].into(),
            octets: vec![0; shape.octets].into(),
        }
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    pub(crate) fn lend(&mut self) -> Cache<'_> {
        let Self { state, lines, ghosts, octets } = self;
        Cache { state, lines, ghosts, octets }
    }
}
