//! Stands for `store-etcd` in a build without the feature `etcd`: nothing of it can be started.
use anycast::{PermitRequest, PermitState, Permits};
use config::Feature;
use documents::{Content, DocumentSet, MapEvent, MapWriter, Value, WriteError};
use health::FleetStates;
use records::{Fleet, Store};
use server_status::{DocumentsStatus, Member};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

fn absence() -> String {
    Feature::Etcd.absence("the store of a fleet")
}

#[derive(Clone, Debug, Default)]
pub struct OwnLease(());

/// Where etcd is; nothing reads it.
#[derive(Clone, Debug, Default)]
pub struct EtcdSettings {
    pub endpoints: Vec<String>,
    pub prefix: String,
    pub ca: Option<PathBuf>,
    pub identity: Option<(PathBuf, PathBuf)>,
    pub user: Option<(String, PathBuf)>,
    pub member: Member,
    pub may_write: bool,
    pub own: OwnLease,
    pub site: Option<String>,
}

pub fn replica_folder(data_dir: &Path) -> PathBuf {
    data_dir.to_owned()
}

pub type SharedStore = (Box<dyn Store>, Arc<dyn Fleet>);

pub fn open(_: &Path, _: EtcdSettings) -> Result<SharedStore, String> {
    Err(absence())
}

/// The connection: there is none.
pub enum EtcdLink {}

impl EtcdLink {
    pub fn start(_: EtcdSettings) -> io::Result<Arc<Self>> {
        Err(io::Error::other(absence()))
    }
}

pub type CheckDocument = Box<dyn Fn(&str, &Value) -> Result<(), String> + Send + Sync>;

pub struct DocumentKind {
    pub name: &'static str,
    pub copy: &'static str,
    pub check: CheckDocument,
}

pub enum EtcdDocuments {}

impl EtcdDocuments {
    pub fn new(link: &Arc<EtcdLink>, _: DocumentKind, _: &Path) -> Arc<Self> {
        match **link {}
    }

    pub fn start(&self) {
        match *self {}
    }

    pub fn status(&self) -> Option<DocumentsStatus> {
        match *self {}
    }
}

impl DocumentSet for EtcdDocuments {
    fn content(&self) -> watch::Receiver<Arc<Content>> {
        match *self {}
    }

    fn load(&self) -> Result<(), String> {
        match *self {}
    }

    fn reload(&self) -> Result<(), String> {
        match *self {}
    }

    fn write(&self, _: &Content, _: &str, _: Option<Value>) -> Result<(), WriteError> {
        match *self {}
    }
}

/// Not empty, as its users would have unreachable code.
pub struct EtcdStates(Arc<EtcdLink>);

impl EtcdStates {
    pub fn start(link: &Arc<EtcdLink>, _: &Path) -> Self {
        Self(Arc::clone(link))
    }

    pub fn states(&self) -> Arc<FleetStates> {
        match *self.0 {}
    }

    pub fn status(&self) -> DocumentsStatus {
        match *self.0 {}
    }
}

pub struct EtcdPermits(Arc<EtcdLink>);

impl EtcdPermits {
    pub fn start(link: &Arc<EtcdLink>, _: Vec<String>) -> Self {
        Self(Arc::clone(link))
    }
}

impl Permits for EtcdPermits {
    fn request(&self, _: Option<PermitRequest>) {
        match *self.0 {}
    }

    fn state(&self) -> PermitState {
        match *self.0 {}
    }
}

pub struct EtcdMap;

impl EtcdMap {
    pub fn lead(link: &Arc<EtcdLink>, _: &Path, _: &str) -> (Self, MapWriter) {
        match **link {}
    }

    pub fn follow_clusters(
        link: &Arc<EtcdLink>,
        _: &Path,
        _: &'static str,
    ) -> (Self, mpsc::Receiver<MapEvent>) {
        match **link {}
    }

    pub fn follow_clusters_of_site(
        _: EtcdSettings,
        _: &Path,
        _: &'static str,
    ) -> io::Result<(Self, mpsc::Receiver<MapEvent>)> {
        Err(io::Error::other(Feature::Etcd.absence("another site")))
    }

    pub fn follow(link: &Arc<EtcdLink>, _: &Path, _: &str) -> (Self, mpsc::Receiver<MapEvent>) {
        match **link {}
    }
}
