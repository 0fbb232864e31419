//! EDNS(0) (RFC 6891): the OPT record of a query.
use crate::limits::COOKIE_LEN_MAX;

/// Option codes (IANA registry "DNS EDNS0 Option Codes").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionCode(pub u16);

impl OptionCode {
    /// Name server identifier (RFC 5001).
    pub const NSID: Self = Self(3);
    /// Client subnet (RFC 7871).
    pub const CLIENT_SUBNET: Self = Self(8);
    /// DNS cookie (RFC 7873).
    pub const COOKIE: Self = Self(10);
    /// How long an idle stream stays open (RFC 7828).
    pub const TCP_KEEPALIVE: Self = Self(11);
    /// Padding, which hides the length of a message (RFC 7830).
    pub const PADDING: Self = Self(12);
    /// Extended DNS error (RFC 8914).
    pub const EDE: Self = Self(15);
}

/// The data of a COOKIE option: 8 bytes of the client's, then none or 8 to 32 of the server's.
#[derive(Clone, Copy, Debug)]
pub struct Cookie {
    bytes: [u8; COOKIE_LEN_MAX],
    len: u8,
}

impl Cookie {
    /// Bytes of a client cookie (RFC 7873 §4.1).
    pub const CLIENT_LEN: usize = 8;

    /// Reads an option's data; `None` if RFC 7873 §5.2.2 does not allow its length.
    pub fn parse(data: &[u8]) -> Option<Self> {
        if !matches!(data.len(), 8 | 16..=COOKIE_LEN_MAX) {
            return None;
        }
        let mut bytes = [0; COOKIE_LEN_MAX];
        bytes[..data.len()].copy_from_slice(data);
        Some(Self { bytes, len: data.len() as u8 })
    }

    /// The whole cookie.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The client's part.
    pub fn client(&self) -> &[u8; Self::CLIENT_LEN] {
        self.bytes.first_chunk().expect("the buffer is longer than a client cookie")
    }

    /// The server's part; empty if the client has none yet.
    pub fn server(&self) -> &[u8] {
        &self.bytes[Self::CLIENT_LEN..usize::from(self.len)]
    }
}

/// The OPT record of a query, without its cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns {
    /// The UDP payload size of the client, in bytes (RFC 6891 §6.2.3: less than 512 means 512).
    pub size: u16,
    /// EDNS version; only 0 exists.
    pub version: u8,
    /// DO: the client requests DNSSEC records (RFC 3225).
    pub dnssec_ok: bool,
    /// The client requests the name server identifier (RFC 5001 §2.1).
    pub nsid: bool,
    /// The client requests the idle timeout. Only an empty option is a request (RFC 7828 §3.2.1);
    /// options with a timeout are ignored, and so are all over UDP.
    pub keepalive: bool,
    /// Where the data of the first client subnet option begins in the message; 0: there is none.
    pub subnet_at: u16,
}

/// DO in the third byte of the OPT record's TTL.
const DNSSEC_OK: u8 = 0x80;

impl Edns {
    /// Reads an OPT record's class and TTL.
    #[inline]
    pub(crate) fn parse(class: [u8; 2], ttl: [u8; 4]) -> Self {
        Self {
            size: u16::from_be_bytes(class),
            version: ttl[1],
            dnssec_ok: ttl[2] & DNSSEC_OK != 0,
            nsid: false,
            keepalive: false,
            subnet_at: 0,
        }
    }

    /// Reads the options, which end at this offset of the message; the first COOKIE goes to
    /// `cookie`. Unknown options are skipped (RFC 6891
    /// §6.1.2). `None` if an option does not fit, or a cookie has an invalid length.
    pub(crate) fn read_options(
        &mut self,
        mut rest: &[u8],
        end: usize,
        cookie: &mut Option<Cookie>,
    ) -> Option<()> {
        while !rest.is_empty() {
            let (head, behind) = rest.split_first_chunk::<4>()?;
            let code = OptionCode(u16::from_be_bytes([head[0], head[1]]));
            let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
            let (data, behind) = behind.split_at_checked(len)?;
            match code {
                OptionCode::NSID => self.nsid = true,
                OptionCode::CLIENT_SUBNET if self.subnet_at == 0 => {
                    self.subnet_at = (end - behind.len() - len) as u16;
                }
                OptionCode::TCP_KEEPALIVE if len == 0 => self.keepalive = true,
                OptionCode::COOKIE if cookie.is_none() => *cookie = Some(Cookie::parse(data)?),
                _ => {}
            }
            rest = behind;
        }
        Some(())
    }
}
