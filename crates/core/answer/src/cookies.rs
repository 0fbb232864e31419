//! Server cookies (RFC 7873), made by RFC 9018 §4 so that servers of one address can share them,
//! and the EDNS options of the reply.
use crate::limits::{COOKIE_AGE_MAX, COOKIE_AGE_RENEW, COOKIE_SKEW_MAX, COOKIES_KNOWN};
use crate::subnet_reply::SubnetReply;
use crate::{Now, Policy};
use core::net::IpAddr;
use core::{fmt, mem};
use packet::{Packet, Transport};
use siphasher::sip::SipHasher24;
use wire::{Cookie, Edns, Query};

const VERSION: u8 = 1;
/// Bytes of a server cookie: version, reserved, timestamp, hash.
const SERVER_COOKIE_LEN: usize = 16;

/// Bytes of a reply's COOKIE option data.
pub(crate) const COOKIE_LEN: usize = Cookie::CLIENT_LEN + SERVER_COOKIE_LEN;

/// The secret key of server cookies, 128 bits.
#[derive(Clone, PartialEq, Eq)]
pub struct CookieSecret(pub [u8; 16]);

impl fmt::Debug for CookieSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CookieSecret(secret)")
    }
}

/// EDNS options of the reply, except the extended error.
#[derive(Default)]
pub(crate) struct ReplyOptions {
    pub(crate) cookie: Option<[u8; COOKIE_LEN]>,
    pub(crate) nsid: bool,
    /// Idle timeout of a stream, in units of 100 ms (RFC 7828).
    pub(crate) keepalive: Option<u16>,
    /// Whether the query has a valid server cookie: the client's address is not spoofed.
    pub(crate) proven: bool,
    /// The client subnet option.
    pub(crate) subnet: Option<SubnetReply>,
}

/// Selects the options.
#[inline(always)]
pub(crate) fn options(
    policy: &Policy<'_>,
    now: Now,
    query: &Query,
    packet: &Packet<'_>,
    memo: &mut CookieMemo,
) -> ReplyOptions {
    match query.wants_options() {
        false => ReplyOptions::default(),
        true => decide(policy, now, query, packet, memo),
    }
}

#[inline(never)]
fn decide(
    policy: &Policy<'_>,
    now: Now,
    query: &Query,
    packet: &Packet<'_>,
    memo: &mut CookieMemo,
) -> ReplyOptions {
    let edns = |asks: fn(&Edns) -> bool| query.edns.as_ref().is_some_and(asks);
    let nsid = edns(|edns| edns.nsid) && !policy.nsid.is_empty();
    let on_stream = packet.context.transport == Transport::Stream;
    let keepalive = policy.keepalive.filter(|_| on_stream && edns(|edns| edns.keepalive));
    let cookie = query.cookie.as_ref().filter(|_| !policy.cookie_secrets.is_empty());
    let reply_cookie = cookie.map(|cookie| {
        memo.reply_cookie(policy.cookie_secrets, now, packet.context.client.ip(), cookie.as_bytes())
    });
    ReplyOptions {
        cookie: reply_cookie.as_ref().map(|reply_cookie| reply_cookie.data),
        nsid,
        keepalive,
        proven: reply_cookie.is_some_and(|reply_cookie| reply_cookie.proven),
        subnet: policy.networks().and_then(|networks| networks.reply_subnet(query, packet)),
    }
}

/// Whether a query has a valid server cookie.
pub(crate) fn is_proven(policy: &Policy<'_>, now: Now, query: &Query, client: IpAddr) -> bool {
    let cookie = query.cookie.as_ref().map(|cookie| cookie.as_bytes()).unwrap_or_default();
    age(cookie, policy.cookie_secrets, now, client).is_some()
}

/// The cookie of the reply, and whether the query's cookie was valid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CookieReply {
    pub(crate) data: [u8; COOKIE_LEN],
    pub(crate) proven: bool,
}

/// Recently verified cookies. A client that returns costs no hash.
#[derive(Debug)]
pub(crate) struct CookieMemo([VerifiedCookie; COOKIES_KNOWN]);

/// A verified cookie, valid while its secret is used. Has a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct VerifiedCookie {
    cookie: [u8; COOKIE_LEN],
    client: Option<IpAddr>,
    secret: CookieSecret,
}

impl VerifiedCookie {
    const NONE: Self =
        Self { cookie: [0; COOKIE_LEN], client: None, secret: CookieSecret([0; 16]) };

