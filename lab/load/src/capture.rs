//! Queries of a capture file of tcpdump (pcap): the time and the question of each.
//!
//! It reads every DNS query over UDP, on any port; answers, fragments and other packets are
//! skipped. A filter of tcpdump's picks out those of one server, or of one direction.

use crate::limits::PACKET_MAX;
use std::io::{self, BufReader, Read};
use std::path::Path;
use wire::{HEADER_LEN, Name, Rtype, skip_name};

/// Bytes that identify the format of a file.
const MAGIC: usize = 4;
/// A captured query: its time in nanoseconds since 1970, its name, its type.
pub(crate) type QueryVisitor<'t> = &'t mut dyn FnMut(u64, Name<'_>, Rtype) -> Result<(), String>;

/// The byte order of a file, and the unit of its times.
#[derive(Clone, Copy, Debug)]
struct QueryFormat {
    big_endian: bool,
    unit_ns: u64,
}

impl QueryFormat {
    /// A number that is written in four bytes.
    fn number(self, bytes: [u8; 4]) -> u32 {
        match self.big_endian {
            true => u32::from_be_bytes(bytes),
            false => u32::from_le_bytes(bytes),
        }
    }

    /// The format for this magic number; `None`: it is not a capture.
    fn of(magic: [u8; MAGIC]) -> Option<Self> {
        let (big_endian, unit_ns) = match magic {
            [0xa1, 0xb2, 0xc3, 0xd4] => (true, 1_000),
            [0xd4, 0xc3, 0xb2, 0xa1] => (false, 1_000),
            [0xa1, 0xb2, 0x3c, 0x4d] => (true, 1),
            [0x4d, 0x3c, 0xb2, 0xa1] => (false, 1),
            _ => return None,
        };
        Some(Self { big_endian, unit_ns })
    }
}

/// Whether a file is a capture.
///
/// # Errors
/// It cannot be read, or it is one of another form: what to do about it.
pub(crate) fn is_capture(path: &Path) -> Result<bool, String> {
    let told = |error: io::Error| format!("{}: {error}", path.display());
    let mut magic = Vec::with_capacity(MAGIC);
    std::fs::File::open(path)
        .and_then(|file| file.take(MAGIC as u64).read_to_end(&mut magic))
        .map_err(told)?;
    let Ok(magic) = <[u8; MAGIC]>::try_from(magic) else { return Ok(false) };
    match magic {
        [0x0a, 0x0d, 0x0d, 0x0a] => Err(format!(
            "{}: it is a capture of the form pcapng; `tcpdump -r FILE -w OTHER` converts it to \
             pcap",
            path.display()
        )),
        magic => Ok(QueryFormat::of(magic).is_some()),
    }
}

/// Calls `seen` for each query of a capture, in the order of the file.
///
/// # Errors
/// The file cannot be read or is damaged, with the number of the packet; or the error of `seen`.
pub(crate) fn read(path: &Path, seen: QueryVisitor<'_>) -> Result<(), String> {
    let file = std::fs::File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    queries(BufReader::new(file), seen).map_err(|why| format!("{}: {why}", path.display()))
}

fn queries(mut file: impl Read, seen: QueryVisitor<'_>) -> Result<(), String> {
    let mut head = [0; 24];
    file.read_exact(&mut head).map_err(|_| "it ends within its header".to_owned())?;
    let [a, b, c, d, ..] = head;
    let form = QueryFormat::of([a, b, c, d]).ok_or("it is not a capture (pcap)")?;
    // The upper bits may say how long check sums of frames are.
    let link = Link(form.number([head[20], head[21], head[22], head[23]]) & 0x0fff_ffff);
    link.check()?;
    let (mut head, mut packet) = ([0; 16], Vec::new());
    for number in 1u64.. {
        match fill(&mut file, &mut head).map_err(|error| error.to_string())? {
            0 => return Ok(()),
            16 => {}
            _ => return Err(cut(number)),
        }
        let field = |at: usize| form.number([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (seconds, part, len) = (field(0), field(4), field(8) as usize);
        let part_ns = u64::from(part) * form.unit_ns;
        if len > PACKET_MAX || part_ns >= 1_000_000_000 {
            return Err(format!("packet {number} is damaged: {len} bytes at {seconds}.{part}"));
        }
        packet.resize(len, 0);
        if fill(&mut file, &mut packet).map_err(|error| error.to_string())? < len {
            return Err(cut(number));
        }
        if let Some((name, rtype)) = link.datagram(&packet).and_then(question) {
            let told = |why: String| format!("packet {number}: {why}");
            seen(u64::from(seconds) * 1_000_000_000 + part_ns, name, rtype).map_err(told)?;
        }
    }
    Ok(())
}

fn cut(number: u64) -> String {
    format!("it ends within packet {number}; `tcpdump -r FILE -w OTHER` keeps what is whole")
}

/// Reads until a buffer is full or the file ends; how many bytes.
fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match file.read(&mut buffer[len..]) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

/// Link types: the headers that packets begin with (<https://www.tcpdump.org/linktypes.html>).
#[derive(Clone, Copy, Debug)]
struct Link(u32);

impl Link {
    const NULL: u32 = 0;
    const ETHERNET: u32 = 1;
    const RAW: u32 = 101;
    const LOOP: u32 = 108;
    const LINUX_SLL: u32 = 113;
    const IPV4: u32 = 228;
    const IPV6: u32 = 229;
    const LINUX_SLL2: u32 = 276;

    fn check(self) -> Result<(), String> {
        const KNOWN: [u32; 8] = [
            Link::NULL,
            Link::ETHERNET,
            Link::RAW,
            Link::LOOP,
            Link::LINUX_SLL,
            Link::IPV4,
            Link::IPV6,
            Link::LINUX_SLL2,
        ];
        match KNOWN.contains(&self.0) {
            true => Ok(()),
            false => Err(format!(
                "its packets are of link type {}; those of Ethernet, Linux (`tcpdump -i any`) and \
                 bare IP can be read",
                self.0
            )),
        }
    }

    /// The UDP payload of a packet, as far as it was captured.
    fn datagram(self, packet: &[u8]) -> Option<&[u8]> {
        let tags = |at: usize| matches!(packet.get(at..at + 2), Some([0x81, 0] | [0x88, 0xa8]));
        let at = match self.0 {
            Self::ETHERNET => {
                let outer = 12 + 4 * usize::from(tags(12));
                outer + 4 * usize::from(outer > 12 && tags(outer)) + 2
            }
            Self::LINUX_SLL => 16,
            Self::LINUX_SLL2 => 20,
            Self::NULL | Self::LOOP => 4,
            _ => 0,
        };
        let ip = packet.get(at..)?;
        // A packet that is not IP fails the version check or has no UDP in it.
        let udp = match ip.first()? >> 4 {
            4 => ipv4(ip)?,
            6 => ipv6(ip)?,
            _ => return None,
        };
        let len = usize::from(u16::from_be_bytes([*udp.get(4)?, *udp.get(5)?]));
        udp.get(8..len.min(udp.len()))
    }
}

const UDP: u8 = 17;

/// The payload of an IPv4 packet, if it is UDP and no fragment (RFC 791 §3.1).
fn ipv4(packet: &[u8]) -> Option<&[u8]> {
    let head = packet.get(..20)?;
    let is_fragment = (head[6] & 0x3f, head[7]) != (0, 0);
    let udp = packet.get(usize::from(head[0] & 0x0f) * 4..)?;
    (head[9] == UDP && !is_fragment).then_some(udp)
}

/// The payload of an IPv6 packet behind hop-by-hop, destination and routing headers, if it is UDP
/// (RFC 8200 §4).
fn ipv6(packet: &[u8]) -> Option<&[u8]> {
    let (mut next, mut at) = (*packet.get(6)?, 40);
    while matches!(next, 0 | 43 | 60) {
        let head = packet.get(at..at + 8)?;
        (next, at) = (head[0], at + 8 + usize::from(head[1]) * 8);
    }
    (next == UDP).then(|| packet.get(at..)).flatten()
}

/// The question of a query for the class IN.
fn question(message: &[u8]) -> Option<(Name<'_>, Rtype)> {
    let head = message.first_chunk::<HEADER_LEN>()?;
    // No response, opcode QUERY, one question.
    if head[2] & 0xf8 != 0 || head[4..6] != [0, 1] {
        return None;
    }
    let end = skip_name(message, HEADER_LEN).ok()?;
    let name = Name::parse(message.get(HEADER_LEN..end)?).ok()?;
    match message.get(end..end + 4)? {
        [high, low, 0, 1] => Some((name, Rtype(u16::from_be_bytes([*high, *low])))),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
