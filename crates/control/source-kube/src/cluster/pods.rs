//! Names of pods.
use super::{Cluster, ObjectName};
use crate::records::{RecordChange, Records, changes};
use std::net::IpAddr;

impl Cluster {
    pub(super) fn records_of_pod(&self, namespace: &str, address: IpAddr) -> Records {
        let key = (Box::from(namespace), address);
        match self.is_exposed(namespace) && self.pod_addresses.contains_key(&key) {
            true => self.naming.pod(namespace, address),
            false => Records::default(),
        }
    }

    /// A pod came, changed, or went (`None`).
    pub fn put_pod(&mut self, object: ObjectName, ips: Option<Box<[IpAddr]>>) -> Vec<RecordChange> {
        let namespace = object.namespace.clone();
        let before = match ips.clone() {
            Some(ips) => self.pods.insert(object, ips),
            None => self.pods.remove(&object),
        };
        let (before, after) = (before.unwrap_or_default(), ips.unwrap_or_default());
        let mut touched: Vec<IpAddr> = before.iter().chain(&after).copied().collect();
        touched.sort_unstable();
        touched.dedup();
        let all = |cluster: &Self| -> Vec<Records> {
            touched.iter().map(|address| cluster.records_of_pod(&namespace, *address)).collect()
        };
        let old = all(self);
        for address in &after {
            *self.pod_addresses.entry((namespace.clone(), *address)).or_default() += 1;
        }
        for address in &before {
            let key = (namespace.clone(), *address);
            if let Some(count) = self.pod_addresses.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    self.pod_addresses.remove(&key);
                }
            }
        }
        let new = all(self);
        old.into_iter().zip(new).flat_map(|(old, new)| changes(old, new)).collect()
    }
}