    /// Whether a client's cookie equals this one, was made with this secret and needs no renewal. A
    /// cookie from the future needs one.
    #[inline(always)]
    fn is(
        &self,
        secret: &CookieSecret,
        now: Now,
        client: IpAddr,
        cookie: &[u8; COOKIE_LEN],
    ) -> bool {
        let is_client = match (self.client, client) {
            (Some(IpAddr::V4(known)), IpAddr::V4(client)) => known == client,
            (Some(IpAddr::V6(known)), IpAddr::V6(client)) => known == client,
            _ => false,
        };
        is_client
            && same_words(&self.cookie, cookie)
            && same_words(&self.secret.0, &secret.0)
            && now.unix_seconds.wrapping_sub(made_at(cookie)) < COOKIE_AGE_RENEW
    }
}

impl CookieMemo {
    pub(crate) const fn new() -> Self {
        Self([const { VerifiedCookie::NONE }; COOKIES_KNOWN])
    }

    /// Whether a client's cookie is verified for this secret and can be returned as it is. Looks at
    /// one slot only: `false` does not mean invalid.
    #[inline(always)]
    pub(crate) fn has(
        &self,
        secret: &CookieSecret,
        now: Now,
        client: IpAddr,
        cookie: &[u8; COOKIE_LEN],
    ) -> bool {
        self.0[place(cookie)].is(secret, now, client, cookie)
    }

    /// The same for all secrets and both slots.
    fn has_any(
        &self,
        secrets: &[CookieSecret],
        now: Now,
        client: IpAddr,
        cookie: &[u8; COOKIE_LEN],
    ) -> bool {
        let at = place(cookie);
        let is_at = |at: usize, secret| self.0[at].is(secret, now, client, cookie);
        secrets.iter().any(|secret| is_at(at, secret) || is_at(at ^ 1, secret))
    }

    /// The cookie to send: the client's own while it is valid and young, otherwise a new one.
    /// `bytes` is the option data; there must be a secret.
    #[inline(never)]
    pub(crate) fn reply_cookie(
        &mut self,
        secrets: &[CookieSecret],
        now: Now,
        client: IpAddr,
        bytes: &[u8],
    ) -> CookieReply {
        if let Ok(&data) = bytes.try_into()
            && self.has_any(secrets, now, client, &data)
        {
            return CookieReply { data, proven: true };
        }
        let valid = age(bytes, secrets, now, client);
        let proven = valid.is_some();
        if let (Some((age, secret)), Ok(cookie)) = (valid, bytes.try_into())
            && age < COOKIE_AGE_RENEW
        {
            self.remember(VerifiedCookie { cookie, client: Some(client), secret: secret.clone() });
            return CookieReply { data: cookie, proven };
        }
        let mut data = [0; COOKIE_LEN];
        if let (Some(client_part), Some(secret)) = (bytes.first_chunk(), secrets.first()) {
            let server = server_cookie(client_part, now.unix_seconds, client, secret);
            data[..Cookie::CLIENT_LEN].copy_from_slice(client_part);
            data[Cookie::CLIENT_LEN..].copy_from_slice(&server);
        }
        CookieReply { data, proven }
    }

    /// Stores a verified cookie in its slot. A cookie that has this slot by its hash moves to the
    /// neighbor slot.
    fn remember(&mut self, known: VerifiedCookie) {
        let at = place(&known.cookie);
        let before = mem::replace(&mut self.0[at], known);
        if before.client.is_some() && place(&before.cookie) == at {
            self.0[at ^ 1] = before;
        }
    }
}

/// The slot of a cookie; the other candidate is its neighbor. The last bytes are a hash that no
/// client can choose without the secret.
#[inline(always)]
fn place(cookie: &[u8; COOKIE_LEN]) -> usize {
    let [.., h0, h1, h2, h3, h4, h5, h6, h7] = *cookie;
    let hash = u64::from_le_bytes([h0, h1, h2, h3, h4, h5, h6, h7]);
    (hash >> (u64::BITS - COOKIES_KNOWN.ilog2())) as usize % COOKIES_KNOWN
}

#[inline(always)]
fn same_words<const N: usize>(a: &[u8; N], b: &[u8; N]) -> bool {
    let words = a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0);
    words.fold(0, |sum, (a, b)| sum | (u64::from_ne_bytes(*a) ^ u64::from_ne_bytes(*b))) == 0
}

