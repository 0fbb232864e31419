//! The records at the top of a zone.
use model::SetValue;
use wire::{Name, NameBuf, Rtype};
use zone_manager::Edit;

const SOA_REFRESH: u32 = 7_200;
const SOA_RETRY: u32 = 1_800;
const SOA_EXPIRE: u32 = 86_400;

/// The name of the server of a zone that names none.
pub(crate) fn server(origin: &NameBuf) -> NameBuf {
    below(origin, b"ns")
}

fn below(origin: &NameBuf, label: &[u8]) -> NameBuf {
    NameBuf::with_label(label, origin.as_name()).unwrap_or_else(|_| origin.clone())
}

/// The SOA of a zone, and an NS record if the zone itself has no SOA. The TTLs are that of the
/// records, and that of absent names.
pub(crate) fn edits(
    (ttl, negative_ttl): (u32, u32),
    origin: &NameBuf,
    own: Option<&SetValue>,
    serial: u32,
) -> Vec<Edit> {
    let server = server(origin);
    let soa = own.cloned().unwrap_or_else(|| {
        let mut data = server.as_name().as_bytes().to_vec();
        data.extend_from_slice(below(origin, b"hostmaster").as_name().as_bytes());
        let times = [0, SOA_REFRESH, SOA_RETRY, SOA_EXPIRE, negative_ttl];
        times.iter().for_each(|number| data.extend_from_slice(&number.to_be_bytes()));
        SetValue::new(ttl, vec![data.into()])
    });
    let soa = SetValue {
        data: soa.data.into_iter().map(|data| with_serial(data, serial)).collect(),
        ..soa
    };
    let mut edits = vec![Edit::put(origin.clone(), Rtype::SOA, soa)];
    if own.is_none() {
        let ns = SetValue::new(ttl, vec![server.as_name().as_bytes().into()]);
        edits.push(Edit::put(origin.clone(), Rtype::NS, ns));
    }
    edits
}

/// The data of an SOA with another serial, which is behind its two names.
fn with_serial(data: Box<[u8]>, serial: u32) -> Box<[u8]> {
    let mut data = data;
    let names = Name::parse(&data).map(|name| name.len());
    let at = names.and_then(|one| Ok(one + Name::parse(&data[one..])?.len()));
    if let Ok(at) = at
        && let Some(place) = data.get_mut(at..at + 4)
    {
        place.copy_from_slice(&serial.to_be_bytes());
    }
    data
}
