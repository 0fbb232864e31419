//! Probes the addresses of record sets, so that answers leave out what is dead.
//!
//! The zone manager tells which targets published sets name. The prober probes each once, whatever
//! the number of its sets, and reports its class in the urgent lane.
#![forbid(unsafe_code)]

mod allow;
mod check;
mod checks;
mod fleet;
pub mod limits;
mod operator;
mod outcome;
#[cfg(feature = "probes")]
mod probe;
#[cfg(not(feature = "probes"))]
#[path = "absent.rs"]
mod probe;
mod prober;
mod report;
mod request;
mod runner;
mod saved;
mod service;
mod state;
mod webhook;

pub use allow::{Allow, NotAllowed};
pub use check::{Check, CheckKind, DnsCheck, GrpcCheck, HttpCheck, ScriptCheck, TlsCheck};
pub use checks::{CheckRefused, DefinedCheck, ReadCheck, checks_in};
pub use fleet::{Finding, FindingKey, FleetStates, SilenceTiming, Vantage, assigned, verdict};
pub use operator::{OperatorState, Override, OverrideKey, check_endpoint};
pub use outcome::{Failure, FindUser, Passed};
pub use probe::Probes;
pub use prober::{DueProbe, NotProbed, ProbeId, Prober, Transition};
pub use report::{HealthReport, TargetReport, VantageReport};
pub use request::{HealthSettings, StateFilter, TargetFilter};
pub use saved::endpoints_in;
pub use service::{Ended, HealthService, THREAD};
pub use state::{ProbeState, TargetState};
pub use webhook::WebhookSettings;
pub use zone_manager::HealthTarget;

#[cfg(test)]
mod tests;
