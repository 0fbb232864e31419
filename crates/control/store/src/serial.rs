//! Serials of zones: the low 32 bits of the revision of the zone's last write, plus the zone's
//! offset. Both only grow in the sense of RFC 1982.
use model::Revision;

/// Whether a serial is newer than another (RFC 1982 §3.2). Serials 2^31 apart are not ordered.
pub fn is_newer(serial: u32, than: u32) -> bool {
    (1..1 << 31).contains(&serial.wrapping_sub(than))
}

/// The offset after a revision wrote an SOA with serial `given`. `offset` is the old one, and
/// `before` the served serial. If the new serial would not be newer than the given one, it becomes
/// the next after that. Not if 0 was given, which has no meaning, or if no serial is newer than
/// both: then the zone's own serials continue.
pub fn offset_after(revision: Revision, offset: u32, given: u32, before: Option<u32>) -> u32 {
    let wanted = given.wrapping_add(1);
    let is_behind_ours = before.is_none_or(|before| is_newer(wanted, before));
    if given == 0 || is_newer(revision.serial(offset), given) || !is_behind_ours {
        return offset;
    }
    wanted.wrapping_sub(revision.serial(0))
}

/// The parts of a serial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SerialStamp {
    /// The revision of the zone's last write.
    pub revision: Revision,
    /// Added to the revision.
    pub offset: u32,
}

impl SerialStamp {
    /// The serial.
    pub fn serial(self) -> u32 {
        self.revision.serial(self.offset)
    }

    /// The stamp after restoring a zone at a revision: its serial is newer than those of the
    /// snapshot and of the zone before.
    #[must_use]
    pub fn restored(self, revision: Revision, before: Option<Self>) -> Self {
        let offset = before.unwrap_or(self).offset;
        let served = before.map(Self::serial);
        Self { revision, offset: offset_after(revision, offset, self.serial(), served) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serials_are_ordered_by_distance() {
        for (serial, than, newer) in [
            (2, 1, true),
            (1, 1, false),
            (1, 2, false),
            (0, u32::MAX, true),
            (1 << 31, 1, true),
            (1 << 31, 0, false),
            (0, 1 << 31, false),
        ] {
            assert_eq!(is_newer(serial, than), newer, "{serial} {than}");
        }
    }

    #[test]
    fn serial_is_newer_than_the_given_one() {
        let at = Revision(1148);
        let after = |offset, given, before| at.serial(offset_after(at, offset, given, before));
        assert_eq!(after(0, 2_026_112_301, None), 2_026_112_302);
        assert_eq!(after(0, 2_026_112_301, Some(1147)), 2_026_112_302);
        assert_eq!(after(0, 0, None), 1148, "0 says nothing");
        assert_eq!(after(0, 1147, Some(1147)), 1148, "it comes after that anyway");
        assert_eq!(after(0, 1148, Some(1147)), 1149);
        assert_eq!(after(0, 3_500_000_000, None), 1148, "RFC 1982: it comes after that");
        assert_eq!(after(7, u32::MAX, Some(4_294_967_000)), 1155);
        assert_eq!(after(0, 1147 + (1 << 31), Some(1147)), 1148, "its own go on");
        let far = 1147 + (1 << 31) - 2;
        assert!(is_newer(after(0, far, Some(1147)), far) && is_newer(after(0, far, None), 1147));
    }

    #[test]
    fn restored_serial_is_newer_than_both() {
        let stamp = |revision, offset| SerialStamp { revision: Revision(revision), offset };
        let snapshot = stamp(10, 2_000_000_000);
        let alone = snapshot.restored(Revision(30), None);
        assert_eq!(alone.serial(), 2_000_000_030);
        let lower = snapshot.restored(Revision(30), Some(stamp(20, 5)));
        assert_eq!(lower.serial(), 2_000_000_011);
        let higher = snapshot.restored(Revision(30), Some(stamp(20, 2_100_000_000)));
        assert_eq!(higher.serial(), 2_100_000_030);
    }
}
