//! Before any work: server cookies (RFC 7873, made as RFC 9018 §4 says so that servers of one
//! address can share them), and the options the reply will carry.
use crate::limits::{COOKIE_AGE_MAX, COOKIE_AGE_RENEW, COOKIE_SKEW_MAX};
use crate::{Now, Policy};
use core::fmt;
use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};
use siphasher::sip::SipHasher24;
use wire::{Cookie, Query};

const VERSION: u8 = 1;
/// Octets of a server cookie: version, reserved, timestamp, hash.
const SERVER_COOKIE_LEN: usize = 16;

/// Octets of a reply's COOKIE option data.
pub(crate) const COOKIE_LEN: usize = Cookie::CLIENT_LEN + SERVER_COOKIE_LEN;

/// 128 secret bits that server cookies are made with.
#[derive(Clone, PartialEq, Eq)]
pub struct CookieSecret(pub [u8; 16]);

impl fmt::Debug for CookieSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CookieSecret(secret)")
    }
}

/// The options a reply will carry besides an error's.
pub(crate) struct Options {
    pub(crate) cookie: Option<[u8; COOKIE_LEN]>,
    pub(crate) nsid: bool,
}

/// Decides the options.
#[inline(always)]
pub(crate) fn options(
    policy: &Policy<'_>,
    now: Now,
    query: &Query,
    client: &SocketAddr,
) -> Options {
    match query.wants_options() {
        false => Options { cookie: None, nsid: false },
        true => decide(policy, now, query, client.ip()),
    }
}

#[inline(never)]
fn decide(policy: &Policy<'_>, now: Now, query: &Query, client: IpAddr) -> Options {
    let nsid = query.edns.is_some_and(|edns| edns.nsid) && !policy.nsid.is_empty();
    let cookie = match (&query.cookie, policy.cookie_secrets) {
        (Some(cookie), [first, others @ ..]) => Some(reply(cookie, first, others, now, client)),
        _ => None,
    };
    Options { cookie, nsid }
}

/// The cookie to send: the client's own while it is valid and young, else a new one.
fn reply(
    cookie: &Cookie,
    first: &CookieSecret,
    others: &[CookieSecret],
    now: Now,
    client: IpAddr,
) -> [u8; COOKIE_LEN] {
    let mut data = [0; COOKIE_LEN];
    data[..Cookie::CLIENT_LEN].copy_from_slice(cookie.client());
    let server = match age(cookie, first, others, now, client) {
        Some(age) if age < COOKIE_AGE_RENEW => cookie.server().first_chunk().copied(),
        _ => None,
    };
    let server =
        server.unwrap_or_else(|| server_cookie(cookie.client(), now.unix_seconds, client, first));
    data[Cookie::CLIENT_LEN..].copy_from_slice(&server);
    data
}

/// Seconds since we made this server cookie, when we or who shares our secrets did.
fn age(
    cookie: &Cookie,
    first: &CookieSecret,
    others: &[CookieSecret],
    now: Now,
    client: IpAddr,
) -> Option<u32> {
    let server: &[u8; SERVER_COOKIE_LEN] = cookie.server().try_into().ok()?;
    let made = u32::from_be_bytes([server[4], server[5], server[6], server[7]]);
    // Serial number arithmetic (RFC 1982), as RFC 9018 §4.3 asks.
    let age = now.unix_seconds.wrapping_sub(made);
    if age > COOKIE_AGE_MAX && made.wrapping_sub(now.unix_seconds) > COOKIE_SKEW_MAX {
        return None;
    }
    let ours = |secret| same(&server_cookie(cookie.client(), made, client, secret), server);
    core::iter::once(first).chain(others).any(ours).then_some(age.min(COOKIE_AGE_MAX))
}

/// Compares without telling by its time where the difference is.
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
    let mut hasher = SipHasher24::new_with_key(&secret.0);
    hasher.write(client_cookie);
    hasher.write(&cookie[..8]);
    match client {
        IpAddr::V4(address) => hasher.write(&address.octets()),
        IpAddr::V6(address) => hasher.write(&address.octets()),
    }
    cookie[8..].copy_from_slice(&hasher.finish().to_le_bytes());
    cookie
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn cookie(server: &[u8]) -> Cookie {
        let mut data = [0; 40];
        data[..8].copy_from_slice(&CLIENT);
        data[8..8 + server.len()].copy_from_slice(server);
        Cookie::parse(&data[..8 + server.len()]).unwrap()
    }

    fn at(unix_seconds: u32) -> Now {
        Now { unix_seconds, monotonic_micros: 0, seed: 1 }
    }

    /// The test vector of RFC 9018 appendix A.1.
    #[test]
    fn a_new_cookie_is_that_of_the_rfc() {
        let data = reply(&cookie(&[]), &SECRET, &[], at(MADE), ADDRESS);
        assert_eq!((&data[..8], &data[8..]), (&CLIENT[..], &SERVER[..]));
    }

    #[test]
    fn a_young_cookie_is_kept_an_old_one_replaced() {
        let sent = |when| reply(&cookie(&SERVER), &SECRET, &[], at(when), ADDRESS);
        assert_eq!(sent(MADE + COOKIE_AGE_RENEW - 1)[8..], SERVER);
        assert_ne!(sent(MADE + COOKIE_AGE_RENEW)[8..], SERVER);
    }

    #[test]
    fn cookies_of_another_secret_address_or_time_are_not_ours() {
        let other = CookieSecret([7; 16]);
        let theirs = IpAddr::V4(core::net::Ipv4Addr::new(198, 51, 100, 101));
        let valid = |secret, others, when, client| {
            age(&cookie(&SERVER), secret, others, at(when), client).is_some()
        };
        assert!(valid(&SECRET, &[], MADE + 1, ADDRESS));
        assert!(valid(&other, &[SECRET], MADE + 1, ADDRESS), "rotation");
        assert!(valid(&SECRET, &[], MADE - COOKIE_SKEW_MAX, ADDRESS), "clocks differ");
        assert!(!valid(&other, &[], MADE + 1, ADDRESS));
        assert!(!valid(&SECRET, &[], MADE + 1, theirs));
        assert!(!valid(&SECRET, &[], MADE + COOKIE_AGE_MAX + 1, ADDRESS));
        assert!(!valid(&SECRET, &[], MADE - COOKIE_SKEW_MAX - 1, ADDRESS));
    }
}
