//! Stands for `kubernetes` in a build without that feature: no cluster is watched.
use crate::documents::Documents;
use config::Config;
use data_plane::KnownClients;
use server_status::KubernetesStatus;
use std::io;
use zone_manager::ZonePublisher;

pub const THREAD: &str = "kubernetes";
pub const PARTS_THREAD: &str = "clusters";

/// The source of the names of a cluster: there is none.
pub enum Kubernetes {}

impl Kubernetes {
    pub fn status(&self) -> KubernetesStatus {
        match *self {}
    }

    pub fn has_failed(&self) -> bool {
        match *self {}
    }

    pub fn clients(&self) -> ClientFeed {
        match *self {}
    }
}

/// The clients of a cluster.
pub enum ClientFeed {}

impl ClientFeed {
    pub fn known(&mut self) -> Option<KnownClients> {
        match *self {}
    }

    pub async fn next(&mut self) -> Option<KnownClients> {
        match *self {}
    }
}

pub fn start(_: &Config, _: &ZonePublisher, _: &Documents) -> io::Result<Option<Kubernetes>> {
    Ok(None)
}
