//! A maximum for each principal. Without it, one principal with unfinished requests would use up
//! the connections of all clients at its address.
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A maximum for each principal, and the current numbers.
pub struct Quota {
    most: usize,
    counts: Mutex<HashMap<String, usize>>,
}

/// One unit of a principal, released when dropped.
pub struct Permit {
    quota: Arc<Quota>,
    principal: String,
}

impl Quota {
    /// At most so many for each principal.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, counts: Mutex::default() })
    }

    /// Takes one unit for a principal. `None`: it has the maximum.
    pub fn take(self: &Arc<Self>, principal: &str) -> Option<Permit> {
        let mut counts = self.counts();
        let count = counts.entry(principal.to_owned()).or_default();
        (*count < self.most).then(|| {
            *count += 1;
            Permit { quota: Arc::clone(self), principal: principal.to_owned() }
        })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut counts = self.quota.counts();
        if let Some(count) = counts.get_mut(&self.principal) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.principal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_principal_has_its_own_maximum() {
        let quota = Quota::new(3);
        let mut taken: Vec<Permit> = std::iter::from_fn(|| quota.take("ci")).collect();
        assert_eq!(taken.len(), 3);
        assert!(quota.take("other").is_some());
        drop(taken.pop());
        assert!(quota.take("ci").is_some(), "one was given back");
        drop(taken);
        assert!(quota.counts().is_empty());
    }
}
