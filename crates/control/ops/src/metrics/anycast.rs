//! The metrics of announced addresses.
use super::Kind::{Counter, Gauge};
use crate::exposition::Exposition;
use server_status::AnycastStatus;

/// Writes whether each address is announced, and how often they were withdrawn.
pub fn write(out: &mut Exposition, anycast: &AnycastStatus) {
    let help = "1 while there is a route for the address, which routing daemons announce.";
    let mut announced = out.family("dunlin_anycast_announced", Gauge, help);
    for address in &anycast.addresses {
        announced.sample(&[("address", address)], u8::from(anycast.is_announced));
    }
    let help = "Withdrawals of the addresses by the server.";
    out.family("dunlin_anycast_withdrawals", Counter, help).sample(&[], anycast.withdrawals);
    let help = "Answers to the server's own queries through the addresses, which are no responses.";
    out.family("dunlin_anycast_probes", Counter, help).sample(&[], anycast.probes);
}