/// The creation time in a cookie, seconds since 1970.
#[inline(always)]
fn made_at(cookie: &[u8; COOKIE_LEN]) -> u32 {
    let [.., m0, m1, m2, m3, _, _, _, _, _, _, _, _] = *cookie;
    u32::from_be_bytes([m0, m1, m2, m3])
}

/// The age of a cookie in seconds; `None` if it is too old or too far in the future. A cookie from
/// the future counts as oldest, because its clock differs.
fn age_of(cookie: &[u8; COOKIE_LEN], now: Now) -> Option<u32> {
    let made = made_at(cookie);
    // Serial number arithmetic (RFC 1982), as RFC 9018 §4.3 requires.
    let age = now.unix_seconds.wrapping_sub(made);
    let skew = made.wrapping_sub(now.unix_seconds);
    match age <= COOKIE_AGE_MAX {
        true => Some(age),
        false => (skew <= COOKIE_SKEW_MAX).then_some(COOKIE_AGE_MAX),
    }
}

/// The age of a valid server cookie in seconds, and its secret. The secret may be shared with other
/// servers.
fn age<'s>(
    bytes: &[u8],
    secrets: &'s [CookieSecret],
    now: Now,
    client: IpAddr,
) -> Option<(u32, &'s CookieSecret)> {
    let cookie: &[u8; COOKIE_LEN] = bytes.try_into().ok()?;
    let age = age_of(cookie, now)?;
    let (client_part, server) = cookie.split_first_chunk()?;
    let server: &[u8; SERVER_COOKIE_LEN] = server.try_into().ok()?;
    let made = u32::from_be_bytes([server[4], server[5], server[6], server[7]]);
    let secret = secrets
        .iter()
        .find(|secret| same(&server_cookie(client_part, made, client, secret), server))?;
    Some((age, secret))
}

