//! The forwarder against simulated servers.
mod attacked;
mod left;
mod simulated;
mod world;
