//! Canonical order: a persistent, counted tree of references to names.
//!
//! It knows no names; whoever searches brings the comparison along.
use crate::limits::{PAGE_CHILDREN_MAX, PAGE_REFS_MAX};
use std::sync::Arc;

/// What a name is called here: see `names`.
pub type Ref = u64;

#[derive(Clone)]
enum Page {
    Inner(Vec<Child>),
    Refs(Vec<Ref>),
}

#[derive(Clone)]
struct Child {
    first: Ref,
    count: usize,
    page: Arc<Page>,
}

impl Child {
    fn of(page: Page) -> Self {
        let (first, count) = match &page {
            Page::Refs(refs) => (refs[0], refs.len()),
            Page::Inner(children) => (children[0].first, children.iter().map(|c| c.count).sum()),
        };
        Self { first, count, page: Arc::new(page) }
    }

    /// Inserts; returns what the page had to be split into besides itself.
    fn insert(&mut self, rank: usize, items: &[Ref]) -> Vec<Child> {
        let split = match Arc::make_mut(&mut self.page) {
            Page::Refs(refs) => {
                refs.splice(rank..rank, items.iter().copied());
                split_off(refs, PAGE_REFS_MAX, Page::Refs)
            }
            Page::Inner(children) => {
                let (at, before) = child_at(children, rank);
                let right = children[at].insert(rank - before, items);
                children.splice(at + 1..at + 1, right);
                split_off(children, PAGE_CHILDREN_MAX, Page::Inner)
            }
        };
        self.count = self.count + items.len() - split.iter().map(|page| page.count).sum::<usize>();
        self.first = self.page.first();
        split
    }

    /// Removes; the child must not be used any more when its count falls to 0.
    fn remove(&mut self, rank: usize) {
        self.count -= 1;
        if self.count == 0 {
            return;
        }
        match Arc::make_mut(&mut self.page) {
            Page::Refs(refs) => {
                refs.remove(rank);
            }
            Page::Inner(children) => {
                let (mut at, mut before) = child_at(children, rank);
                if rank == before + children[at].count {
                    before += children[at].count;
                    at += 1;
                }
                children[at].remove(rank - before);
                if children[at].count == 0 {
                    children.remove(at);
                }
            }
        }
        self.first = self.page.first();
    }
}

impl Page {
    fn first(&self) -> Ref {
        match self {
            Self::Refs(refs) => refs[0],
            Self::Inner(children) => children[0].first,
        }
    }
}

/// Leaves so many items that none of the pages is too large, and returns the others: each page has
/// about as many.
fn split_off<T>(items: &mut Vec<T>, max: usize, page: fn(Vec<T>) -> Page) -> Vec<Child> {
    let mut split = Vec::new();
    for pages in (2..=items.len().div_ceil(max)).rev() {
        let len = items.len() / pages;
        split.push(Child::of(page(items.split_off(items.len() - len))));
    }
    split.reverse();
    split
}

/// The child where an item of this rank is to be inserted, and how many items lie before it.
fn child_at(children: &[Child], rank: usize) -> (usize, usize) {
    let mut before = 0;
    for (at, child) in children.iter().enumerate() {
        if rank <= before + child.count {
            return (at, before);
        }
        before += child.count;
    }
    unreachable!("a rank is at most the number of items")
}

/// References in canonical order.
#[derive(Clone, Default)]
pub struct Order {
    root: Option<Child>,
}

impl Order {
    /// Takes references that are in order.
    pub fn from_sorted(refs: impl Iterator<Item = Ref>) -> Self {
        let mut level = Vec::new();
        let mut refs = refs.peekable();
        while refs.peek().is_some() {
            let page: Vec<Ref> = refs.by_ref().take(PAGE_REFS_MAX).collect();
            level.push(Child::of(Page::Refs(page)));
        }
        while level.len() > 1 {
            let mut children = level.into_iter().peekable();
            level = Vec::new();
            while children.peek().is_some() {
                let page: Vec<Child> = children.by_ref().take(PAGE_CHILDREN_MAX).collect();
                level.push(Child::of(Page::Inner(page)));
            }
        }
        Self { root: level.pop() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.root.as_ref().map_or(0, |root| root.count)
    }

    /// The reference at a rank.
    pub fn at(&self, mut rank: usize) -> Option<Ref> {
        let mut child = self.root.as_ref().filter(|root| rank < root.count)?;
        loop {
            match &*child.page {
                Page::Refs(refs) => return refs.get(rank).copied(),
                Page::Inner(children) => {
                    child = children.iter().find(|child| {
                        let here = rank < child.count;
                        if !here {
                            rank -= child.count;
                        }
                        here
                    })?;
                }
            }
        }
    }

    /// How many references come first for which `before` is true; it must be true for a first
    /// part and false for the rest.
    pub fn partition(&self, before: impl Fn(Ref) -> bool) -> usize {
        let Some(mut child) = self.root.as_ref() else { return 0 };
        let mut rank = 0;
        loop {
            match &*child.page {
                Page::Refs(refs) => return rank + refs.partition_point(|item| before(*item)),
                Page::Inner(children) => {
                    let after = children.partition_point(|child| before(child.first));
                    let at = after.saturating_sub(1);
                    rank += children[..at].iter().map(|child| child.count).sum::<usize>();
                    child = &children[at];
                }
            }
        }
    }

    /// Inserts references so that the first of them gets this rank.
    pub fn insert(&mut self, rank: usize, items: &[Ref]) {
        let Some(root) = &mut self.root else {
            *self = Self::from_sorted(items.iter().copied());
            return;
        };
        let mut right = root.insert(rank, items);
        while !right.is_empty() {
            let mut children = vec![root.clone()];
            children.append(&mut right);
            right = split_off(&mut children, PAGE_CHILDREN_MAX, Page::Inner);
            *root = Child::of(Page::Inner(children));
        }
    }

    /// Takes the reference at a rank away.
    pub fn remove(&mut self, rank: usize) {
        let Some(root) = &mut self.root else { return };
        root.remove(rank);
        if root.count == 0 {
            self.root = None;
            return;
        }
        while let Page::Inner(children) = &*root.page
            && let [only] = &children[..]
        {
            let only = only.clone();
            *root = only;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a plain vector, with pseudo-random inserts and removals.
    #[test]
    fn it_is_a_sorted_list() {
        let (mut order, mut list) = (Order::default(), Vec::<Ref>::new());
        let mut state = 1u64;
        let mut dice = move |sides: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % sides
        };
        for round in 0..40_000 {
            let grow = round < 20_000;
            if list.is_empty() || dice(10) < if grow { 7 } else { 2 } {
                let item = dice(1 << 30) as Ref;
                let rank = order.partition(|other| other < item);
                assert_eq!(rank, list.partition_point(|other| *other < item));
                // Mostly one, now and then a run as a bulk import brings it.
                let run = vec![item; if dice(300) == 0 { dice(3000) } else { 1 }];
                order.insert(rank, &run);
                list.splice(rank..rank, run);
            } else {
                let rank = dice(list.len());
                assert_eq!(order.at(rank), Some(list[rank]));
                order.remove(rank);
                list.remove(rank);
            }
            assert_eq!(order.len(), list.len());
        }
        assert!((0..list.len()).all(|rank| order.at(rank) == Some(list[rank])));
        let rebuilt = Order::from_sorted(list.iter().copied());
        assert!((0..=list.len()).all(|rank| rebuilt.at(rank) == list.get(rank).copied()));
    }
}
