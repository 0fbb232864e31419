//! Where the small sets of documents are: in files of `[server] data_dir`, or in etcd.
use crate::etcd::{
    CheckDocument, DocumentKind, EtcdDocuments, EtcdLink, EtcdPermits, EtcdStates, OwnLease,
};
use crate::store::StoreConfig;
use anycast::Permits;
use api::{CredentialFile, Credentials, check_document};
use config::{Config, StoreKind, UpdateWait};
use documents::DocumentSet;
use health::{check_endpoint, checks_in, endpoints_in};
use server_status::DocumentsStatus;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The file of the API's credentials, in the data folder.
const CREDENTIALS: &str = "credentials.json";

/// The sets of documents, and their users.
pub struct Documents {
    /// The principals of the API.
    pub credentials: Arc<Credentials>,
    /// The health checks of the API.
    pub checks: Arc<dyn DocumentSet>,
    /// States of addresses that operators have set.
    pub endpoints: Arc<dyn DocumentSet>,
    /// What the servers of the fleet find out about health; `None`: there is no fleet.
    pub states: Option<EtcdStates>,
    /// The connection to etcd; `None`: there is no fleet.
    pub link: Option<Arc<EtcdLink>>,
    /// Distinguishes this server from another one with its name.
    pub own: OwnLease,
    /// The sets that the fleet shares.
    shared: Vec<Arc<EtcdDocuments>>,
    /// The sets in files of this server that are needed, with their names.
    local: Vec<(&'static str, Arc<dyn DocumentSet>)>,
}

impl Documents {
    /// The sets of a config. Without `[api]`, credentials are read when they are needed.
    ///
    /// # Errors
    /// The thread for etcd cannot be started.
    pub fn new(config: &Config) -> io::Result<Self> {
        let folder = config.server.folder();
        let has_users = config.api.listen.is_some() || config.api.update != UpdateWait::Off;
        let is_needed = has_users && config.server.roles.api;
        let (StoreKind::Etcd, Some(folder)) = (config.store.kind, folder) else {
            let tokens = CredentialFile::at(folder.map(|folder| folder.join(CREDENTIALS)));
            let credentials =
                if is_needed { Credentials::open(tokens) } else { Credentials::new(tokens) };
            let (credentials, shared) = (Arc::new(credentials), Vec::new());
            let (checks, endpoints) = (checks_in(folder), endpoints_in(folder));
            let own = OwnLease::default();
            let (states, link) = (None, None);
            let local: Vec<(_, Arc<dyn DocumentSet>)> =
                vec![("checks", checks.clone()), ("endpoints", endpoints.clone())];
            return Ok(Self { credentials, checks, endpoints, states, link, own, shared, local });
        };
        let own = OwnLease::default();
        let link = EtcdLink::start(StoreConfig::new(config, &[], &own).etcd)?;
        let set = |name, copy, check: CheckDocument| {
            EtcdDocuments::new(&link, DocumentKind { name, copy, check }, folder)
        };
        let is_check = |name: &str, keys: &_| config::read_check_keys(name, keys).map(drop);
        let tokens = set("tokens", "tokens.copy", Box::new(check_document));
        let checks = set("checks", "checks.copy", Box::new(is_check));
        let endpoints = set("endpoints", "endpoints.copy", Box::new(check_endpoint));
        // The start does not wait for etcd.
        if is_needed {
            tokens.start();
        }
        checks.start();
        endpoints.start();
        warn_unused(folder);
        let shared = vec![Arc::clone(&tokens), Arc::clone(&checks), Arc::clone(&endpoints)];
        let credentials = Arc::new(Credentials::new(tokens));
        let states = Some(EtcdStates::start(&link, folder));
        let (link, local) = (Some(link), Vec::new());
        Ok(Self { credentials, checks, endpoints, states, link, own, shared, local })
    }

    /// What gives permits to withdraw these addresses; `None`: there is no fleet.
    pub fn permits(&self, addresses: Vec<String>) -> Option<Box<dyn Permits>> {
        let link = self.link.as_ref()?;
        Some(Box::new(EtcdPermits::start(link, addresses)))
    }

    /// Reads files again after a hot restart: the old process may have changed them after this one
    /// read them.
    pub fn read_again(&self) {
        let read = [
            ("credentials", self.credentials.read_again()),
            ("checks of the API", self.checks.reload()),
            ("states of endpoints", self.endpoints.reload()),
        ];
        for (name, read) in read {
            if let Err(why) = read {
                tracing::error!("the {name} from before the hot restart stay in use: {why}");
            }
        }
    }

    /// The status of the sets that the fleet shares, and of files of this server that cannot be
    /// used. The API has that of the credentials.
    pub fn status(&self) -> Vec<DocumentsStatus> {
        let of_sets = self.shared.iter().filter_map(|set| set.status());
        let of_files = self.local.iter().filter_map(|(name, set)| faulty(name, &**set));
        of_sets.chain(of_files).chain(self.states.as_ref().map(EtcdStates::status)).collect()
    }
}

/// The status of a set in a file of this server; `None`: it can be used.
fn faulty(name: &str, set: &dyn DocumentSet) -> Option<DocumentsStatus> {
    let content = set.content();
    let content = content.borrow();
    let unusable = content.documents.iter().filter_map(|(document, found)| {
        let checked = match name {
            "checks" => config::read_check_keys(document, &found.value).map(drop),
            _ => check_endpoint(document, &found.value),
        };
        Some(format!("{document}: {}", checked.err()?))
    });
    let unusable: Vec<String> = unusable.collect();
    let documents = (content.documents.len() - unusable.len()) as u64;
    let fault = content.fault.clone();
    let is_faulty = fault.is_some() || !unusable.is_empty();
    let name = format!("{name} of the API");
    is_faulty.then_some(DocumentsStatus { name, documents, fault, unusable })
}

/// Logs that the files from before the fleet are not used.
fn warn_unused(folder: &Path) {
    for file in [CREDENTIALS, "health.checks", "health.endpoints"] {
        let file = folder.join(file);
        if file.exists() {
            tracing::warn!(
                "{} is not used, because `[store] kind` is \"etcd\": what the fleet shares is in \
                 etcd",
                file.display()
            );
        }
    }
}
