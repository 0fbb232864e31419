//! One DNS query over UDP, and its response.
use super::Failure;
use crate::check::DnsCheck;
use crate::limits::DNS_RESPONSE_MAX;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use tokio::net::UdpSocket;
use wire::{Class, Flags, HEADER_LEN, Rcode, Records};

/// Sends the query of a check from a port of its own, and waits for the response to it.
///
/// # Errors
/// What differs from what the check expects.
pub async fn exchange(check: &DnsCheck, target: SocketAddr) -> Result<(), Failure> {
    let local = match target {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let told = |error| Failure::of_socket("UDP", &error);
    let socket = UdpSocket::bind(local).await.map_err(told)?;
    socket.connect(target).await.map_err(told)?;
    let mut id = [0; 2];
    getrandom::fill(&mut id).map_err(|error| Failure::NotMade(error.to_string()))?;
    let query = query(check, id);
    socket.send(&query).await.map_err(told)?;
    let mut response = [0; DNS_RESPONSE_MAX];
    loop {
        let len = socket.recv(&mut response).await.map_err(told)?;
        // Another response: to an old query, or a forged one.
        if answers(&query, &response[..len]) {
            return verify(check, &response[..len], query.len());
        }
    }
}

fn query(check: &DnsCheck, id: [u8; 2]) -> Vec<u8> {
    let [high, low] = Flags::RD.to_be_bytes();
    let mut query = vec![id[0], id[1], high, low, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend_from_slice(check.name.as_name().as_bytes());
    query.extend_from_slice(&check.rtype.0.to_be_bytes());
    query.extend_from_slice(&Class::IN.0.to_be_bytes());
    query
}

/// Whether the ID and the question of a response are those of the query.
fn answers(query: &[u8], response: &[u8]) -> bool {
    response.len() >= query.len()
        && response[..2] == query[..2]
        && flags(response).has(Flags::QR)
        && response[4..6] == query[4..6]
        && response[HEADER_LEN..query.len()].eq_ignore_ascii_case(&query[HEADER_LEN..])
}

fn flags(message: &[u8]) -> Flags {
    Flags(u16::from_be_bytes([message[2], message[3]]))
}

fn verify(check: &DnsCheck, response: &[u8], answer_at: usize) -> Result<(), Failure> {
    let rcode = response[3] & 0x0f;
    if rcode != check.rcode as u8 {
        let known = Rcode::ALL.into_iter().find(|known| *known as u8 == rcode);
        let text = known.map_or_else(|| rcode.to_string(), |known| format!("{known:?}"));
        return Err(format!("response code {text}").into());
    }
    if check.rcode != Rcode::NoError || flags(response).has(Flags::TC) {
        return Ok(());
    }
    let count = u16::from_be_bytes([response[6], response[7]]);
    let records = Records::new(response, answer_at, count.into());
    match records.flatten().any(|record| record.rtype == check.rtype) {
        true => Ok(()),
        false => Err(format!("no record of type {} in the answer", check.rtype).into()),
    }
}
