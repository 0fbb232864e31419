//! Measurements on the two-host bench.
mod bypass;
mod reference;
mod servers;
mod verdict;
