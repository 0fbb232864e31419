//! Searches for the load that a server sustains.
mod oracle;
mod simulated;
