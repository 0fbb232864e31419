//! Validity of the signatures of a zone.
use serde::{Deserialize, Serialize};

/// Signatures expire soon if less than this is left, or less than a quarter of their validity.
const SOON_SECONDS: i64 = 7 * 86_400;

/// When the first record set of a signed zone loses its last signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SignatureSpan {
    /// Seconds since 1970.
    pub expires_seconds: i64,
    /// Seconds between the start and the end of that signature's validity.
    pub validity_seconds: i64,
}

impl SignatureSpan {
    /// Seconds left at a time; negative after the end.
    pub fn left(&self, now: f64) -> f64 {
        self.expires_seconds as f64 - now
    }

    /// Whether it has ended, or ends within 7 days or a quarter of the validity, whichever is less.
    pub fn is_soon(&self, now: f64) -> bool {
        self.left(now) < SOON_SECONDS.min(self.validity_seconds / 4) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_expires_soon_in_its_last_week_or_quarter() {
        let day = 86_400;
        for (validity, left, is_soon) in
            [(90, 8, false), (90, 6, true), (8, 3, false), (8, 1, true), (90, -1, true)]
        {
            let span =
                SignatureSpan { expires_seconds: left * day, validity_seconds: validity * day };
            assert_eq!(span.is_soon(0.0), is_soon, "{validity} {left}");
        }
    }
}
