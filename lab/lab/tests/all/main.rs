//! Measurements on the two-host bench.
mod bypass;
mod servers;
mod verdict;
