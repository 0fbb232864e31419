//! Access lists that are checked once for each connection.
use config::Config;
use handler::AccessList;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

/// The lists of the current config; clones share them.
#[derive(Clone, Default)]
pub struct AccessLists(Arc<RwLock<ListSnapshot>>);

#[derive(Default)]
struct ListSnapshot {
    metrics: AccessList,
    proxies: AccessList,
    transfers: AccessList,
}

impl AccessLists {
    /// Takes those of a config.
    pub fn set(&self, config: &Config) {
        let metrics = AccessList::new(&config.acl.metrics);
        let proxies = AccessList::of(&config.proxy.from);
        let transfers = AccessList::new(&config.transfer.allow);
        let lists = ListSnapshot { metrics, proxies, transfers };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = lists;
    }

    /// Whether the address may read metrics and health.
    pub fn may_read_metrics(&self, address: IpAddr) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).metrics.lists(address)
    }

    /// Whether the address may have zones without a key.
    pub fn may_transfer(&self, address: IpAddr) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).transfers.lists(address)
    }

    /// A function that tells whether an address belongs to a proxy.
    pub fn proxies(&self) -> worker::IsProxy {
        let lists = self.clone();
        Arc::new(move |address| lists.is_proxy(address))
    }

    /// Whether the address belongs to a proxy.
    fn is_proxy(&self, address: IpAddr) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).proxies.lists(address)
    }
}
