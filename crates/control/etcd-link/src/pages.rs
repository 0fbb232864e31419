//! Lists of keys, in pages.
use crate::limits::PAGE_KEYS;
use crate::{Connection, RequestError};
use etcd_client::{GetOptions, GetResponse};

/// The keys of a prefix as they are at a revision of etcd, in pages.
pub struct Pages {
    at: i64,
    end: Vec<u8>,
    /// The first key of the next page; `None`: there is none.
    from: Option<Vec<u8>>,
    /// Keys of a page.
    pub limit: i64,
}

impl Pages {
    /// All keys of a prefix, which may end with a slash.
    pub fn new(prefix: &str, at: i64) -> Self {
        let end = [prefix.trim_end_matches('/'), "0"].concat().into_bytes();
        Self { at, end, from: Some(prefix.as_bytes().to_vec()), limit: PAGE_KEYS }
    }

    /// Begins at this key.
    #[must_use]
    pub fn from(self, key: String) -> Self {
        Self { from: Some(key.into_bytes()), ..self }
    }

    /// The next page. A page is smaller if its answer would be longer than a message may be.
    ///
    /// # Errors
    /// As [`Connection::get`].
    pub async fn next(
        &mut self,
        connection: &Connection,
    ) -> Result<Option<GetResponse>, RequestError> {
        let Some(from) = self.from.take() else { return Ok(None) };
        loop {
            let options = GetOptions::new().with_range(self.end.as_slice());
            let options = options.with_limit(self.limit).with_revision(self.at);
            match connection.get(from.as_slice(), options).await {
                Err(RequestError::Refused(_)) if self.limit > 1 => self.limit /= 2,
                page => {
                    let page = page?;
                    let last = page.kvs().last().filter(|_| page.more());
                    self.from = last.map(|last| [last.key(), &[0]].concat());
                    return Ok(Some(page));
                }
            }
        }
    }
}
