//! Where the small sets of documents are: in files of `[server] data_dir`, or in etcd.
use crate::store::StoreConfig;
use api::{CredentialFile, Credentials, check_document};
use config::{Config, StoreKind};
use std::io;
use std::path::Path;
use std::sync::Arc;
use store_etcd::{DocumentKind, EtcdDocuments, EtcdLink};
use zone_manager::status::DocumentsStatus;

/// The file of the API's credentials, in the data folder.
const CREDENTIALS: &str = "credentials.json";

/// The sets of documents, and their users.
pub struct Documents {
    /// The principals of the API.
    pub credentials: Arc<Credentials>,
    /// The sets that the fleet shares.
    shared: Vec<Arc<EtcdDocuments>>,
}

impl Documents {
    /// The sets of a config. Without `[api]`, credentials are read when they are needed.
    ///
    /// # Errors
    /// The thread for etcd cannot be started.
    pub fn new(config: &Config) -> io::Result<Self> {
        let folder = config.server.data_dir.as_deref();
        let is_needed = config.api.listen.is_some() && config.server.roles.api;
        let (StoreKind::Etcd, Some(folder)) = (config.store.kind, folder) else {
            let tokens = CredentialFile::at(folder.map(|folder| folder.join(CREDENTIALS)));
            let credentials =
                if is_needed { Credentials::open(tokens) } else { Credentials::new(tokens) };
            return Ok(Self { credentials: Arc::new(credentials), shared: Vec::new() });
        };
        let link = EtcdLink::start(StoreConfig::new(config, &[]).etcd)?;
        let kind =
            DocumentKind { name: "tokens", copy: "tokens.copy", check: Box::new(check_document) };
        let tokens = EtcdDocuments::new(&link, kind, folder);
        if is_needed {
            // The start does not wait for etcd.
            tokens.start();
        }
        tell_unused(folder);
        let credentials = Arc::new(Credentials::new(Arc::<EtcdDocuments>::clone(&tokens)));
        Ok(Self { credentials, shared: vec![tokens] })
    }

    /// The status of the sets that the fleet shares.
    pub fn status(&self) -> Vec<DocumentsStatus> {
        self.shared.iter().filter_map(|set| set.status()).collect()
    }
}

/// Logs that the files from before the fleet are not used.
fn tell_unused(folder: &Path) {
    let file = folder.join(CREDENTIALS);
    if file.exists() {
        tracing::warn!(
            "{} is not used, because `[store] kind` is \"etcd\": the tokens of the fleet are in \
             etcd",
            file.display()
        );
    }
}
