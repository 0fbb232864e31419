//! Reads bodies of responses, each up to a maximum.
use crate::failure::{Cause, Failure};
use crate::limits::STALL_MAX;
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::timeout;

/// The longest part of an error that is read.
const ERROR_LEN_MAX: usize = 64 << 10;

/// Why a body was not read.
pub enum ReadError {
    /// It is longer than the maximum.
    TooLong,
    /// It broke off, or the next bytes did not come in time.
    Failed(Failure),
}

/// The next bytes of a body; `None`: it is complete.
async fn next(body: &mut Body) -> Result<Option<impl AsRef<[u8]>>, Failure> {
    loop {
        let frame = timeout(STALL_MAX, body.frame()).await.map_err(|_| {
            let seconds = STALL_MAX.as_secs();
            Failure::new(Cause::Silent, format!("nothing came of the response for {seconds} s"))
        })?;
        let Some(frame) = frame else { return Ok(None) };
        let frame = frame.map_err(|error| {
            Failure::new(
                Cause::Broken,
                format!(
                    "the response ended early: \
                {error}"
                ),
            )
        })?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}

/// Reads a whole body.
pub async fn read_whole(mut body: Body, len_max: usize) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    while let Some(data) = next(&mut body).await.map_err(ReadError::Failed)? {
        if bytes.len() + data.as_ref().len() > len_max {
            return Err(ReadError::TooLong);
        }
        bytes.extend_from_slice(data.as_ref());
    }
    Ok(bytes)
}

/// Reads the start of the body of an error.
pub async fn read_start(mut body: Body) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < ERROR_LEN_MAX
        && let Ok(Some(data)) = next(&mut body).await
    {
        bytes.extend_from_slice(data.as_ref());
    }
    bytes
}
