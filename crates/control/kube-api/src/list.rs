//! Lists of objects, page by page.
use crate::{Api, ApiError, encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;

#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct Page<T> {
    metadata: Metadata,
    items: Vec<T>,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default, rename = "resourceVersion")]
    version: String,
    #[serde(default)]
    r#continue: Option<String>,
}

/// Which objects a list is of, and how many it may have.
#[derive(Clone, Copy, Debug)]
pub struct ListOf<'l> {
    /// The path of all of them.
    pub path: &'l str,
    /// What follows the number of objects in the query, such as `&labelSelector=a`.
    pub selector: &'l str,
    /// Objects of a page.
    pub page: usize,
    /// Objects of all pages.
    pub max: usize,
}

impl Api {
    /// Lists objects, and gives each to a function. Returns the revision of the list.
    ///
    /// # Errors
    /// As [`Api::call`], or there are too many objects.
    pub async fn list<T: DeserializeOwned>(
        &self,
        ListOf { path, selector, page, max }: ListOf<'_>,
        mut each: impl FnMut(T),
    ) -> Result<String, ApiError> {
        let (mut count, mut next) = (0, String::new());
        loop {
            let page: Page<T> = self.get(&format!("{path}?limit={page}{selector}{next}")).await?;
            count += page.items.len();
            if count > max {
                return Err(ApiError::Other(format!("{path}: more than {max} objects")));
            }
            page.items.into_iter().for_each(&mut each);
            match page.metadata.r#continue.filter(|token| !token.is_empty()) {
                Some(token) => next = format!("&continue={}", encode(&token)),
                None => return Ok(page.metadata.version),
            }
        }
    }
}
