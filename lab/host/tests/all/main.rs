//! The machine that is measured on: two hosts, and settings of devices.
mod hosts;
mod tune;
