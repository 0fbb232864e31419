//! Record data in wire form. Simple types use `form`; keys, digests and parameters use the `domain`
//! crate; all others use RFC 3597.
use domain::base::Name as DomainName;
use domain::base::iana::Rtype as DomainRtype;
use domain::base::name::ParsedName;
use domain::base::rdata::{ComposeRecordData, ParseAnyRecordData};
use domain::dep::octseq::parse::Parser;
use domain::rdata::{AllRecordData, ZoneRecordData};
use model::BrokenRule;
use wire::Rtype;

use crate::base64;
use crate::fields::Fields;
use crate::form::{fits, form};
use crate::limits::RDATA_BYTES_MAX;
use crate::report::{EntryError, quote};
use crate::svcb;

/// Converts the remaining fields to the data of a record of type `rtype`. The result is valid for
/// the type; names are uncompressed and keep their case.
pub(crate) fn read(
    rtype: Rtype,
    fields: &mut Fields<'_>,
    out: &mut Vec<u8>,
) -> Result<(), EntryError> {
    parse(rtype, fields, out).map_err(|fault| fault.rule(BrokenRule::DATA))
}

fn parse(rtype: Rtype, fields: &mut Fields<'_>, out: &mut Vec<u8>) -> Result<(), EntryError> {
    out.clear();
    let at = fields.here();
    if fields.peek().is_some_and(|token| !token.quoted && fields.raw(token) == b"\\#") {
        generic(fields, out).map_err(|fault| fault.rule(BrokenRule::GENERIC_DATA))?;
        if !is_valid(rtype, out) {
            return Err(EntryError::new(
                at,
                format!("these bytes are not the data of a {rtype} record"),
            )
            .rule(BrokenRule::GENERIC_DATA));
        }
        return Ok(());
    }
    match form(rtype) {
        _ if matches!(rtype, Rtype::SVCB | Rtype::HTTPS) => svcb::read(fields, out)?,
        [] => known(rtype, fields, out)?,
        parts => parts.iter().try_for_each(|part| part.read(fields, out))?,
    }
    fields.end()?;
    check_len(at, out)
}

/// Checks that the data fits a record.
pub(crate) fn check_len(at: usize, out: &[u8]) -> Result<(), EntryError> {
    if out.len() > RDATA_BYTES_MAX {
        let what = format!("the record data has {} bytes", out.len());
        return Err(EntryError::new(at, what)
            .help(format!("at most {RDATA_BYTES_MAX}"))
            .rule(BrokenRule::LIMIT));
    }
    Ok(())
}

/// A type with the same presentation form and wire form.
const fn like(rtype: Rtype) -> Rtype {
    match rtype {
        Rtype::SMIMEA => Rtype::TLSA,
        Rtype::DLV => Rtype::DS,
        Rtype::SIG => Rtype::RRSIG,
        Rtype::KEY => Rtype::DNSKEY,
        Rtype::DHCID => Rtype::OPENPGPKEY,
        other => other,
    }
}

/// Whether the type's data ends in base 64 to the end of the entry.
const fn has_base64(rtype: Rtype) -> bool {
    matches!(
        rtype,
        Rtype::DNSKEY | Rtype::CDNSKEY | Rtype::RRSIG | Rtype::OPENPGPKEY | Rtype::IPSECKEY
    )
}

/// Parses a type that `domain` knows.
fn known(rtype: Rtype, fields: &mut Fields<'_>, out: &mut Vec<u8>) -> Result<(), EntryError> {
    let at = fields.here();
    let number = DomainRtype::from_int(like(rtype).0);
    if !is_known(number) {
        let what = format!("{rtype} records have no presentation form here");
        return Err(EntryError::new(at, what)
            .help(r"write it as `\# LENGTH HEX`")
            .rule(BrokenRule::GENERIC_DATA));
    }
    let data = ZoneRecordData::<Vec<u8>, DomainName<Vec<u8>>>::scan(number, fields)
        .map_err(|fault| fields.locate(fault))?;
    if has_base64(like(rtype)) {
        base64::check_rest(fields)?;
    }
    if fields.lacks_rest && rtype != Rtype::IPSECKEY {
        return Err(EntryError::new(fields.here(), "the last field is missing"));
    }
    let Ok(()) = data.compose_rdata(out);
    if !is_valid(rtype, out) {
        return Err(EntryError::new(at, format!("this is not the data of a {rtype} record")));
    }
    Ok(())
}

/// Whether `domain` has a form for the type.
fn is_known(rtype: DomainRtype) -> bool {
    let empty: &[u8] = &[];
    let mut parser = Parser::from_ref(empty);
    let data = AllRecordData::<&[u8], ParsedName<&[u8]>>::parse_any_rdata(rtype, &mut parser);
    !matches!(data, Ok(AllRecordData::Unknown(_) | AllRecordData::Null(_)))
}

/// Whether bytes are valid data of the type, with no compressed name and nothing left over. Data of
/// unknown types is always valid.
fn is_valid(rtype: Rtype, rdata: &[u8]) -> bool {
    if !form(rtype).is_empty() {
        return fits(form(rtype), rdata);
    }
    let mut parser = Parser::from_ref(rdata);
    let number = DomainRtype::from_int(like(rtype).0);
    let data = AllRecordData::<&[u8], ParsedName<&[u8]>>::parse_any_rdata(number, &mut parser);
    let mut again = Vec::with_capacity(rdata.len());
    data.is_ok_and(|data| data.compose_rdata(&mut again).is_ok()) && again == rdata
}

/// `\# LENGTH HEX…` (RFC 3597 §5).
fn generic(fields: &mut Fields<'_>, out: &mut Vec<u8>) -> Result<(), EntryError> {
    fields.token("the marker")?;
    let at = fields.here();
    let len: u16 = fields.parse("a length up to 65535")?;
    let mut half = None;
    while fields.peek().is_some() {
        let token = fields.token("hexadecimal digits")?;
        for (i, &byte) in fields.raw(token).iter().enumerate() {
            let at = token.start as usize + i;
            let digit = char::from(byte).to_digit(16).ok_or_else(|| {
                EntryError::new(at, format!("{} is not a hexadecimal digit", quote(&[byte])))
            })? as u8;
            match half.take() {
                None => half = Some(digit),
                Some(high) => out.push(high << 4 | digit),
            }
        }
    }
    if half.is_some() || out.len() != usize::from(len) {
        let what = format!("the length is {len} bytes, but there are {}", out.len());
        let odd = "the number of hexadecimal digits is odd";
        return Err(EntryError::new(at, if half.is_some() { odd.into() } else { what }));
    }
    Ok(())
}
