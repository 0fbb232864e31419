//! The cursor of a page: the last record set of the page before, in hexadecimal digits. Clients
//! treat it as opaque.
use crate::problem::Problem;
use records::{SetKey, View};
use wire::{Name, NameBuf, Rtype};

/// The cursor after a set: its type, then its name in wire form.
pub fn write(key: &SetKey) -> String {
    hex::encode([&key.rtype.0.to_be_bytes(), key.name.as_name().as_bytes()].concat())
}

/// Decodes a cursor.
///
/// # Errors
/// No page returned it.
pub fn read(text: &str, zone: &NameBuf) -> Result<SetKey, Problem> {
    let key = parse(text, zone).filter(|key| key.name.as_name().is_within(zone.as_name()));
    key.ok_or_else(|| {
        Problem::unreadable("after", "is not a cursor of this zone: take `next` of the page before")
    })
}

fn parse(text: &str, zone: &NameBuf) -> Option<SetKey> {
    if text.len() > 2 * (2 + Name::LEN_MAX) {
        return None;
    }
    let bytes = hex::decode(text).ok()?;
    let (rtype, name) = bytes.split_first_chunk::<2>()?;
    let parsed = Name::parse(name).ok().filter(|parsed| parsed.len() == name.len())?;
    let rtype = Rtype(u16::from_be_bytes(*rtype));
    Some(SetKey { zone: zone.clone(), name: parsed.into(), rtype, view: View::DEFAULT })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_written_cursor_is_read() {
        let name = |text: &str| NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name");
        let zone = name("example.org");
        let (name, view) = (name("\\000\\255.example.org"), View::DEFAULT);
        let key = SetKey { zone: zone.clone(), name, rtype: Rtype::TXT, view };
        let text = write(&key);
        assert_eq!(read(&text, &zone).expect("as it was"), key);
        let other = write(&SetKey { name: NameBuf::root(), ..key });
        let long = "00".repeat(300);
        for wrong in ["", "0", "zz", "0010", "+1", "é", &text[2..], &other, &long] {
            assert!(read(wrong, &zone).is_err(), "{wrong}");
        }
    }
}
