//! Search goals.

use serde::{Deserialize, Serialize};

/// A search goal: conditions on trials, and the precision of the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// Its name in reports.
    pub name: String,
    /// Trials of this length or longer count fully, seconds.
    pub trial_s: f64,
    /// Trial time after which a load is classified, seconds.
    pub duration_sum_s: f64,
    /// The highest loss ratio of a good trial, 0 to below 1.
    pub loss_ratio: f64,
    /// The share of trial time that may be bad, 0 to below 1.
    pub exceed_ratio: f64,
    /// The largest relative width between both bounds, 0 to 1.
    pub width: f64,
    /// Duration sum of the first target, seconds.
    pub initial_s: f64,
    /// Targets before the final one, each twice as wide as the next.
    pub preceding: u32,
    /// An answer later than this counts as lost, ns.
    pub latency_bound_ns: Option<u64>,
}

impl Goal {
    /// No loss; many short trials (FD.io CSIT's NDR).
    pub fn ndr() -> Self {
        Self {
            name: "NDR".into(),
            trial_s: 1.0,
            duration_sum_s: 21.0,
            loss_ratio: 0.0,
            exceed_ratio: 0.5,
            width: 0.005,
            initial_s: 1.0,
            preceding: 2,
            latency_bound_ns: None,
        }
    }

    /// Loss of 0.5 % (FD.io CSIT's PDR).
    pub fn pdr() -> Self {
        Self { name: "PDR".into(), loss_ratio: 0.005, ..Self::ndr() }
    }

    /// One long trial without loss (RFC 2544 §24).
    pub fn rfc2544() -> Self {
        Self {
            name: "RFC2544".into(),
            trial_s: 60.0,
            duration_sum_s: 60.0,
            exceed_ratio: 0.0,
            ..Self::ndr()
        }
    }

    /// Two long trials, one of which may lose (ETSI TST 009).
    pub fn tst009() -> Self {
        Self { name: "TST009".into(), duration_sum_s: 120.0, exceed_ratio: 0.5, ..Self::rfc2544() }
    }

    /// Late answers count as lost; half a percent may be.
    pub fn latency(bound_ns: u64) -> Self {
        let name = format!("p99.5 < {} µs", bound_ns / 1_000);
        Self { name, latency_bound_ns: Some(bound_ns), ..Self::pdr() }
    }

    /// The preset of a name: `ndr`, `pdr`, `rfc2544`, `tst009`.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "ndr" => Some(Self::ndr()),
            "pdr" => Some(Self::pdr()),
            "rfc2544" => Some(Self::rfc2544()),
            "tst009" => Some(Self::tst009()),
            _ => None,
        }
    }

    /// # Errors
    /// A value is out of its range: which, and the range.
    pub fn check(&self) -> Result<(), String> {
        let Self { name, trial_s, duration_sum_s, loss_ratio, exceed_ratio, width, .. } = self;
        let within = |what: &str, value: f64, is_right: bool, range: &str| match is_right {
            true => Ok(()),
            false => Err(format!("goal {name}: {what} is {value}, expected {range}")),
        };
        let (trial, sum) = (*trial_s, *duration_sum_s);
        within("the trial duration", trial, trial > 0.0, "seconds above 0")?;
        within("the duration sum", sum, sum >= trial, "at least a trial")?;
        within("the loss ratio", *loss_ratio, (0.0..1.0).contains(loss_ratio), "0 to below 1")?;
        let exceed = *exceed_ratio;
        within("the exceed ratio", exceed, (0.0..1.0).contains(&exceed), "0 to below 1")?;
        within("the width", *width, *width > 0.0 && *width < 1.0, "above 0 and below 1")?;
        let initial = self.initial_s;
        let is_right = initial > 0.0 && initial <= sum;
        within("the initial duration", initial, is_right, "above 0 and up to the duration sum")
    }
}
