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
pub use members::{Dialect, ParamsError};
pub use params::Params;
pub use scaler::Scaler;