/// Compares in constant time.
fn same(a: &[u8; SERVER_COOKIE_LEN], b: &[u8; SERVER_COOKIE_LEN]) -> bool {
    a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

/// RFC 9018 §4.4.
fn server_cookie(
    client_cookie: &[u8; Cookie::CLIENT_LEN],
    made: u32,
    client: IpAddr,
    secret: &CookieSecret,
) -> [u8; SERVER_COOKIE_LEN] {
    let mut cookie = [0; SERVER_COOKIE_LEN];
    cookie[0] = VERSION;
    cookie[4..8].copy_from_slice(&made.to_be_bytes());
    let mut input = [0; Cookie::CLIENT_LEN + 8 + 16];
    input[..8].copy_from_slice(client_cookie);
    input[8..16].copy_from_slice(&cookie[..8]);
    let len = match client {
        IpAddr::V4(address) => {
            input[16..20].copy_from_slice(&address.octets());
            20
        }
        IpAddr::V6(address) => {
            input[16..].copy_from_slice(&address.octets());
            32
        }
    };
    let hash = SipHasher24::new_with_key(&secret.0).hash(&input[..len]);
    cookie[8..].copy_from_slice(&hash.to_le_bytes());
    cookie
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    const SECRET: CookieSecret = CookieSecret([
        0xe5, 0xe9, 0x73, 0xe5, 0xa6, 0xb2, 0xa4, 0x3f, 0x48, 0xe7, 0xdc, 0x84, 0x9e, 0x37, 0xbf,
        0xcf,
    ]);
    const CLIENT: [u8; 8] = [0x24, 0x64, 0xc4, 0xab, 0xcf, 0x10, 0xc9, 0x57];
    const SERVER: [u8; 16] = [
        0x01, 0x00, 0x00, 0x00, 0x5c, 0xf7, 0x9f, 0x11, 0x1f, 0x81, 0x30, 0xc3, 0xee, 0xe2, 0x94,
        0x80,
    ];
    const ADDRESS: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(198, 51, 100, 100));
    const MADE: u32 = 1_559_731_985;

    fn cookie(server: &[u8]) -> Vec<u8> {
        [&CLIENT, server].concat()
    }

    fn at(unix_seconds: u32) -> Now {
        Now { unix_seconds, monotonic_micros: 0, seed: 1 }
    }

    fn reply_cookie(memo: &mut CookieMemo, server: &[u8], when: u32) -> CookieReply {
        memo.reply_cookie(&[SECRET], at(when), ADDRESS, &cookie(server))
    }

    /// The test vector of RFC 9018 appendix A.1.
    #[test]
    fn a_new_cookie_is_that_of_the_rfc() {
        let reply_cookie = reply_cookie(&mut CookieMemo::new(), &[], MADE);
        assert_eq!((&reply_cookie.data[..8], &reply_cookie.data[8..]), (&CLIENT[..], &SERVER[..]));
        assert!(!reply_cookie.proven);
    }

    #[test]
    fn young_cookie_is_reused_and_old_one_replaced() {
        let mut memo = CookieMemo::new();
        let mut sent = |when| reply_cookie(&mut memo, &SERVER, when);
        for _ in 0..2 {
            assert_eq!(sent(MADE + COOKIE_AGE_RENEW - 1).data[8..], SERVER);
            assert_ne!(sent(MADE + COOKIE_AGE_RENEW).data[8..], SERVER);
            assert!(sent(MADE + COOKIE_AGE_RENEW).proven);
            assert!(!sent(MADE + COOKIE_AGE_MAX + 1).proven);
        }
    }

    #[test]
    fn cookies_of_another_secret_address_or_time_are_not_ours() {
        let other = CookieSecret([7; 16]);
        let theirs = IpAddr::V4(core::net::Ipv4Addr::new(198, 51, 100, 101));
        let both = [other.clone(), SECRET];
        let mut memo = CookieMemo::new();
        // The second round reads verified cookies.
        for _ in 0..2 {
            let mut valid = |secrets: &[CookieSecret], when, client| {
                let plain = age(&cookie(&SERVER), secrets, at(when), client).is_some();
                let reply_cookie = memo.reply_cookie(secrets, at(when), client, &cookie(&SERVER));
                assert_eq!(reply_cookie.proven, plain);
                plain
            };
            assert!(valid(&[SECRET], MADE + 1, ADDRESS));
            assert!(valid(&both, MADE + 1, ADDRESS), "rotation");
            assert!(valid(&[SECRET], MADE - COOKIE_SKEW_MAX, ADDRESS), "clocks differ");
            assert!(!valid(&both[..1], MADE + 1, ADDRESS));
            assert!(!valid(&[SECRET], MADE + 1, theirs));
            assert!(!valid(&[SECRET], MADE + COOKIE_AGE_MAX + 1, ADDRESS));
            assert!(!valid(&[SECRET], MADE - COOKIE_SKEW_MAX - 1, ADDRESS));
        }
    }

    #[test]
    fn two_cookies_of_a_place_or_of_neighbours_are_both_known() {
        let made_for = |at: u64, n: u8| {
            let hash = at << (u64::BITS - COOKIES_KNOWN.ilog2());
            let mut cookie = [n; COOKIE_LEN];
            cookie[12..16].copy_from_slice(&MADE.to_be_bytes());
            cookie[16..].copy_from_slice(&hash.to_le_bytes());
            cookie
        };
        for places in [[6, 6], [6, 7], [7, 6], [7, 7], [0, 1], [1, 0]] {
            let mut memo = CookieMemo::new();
            let cookies = [made_for(places[0], 1), made_for(places[1], 2)];
            for cookie in cookies {
                memo.remember(VerifiedCookie { cookie, client: Some(ADDRESS), secret: SECRET });
            }
            let has = |cookie| memo.has_any(&[SECRET], at(MADE), ADDRESS, cookie);
            assert!(cookies.iter().all(has), "{places:?}");
            assert!(!has(&made_for(6, 3)));
            // The newer one is in its first slot.
            assert!(memo.has(&SECRET, at(MADE), ADDRESS, &cookies[1]));
        }
    }

    #[test]
    fn what_is_like_a_known_cookie_is_not_known() {
        let mut memo = CookieMemo::new();
        assert!(reply_cookie(&mut memo, &SERVER, MADE).proven);
        for bit in 0..8 * COOKIE_LEN {
            let mut bytes = cookie(&SERVER);
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(!memo.reply_cookie(&[SECRET], at(MADE), ADDRESS, &bytes).proven, "{bit}");
        }
        let mapped = IpAddr::V6(core::net::Ipv4Addr::new(198, 51, 100, 100).to_ipv6_mapped());
        assert!(!memo.reply_cookie(&[SECRET], at(MADE), mapped, &cookie(&SERVER)).proven);
        let no_client = [0; COOKIE_LEN];
        let zero = [CookieSecret([0; 16])];
        let unspecified = IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED);
        assert!(!memo.reply_cookie(&zero, at(0), unspecified, &no_client).proven);
    }
}
