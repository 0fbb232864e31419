//! Decides how many replicas DNS needs, and says why. Pure functions of what is observed: the clock
//! is an argument.
#![forbid(unsafe_code)]

pub mod cost;
pub mod decision;
pub mod election;
mod json;
pub mod limits;
pub mod load;
mod members;
pub mod params;
pub mod proportional;
pub mod replicas;
pub mod rivals;
pub mod scaler;
pub mod target;
pub mod trace;
pub mod window;

pub use decision::{Decision, Demand, Nodes, Observation};
pub use params::{Dialect, Params, ParamsError};
pub use scaler::Scaler;
