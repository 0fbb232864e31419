//! What must hold for any master file.
use std::fmt::Write;

use wire::{Class, Name, NameBuf, Rtype};
use zonefile::{LoadFailure, LoadSummary, Record};

/// Records looked at; a $GENERATE could make a million.
const RECORDS_MAX: usize = 200;

/// Reads the bytes as a zone. Its records must be sound, and give themselves again when written
/// and read once more; its errors must lie inside of the text.
pub fn check(bytes: &[u8]) {
    let (mut again, mut records) = (String::new(), Vec::new());
    let result = read(bytes, &mut |record| {
        sound(&record);
        if records.len() == RECORDS_MAX {
            return Err("enough".into());
        }
        write_generic(&mut again, &record);
        records.push(copy(&record));
        Ok(())
    });
    if let Err(failure) = result {
        let lines = bytes.iter().filter(|&&byte| byte == b'\n').count() as u64 + 1;
        assert!(!failure.errors.is_empty());
        for error in &failure.errors {
            assert!((1..=lines).contains(&error.place().line), "{error}");
            assert!((1..=bytes.len() as u64 + 1).contains(&error.place().column), "{error}");
        }
    }
    let mut expected = records.iter();
    let summary = read(again.as_bytes(), &mut |record| {
        assert_eq!(Some(&copy(&record)), expected.next());
        Ok(())
    });
    assert_eq!(summary.expect("our own text is right").records, records.len() as u64);
}

type Sink<'s> = dyn FnMut(Record<'_>) -> Result<(), String> + 's;

fn read(mut bytes: &[u8], sink: &mut Sink<'_>) -> Result<LoadSummary, LoadFailure> {
    let origin = NameBuf::from_text(b"example.", Name::ROOT).expect("a name");
    zonefile::read_stream(&mut bytes, origin.as_name(), sink)
}

fn copy(record: &Record<'_>) -> (Vec<u8>, u32, Rtype, Vec<u8>) {
    (record.owner.as_bytes().to_vec(), record.ttl, record.rtype, record.rdata.to_vec())
}

/// What every other room relies on.
fn sound(record: &Record<'_>) {
    let owner = record.owner.as_bytes();
    assert_eq!(Name::parse(owner).expect("the owner is a name").len(), owner.len());
    assert!(owner.to_ascii_lowercase().ends_with(b"\x07example\0"));
    assert!(record.class == Class::IN && !record.rtype.is_meta());
    assert!(record.ttl <= i32::MAX as u32 && record.rdata.len() <= usize::from(u16::MAX));
    let rdata = record.rdata;
    let names_from = |mut at: usize, count: usize| {
        for _ in 0..count {
            at += Name::parse(&rdata[at..]).expect("a name in the data").len();
        }
        at
    };
    let end = match record.rtype {
        Rtype::A => 4,
        Rtype::AAAA => 16,
        Rtype::NS | Rtype::CNAME | Rtype::PTR | Rtype::DNAME => names_from(0, 1),
        Rtype::MX => names_from(2, 1),
        Rtype::SRV => names_from(6, 1),
        Rtype::SOA => names_from(0, 2) + 20,
        // More follows their names.
        Rtype::NSEC => rdata.len().max(names_from(0, 1)),
        Rtype::RRSIG => rdata.len().max(names_from(18, 1)),
        Rtype::SVCB | Rtype::HTTPS => rdata.len().max(names_from(2, 1)),
        _ => rdata.len(),
    };
    assert_eq!(end, rdata.len(), "{record:?}");
}

/// A line in the form that needs no knowledge of the type (RFC 3597 §5).
fn write_generic(out: &mut String, record: &Record<'_>) {
    let Record { owner, ttl, rtype, rdata, .. } = record;
    write!(out, "{owner} {ttl} TYPE{} \\# {} ", rtype.0, rdata.len()).expect("memory");
    for byte in *rdata {
        write!(out, "{byte:02x}").expect("memory");
    }
    out.push('\n');
}
