//! Replies by the network of the client.
use crate::exposition::{Exposition, Kind::Counter};
use server_status::NetworkStatus;

/// One series for each network and response code with a reply, at most 1,000: the counters of the
/// threads have no room for more.
pub(super) fn write(out: &mut Exposition, networks: &[NetworkStatus]) {
    if networks.is_empty() {
        return;
    }
    let help = "Replies by the network of the client and by response code.";
    let mut family = out.family("dunlin_queries_by_network", Counter, help);
    for network in networks {
        for (rcode, count) in &network.rcodes {
            family.sample(&[("network", network.name.as_str()), ("rcode", rcode)], *count);
        }
    }
}
