//! Canonical order: a persistent, counted tree of references to names.
//!
//! It does not know the names; callers pass comparisons.
use crate::limits::{PAGE_CHILDREN_MAX, PAGE_REFS_MAX};
use std::sync::Arc;

/// A reference to a name: see `names`.
pub type NameRef = u64;

#[derive(Clone)]
enum Page {
    Inner(Vec<PageChild>),
    Refs(Vec<NameRef>),
}

#[derive(Clone)]
struct PageChild {
    first: NameRef,
    count: usize,
    page: Arc<Page>,
}

impl PageChild {
    fn of(page: Page) -> Self {
        let (first, count) = match &page {
            Page::Refs(refs) => (refs[0], refs.len()),
            Page::Inner(children) => (children[0].first, children.iter().map(|c| c.count).sum()),
        };
        Self { first, count, page: Arc::new(page) }
    }

    /// Inserts; returns pages split off.
    fn insert(&mut self, rank: usize, items: &[NameRef]) -> Vec<PageChild> {
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

    /// Removes; drop the child when its count is 0.
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
    fn first(&self) -> NameRef {
        match self {
            Self::Refs(refs) => refs[0],
            Self::Inner(children) => children[0].first,
        }
    }
}

/// Splits a page that is too large; returns the new pages. All pages get about the same size.
fn split_off<T>(items: &mut Vec<T>, max: usize, page: fn(Vec<T>) -> Page) -> Vec<PageChild> {
    let mut split = Vec::new();
    for pages in (2..=items.len().div_ceil(max)).rev() {
        let len = items.len() / pages;
        split.push(PageChild::of(page(items.split_off(items.len() - len))));
    }
    split.reverse();
    split
}

/// The child for an insert at this rank, and the number of items before it.
fn child_at(children: &[PageChild], rank: usize) -> (usize, usize) {
    let mut before = 0;
    for (at, child) in children.iter().enumerate() {
        if rank <= before + child.count {
            return (at, before);
        }
        before += child.count;
    }
    unreachable!("a rank is at most the number of items")
}

#[derive(Clone, Default)]
pub struct CanonicalOrder {
    root: Option<PageChild>,
}

impl CanonicalOrder {
    /// Creates the order from sorted references.
    pub fn from_sorted(refs: impl Iterator<Item = NameRef>) -> Self {
        let mut level = Vec::new();
        let mut refs = refs.peekable();
        while refs.peek().is_some() {
            let page: Vec<NameRef> = refs.by_ref().take(PAGE_REFS_MAX).collect();
            level.push(PageChild::of(Page::Refs(page)));
        }
        while level.len() > 1 {
            let mut children = level.into_iter().peekable();
            level = Vec::new();
            while children.peek().is_some() {
                let page: Vec<PageChild> = children.by_ref().take(PAGE_CHILDREN_MAX).collect();
                level.push(PageChild::of(Page::Inner(page)));
            }
        }
        Self { root: level.pop() }
    }

    pub fn len(&self) -> usize {
        self.root.as_ref().map_or(0, |root| root.count)
    }

    /// The reference at a rank.
    pub fn at(&self, mut rank: usize) -> Option<NameRef> {
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

    /// The number of leading references for which `before` is true. `before` must be monotonic.
    pub fn partition(&self, before: impl Fn(NameRef) -> bool) -> usize {
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

    /// Inserts references, the first at this rank.
    pub fn insert(&mut self, rank: usize, items: &[NameRef]) {
        let Some(root) = &mut self.root else {
            *self = Self::from_sorted(items.iter().copied());
            return;
        };
        let mut right = root.insert(rank, items);
        while !right.is_empty() {
            let mut children = vec![root.clone()];
            children.append(&mut right);
            right = split_off(&mut children, PAGE_CHILDREN_MAX, Page::Inner);
            *root = PageChild::of(Page::Inner(children));
        }
    }

    /// Removes the reference at a rank.
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

    #[test]
    fn order_equals_a_sorted_list() {
        let (mut order, mut list) = (CanonicalOrder::default(), Vec::<NameRef>::new());
        let mut rng = fastrand::Rng::with_seed(1);
        for round in 0..40_000 {
            let grow = round < 20_000;
            if list.is_empty() || rng.usize(..10) < if grow { 7 } else { 2 } {
                let item = rng.usize(..1 << 30) as NameRef;
                let rank = order.partition(|other| other < item);
                assert_eq!(rank, list.partition_point(|other| *other < item));
                // Mostly one; sometimes many, as a bulk import inserts them.
                let run = vec![item; if rng.usize(..300) == 0 { rng.usize(..3000) } else { 1 }];
                order.insert(rank, &run);
                list.splice(rank..rank, run);
            } else {
                let rank = rng.usize(..list.len());
                assert_eq!(order.at(rank), Some(list[rank]));
                order.remove(rank);
                list.remove(rank);
            }
            assert_eq!(order.len(), list.len());
        }
        assert!((0..list.len()).all(|rank| order.at(rank) == Some(list[rank])));
        let rebuilt = CanonicalOrder::from_sorted(list.iter().copied());
        assert!((0..=list.len()).all(|rank| rebuilt.at(rank) == list.get(rank).copied()));
    }
}
