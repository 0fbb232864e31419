//! The copy of a set of documents on the disk of this server.
use documents::{Content, Document, Lines, UnusableDocument, Value};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What a copy is a copy of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyOrigin {
    /// The ID of the cluster in hexadecimal, as `etcdctl` shows it.
    pub cluster: String,
    /// The prefix of the keys of the set.
    pub prefix: String,
    /// The revision of the last `dunlin fleet adopt`; 0: there was none.
    pub adopted: u64,
}

/// The file of a copy.
#[derive(Clone)]
pub struct CopyFile {
    folder: PathBuf,
    lines: Lines,
}

#[derive(Serialize, Deserialize)]
enum Line {
    /// The origin, and the revision of etcd up to which all changes are in.
    Origin(CopyOrigin, i64),
    /// Name, revision, value.
    Document(String, i64, Value),
    /// Name, revision, and why it cannot be used.
    Unusable(String, i64, String),
}

impl CopyFile {
    /// The copy of a set in a folder.
    pub fn new(folder: &Path, file: &'static str) -> Self {
        let (head, what) = ("dunlin_copy_of_documents", "documents from etcd");
        // It has the hashes of tokens.
        Self {
            folder: folder.to_owned(),
            lines: Lines { file, head, format: 1, what, mode: 0o600 },
        }
    }

    /// Reads it; `None`: there is none of this prefix.
    ///
    /// # Errors
    /// The file, and what is wrong with it.
    pub fn load(&self, prefix: &str) -> Result<Option<(CopyOrigin, Content)>, String> {
        let (mut origin, mut content) = (None, Content::default());
        for line in self.lines.read::<Line>(&self.folder)? {
            match line {
                Line::Origin(found, revision) => {
                    (origin, content.revision) = (Some(found), revision)
                }
                Line::Document(name, revision, value) => {
                    content.documents.insert(name, Document { value, revision });
                }
                Line::Unusable(name, revision, why) => {
                    content.unusable.insert(name, UnusableDocument { why, revision });
                }
            }
        }
        let origin = origin.filter(|origin: &CopyOrigin| origin.prefix == prefix);
        Ok(origin.map(|origin| (origin, content)))
    }

    /// Replaces it.
    ///
    /// # Errors
    /// The disk.
    pub fn save(&self, origin: &CopyOrigin, content: &Content) -> Result<(), String> {
        let origin = Line::Origin(origin.clone(), content.revision);
        let documents = content.documents.iter().map(|(name, document)| {
            Line::Document(name.clone(), document.revision, document.value.clone())
        });
        let unusable = content.unusable.iter().map(|(name, unusable)| {
            Line::Unusable(name.clone(), unusable.revision, unusable.why.clone())
        });
        self.lines.save(&self.folder, std::iter::once(origin).chain(documents).chain(unusable))
    }
}
