//! The echo: a query becomes its own answer.

/// Why a datagram is not answered. The discriminant is the counter's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// Shorter than a DNS header: there is no QR to set.
    Short,
    /// QR is set: a response. Two echoes would send it to and fro for ever.
    Response,
    /// The sender's port is 0: no answer can be sent there.
    NoPeer,
    /// Larger than [`ROOM`](crate::limits::ROOM).
    Oversize,
    /// The kernel refused the answer.
    Unsent,
    /// Not a whole UDP datagram for our address (models `packet` and `af_xdp` only, which see
    /// packets as they came).
    Malformed,
}

impl Reason {
    /// The number of reasons.
    pub const COUNT: usize = 6;

    /// All of them, in the order of the counters.
    pub const ALL: [Self; Self::COUNT] =
        [Self::Short, Self::Response, Self::NoPeer, Self::Oversize, Self::Unsent, Self::Malformed];

    /// The name in the output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Response => "response",
            Self::NoPeer => "no_peer",
            Self::Oversize => "oversize",
            Self::Unsent => "unsent",
            Self::Malformed => "malformed",
        }
    }
}

/// Bytes of a DNS header (RFC 1035 §4.1.1).
const HEADER: usize = 12;
const QR: u16 = 1 << 15;
/// Opcode, RD and CD are the client's, and copied (RFC 1035 §4.1.1, RFC 4035 §3.1.6). The other
/// fields are cleared: AA, TC, RA, Z, AD and RCODE do not apply to an echo.
const COPIED: u16 = 0x7910;

/// Turns a query into its answer.
///
/// # Errors
/// Why it has none.
#[inline]
pub fn turn_around(message: &mut [u8]) -> Result<(), Reason> {
    if message.len() < HEADER {
        return Err(Reason::Short);
    }
    let flags = u16::from_be_bytes([message[2], message[3]]);
    if flags & QR != 0 {
        return Err(Reason::Response);
    }
    message[2..4].copy_from_slice(&(flags & COPIED | QR).to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_comes_back_with_qr_set_and_claims_nothing() {
        let mut message: Vec<u8> = (0..40).collect();
        for (asked, answered) in
            [(0x0000, 0x8000), (0x7fff, 0xf910), (0x0120, 0x8100), (0x0010, 0x8010)]
        {
            message[2..4].copy_from_slice(&u16::to_be_bytes(asked));
            let mut answer = message.clone();
            assert_eq!(turn_around(&mut answer), Ok(()));
            assert_eq!(answer[2..4], u16::to_be_bytes(answered), "{asked:#06x}");
            assert_eq!((&answer[..2], &answer[4..]), (&message[..2], &message[4..]));
        }
    }

    #[test]
    fn responses_and_fragments_of_headers_have_no_answer() {
        let mut response = [0; 12];
        response[2] = 0x80;
        assert_eq!(turn_around(&mut response), Err(Reason::Response));
        assert_eq!(turn_around(&mut [0; 11]), Err(Reason::Short));
        assert_eq!(turn_around(&mut []), Err(Reason::Short));
        assert_eq!(turn_around(&mut [0; 12]), Ok(()), "the header alone is enough");
    }

    #[test]
    fn reasons_are_their_own_index() {
        for (index, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(index, reason as usize);
        }
    }
}
