//! Why a server cannot be used.
use rustls::CertificateError;
use std::io::{self, ErrorKind};

/// The fault of a server, or of the last connection to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum TlsFault {
    /// Nothing.
    #[default]
    None,
    /// It does not listen.
    Refused,
    /// There is no route to it.
    Unreachable,
    /// It did not open, or went silent.
    Silent,
    /// It closed the connection before it answered.
    Closed,
    /// It sent something that is not a reply.
    Nonsense,
    /// Its certificate has expired.
    Expired,
    /// Its certificate is not valid yet.
    Early,
    /// Its certificate is for another name.
    Name,
    /// Its certificate has no trusted issuer.
    Issuer,
    /// Its certificate is invalid in another way.
    Certificate,
    /// The TLS handshake failed, or the connection broke.
    Tls,
    /// It forwards to this server: a loop.
    Loop,
    /// It does not keep the case of letters in questions.
    Case,
}

impl TlsFault {
    const ALL: [Self; 14] = [
        Self::None,
        Self::Refused,
        Self::Unreachable,
        Self::Silent,
        Self::Closed,
        Self::Nonsense,
        Self::Expired,
        Self::Early,
        Self::Name,
        Self::Issuer,
        Self::Certificate,
        Self::Tls,
        Self::Loop,
        Self::Case,
    ];

    /// A description; `None` for [`None`](Self::None).
    pub const fn what(self) -> Option<&'static str> {
        Some(match self {
            Self::None => return None,
            Self::Refused => "the connection is refused",
            Self::Unreachable => "it cannot be reached",
            Self::Silent => "connections are not answered",
            Self::Closed => "it closes connections before it answers",
            Self::Nonsense => "it sends invalid replies",
            Self::Expired => "its certificate has expired (is the clock right?)",
            Self::Early => "its certificate is not valid yet (is the clock right?)",
            Self::Name => "its certificate is for another name",
            Self::Issuer => "its certificate is not signed by a trusted CA",
            Self::Certificate => "its certificate cannot be verified",
            Self::Tls => "the TLS handshake fails: it does not support TLS 1.2 or 1.3",
            Self::Loop => {
                "queries to it come back to this server (a loop: remove one of the rules)"
            }
            Self::Case => {
                "it does not keep the case of letters, so it is queried over TCP (mix_case = false \
                 in its rule allows UDP, but makes forged replies easier)"
            }
        })
    }

    /// Its number in the counters.
    pub(crate) const fn code(self) -> u64 {
        self as u64
    }

    pub(crate) fn from_code(code: u64) -> Self {
        let known = usize::try_from(code).ok().and_then(|code| Self::ALL.get(code));
        known.copied().unwrap_or_default()
    }
}

impl From<&io::Error> for TlsFault {
    fn from(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionRefused => Self::Refused,
            ErrorKind::TimedOut => Self::Silent,
            ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe => {
                Self::Closed
            }
            _ => Self::Unreachable,
        }
    }
}

impl From<&rustls::Error> for TlsFault {
    fn from(error: &rustls::Error) -> Self {
        let rustls::Error::InvalidCertificate(wrong) = error else { return Self::Tls };
        match wrong {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Self::Early
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Self::Name
            }
            // The latter by an issuer with the name of a trusted one.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Self::Issuer,
            _ => Self::Certificate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_stand_for_what_they_say() {
        for (code, fault) in (0..).zip(TlsFault::ALL) {
            assert_eq!((fault.code(), TlsFault::from_code(code)), (code, fault));
            assert_eq!(fault.what().is_none(), fault == TlsFault::None);
        }
        assert_eq!(TlsFault::from_code(99), TlsFault::None);
    }
}
