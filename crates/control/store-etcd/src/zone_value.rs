//! The value of the key of a zone.
use records::Revision;
use serde::{Deserialize, Serialize};
use store::serial::SerialStamp;

/// The value of the key of a zone.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ZoneValue {
    revision: u64,
    #[serde(default)]
    offset: u32,
}

/// Parses the value of the key of a zone.
pub fn read_zone_value(value: &[u8]) -> Option<SerialStamp> {
    serde_json::from_slice::<ZoneValue>(value).ok().map(SerialStamp::from)
}

impl From<SerialStamp> for ZoneValue {
    fn from(stamp: SerialStamp) -> Self {
        Self { revision: stamp.revision.0, offset: stamp.offset }
    }
}

impl From<ZoneValue> for SerialStamp {
    fn from(value: ZoneValue) -> Self {
        Self { revision: Revision(value.revision), offset: value.offset }
    }
}
