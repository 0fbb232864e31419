//! Status of the certificates that the server uses.
use serde::{Deserialize, Serialize};

/// A warning is given this long before the end of a certificate, or when a fifth of its lifetime
/// is left, whichever is less: short-lived certificates are renewed late.
const WARNED_SECONDS: f64 = 14.0 * 86_400.0;

/// A file of certificates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CertificateStatus {
    /// The key of the config that names it.
    pub key: String,
    /// The file.
    pub file: String,
    /// Why it cannot be used as it is now; `None`: it can.
    pub fault: Option<String>,
    /// When the certificate in use begins, in seconds since 1970.
    pub begin_seconds: f64,
    /// When it ends.
    pub end_seconds: f64,
}

impl CertificateStatus {
    /// What to say if it ends soon, or has ended, at this time; `None`: it does not.
    pub fn expiry(&self, now: f64) -> Option<String> {
        let Self { key, file, begin_seconds: begin, end_seconds: end, .. } = self;
        let warned = WARNED_SECONDS.min((end - begin) / 5.0);
        let left = end - now;
        if *end == 0.0 || left >= warned {
            return None;
        }
        let hours = (left.abs() / 3_600.0).floor();
        let span = if hours < 48.0 {
            format!("{hours} h")
        } else {
            format!("{} days", (hours / 24.0).floor())
        };
        Some(match left > 0.0 {
            true => format!("{key}: the certificate in {file} ends in {span}: renew it"),
            false => format!("{key}: the certificate in {file} ended {span} ago: renew it"),
        })
    }
}
