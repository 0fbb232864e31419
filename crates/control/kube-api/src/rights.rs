//! A missing right switches off one feature, and is reported once.
use crate::ApiError;
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// A feature of a program that needs rights of its own.
pub trait Feature: Copy + Eq {
    /// What does not work without it, and the right that it needs.
    fn loss(self) -> &'static str;
}

/// Time after which a feature that was switched off is tried again.
const AGAIN: Duration = Duration::from_secs(600);

/// Which features are off, and since when.
pub struct Rights<F> {
    off: RefCell<Vec<(F, Instant, bool)>>,
}

impl<F> Default for Rights<F> {
    fn default() -> Self {
        Self { off: RefCell::default() }
    }
}

impl<F: Feature> Rights<F> {
    /// Whether a feature may be tried now.
    pub fn allow(&self, feature: F) -> bool {
        let off = self.off.borrow();
        off.iter().all(|(other, since, _)| *other != feature || since.elapsed() >= AGAIN)
    }

    /// Whether a feature is off.
    pub fn is_off(&self, feature: F) -> bool {
        self.off.borrow().iter().any(|(other, _, is_off)| *other == feature && *is_off)
    }

    /// Takes the result of a request of a feature: `None` where the right is missing, with a
    /// message the first time.
    ///
    /// # Errors
    /// The request failed for another reason.
    pub fn judge<T>(
        &self,
        feature: F,
        result: Result<T, ApiError>,
        tell: impl FnOnce(&str),
    ) -> Result<Option<T>, ApiError> {
        let mut off = self.off.borrow_mut();
        let known = off.iter_mut().find(|(other, _, _)| *other == feature);
        match result {
            Err(ApiError::Forbidden(why)) => {
                match known {
                    Some((_, since, is_off)) => (*since, *is_off) = (Instant::now(), true),
                    None => {
                        off.push((feature, Instant::now(), true));
                        tell(&format!("{}: {why}", feature.loss()));
                    }
                }
                Ok(None)
            }
            Err(other) => Err(other),
            Ok(value) => {
                if let Some((_, _, is_off)) = known {
                    *is_off = false;
                }
                Ok(Some(value))
            }
        }
    }
}
