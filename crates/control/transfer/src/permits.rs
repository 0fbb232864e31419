//! How many transfers there are at once, in all and of one client.
use crate::limits::STREAMS_PER_CLIENT_MAX;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use worker::ClientIdentity;

/// The transfers in progress.
#[derive(Debug)]
pub struct Permits {
    max: usize,
    held: Mutex<HashMap<ClientIdentity, usize>>,
}

/// A transfer in progress. Dropping it ends it.
#[derive(Debug)]
pub struct Permit {
    permits: Arc<Permits>,
    client: ClientIdentity,
}

impl Permits {
    /// At most so many.
    pub fn new(max: usize) -> Self {
        Self { max, held: Mutex::default() }
    }

    /// A permit for a client; `None` if all are used, or all of the client.
    pub fn take(self: &Arc<Self>, client: IpAddr) -> Option<Permit> {
        let client = ClientIdentity::at(client);
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let total: usize = held.values().sum();
        let own = held.get(&client).copied().unwrap_or_default();
        if total >= self.max || own >= STREAMS_PER_CLIENT_MAX {
            return None;
        }
        held.insert(client, own + 1);
        Some(Permit { permits: Arc::clone(self), client })
    }

    /// Transfers in progress.
    pub fn held(&self) -> usize {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut held = self.permits.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = held.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                held.remove(&self.client);
            }
        }
    }
}
