//! Stands for `probe` in a build without the feature `probes`: no check can be used.
use crate::check::Check;
use crate::outcome::{Failure, FindUser, Passed};
use http::Uri;
use std::net::IpAddr;

const ABSENT: &str = "this build of dunlin leaves out the feature `health`";

/// Makes no probe.
#[derive(Clone)]
pub struct Probes;

impl Probes {
    /// Without a check there is nothing to prepare.
    ///
    /// # Errors
    /// There is a check.
    pub fn new<'c>(
        checks: impl IntoIterator<Item = &'c Check>,
        _: FindUser,
    ) -> Result<Self, String> {
        match checks.into_iter().next() {
            Some(check) => Err(format!("[check.{}] {ABSENT}", check.name)),
            None => Ok(Self),
        }
    }

    /// # Errors
    /// Always: no check can be used.
    pub fn insert(&mut self, _: &Check) -> Result<(), String> {
        Err(ABSENT.into())
    }

    /// There is none to forget.
    pub fn remove(&mut self, _: &str) {}

    /// # Errors
    /// Always: the probe is not made.
    pub async fn probe(&self, _: &Check, _: IpAddr) -> Result<Passed, Failure> {
        Err(Failure::NotMade(ABSENT.into()))
    }
}

/// # Errors
/// Always: nothing is sent.
pub async fn post(_: &Uri, _: &str, _: Vec<u8>) -> Result<(), String> {
    Err(ABSENT.into())
}
