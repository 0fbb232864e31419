//! Record data in wire form. Most types use `form`, a few the `domain` crate, all others RFC 3597.
use crate::BrokenRule;
use domain::base::Name as DomainName;
use domain::base::iana::Rtype as DomainRtype;
use domain::base::name::ParsedName;
use domain::base::rdata::{ComposeRecordData, ParseAnyRecordData};
use domain::dep::octseq::parse::Parser;
use domain::rdata::{AllRecordData, ZoneRecordData};
use wire::Rtype;

use crate::fields::Fields;
use crate::form::{fits, form, has_rare_form};
use crate::limits::RDATA_BYTES_MAX;
use crate::report::EntryError;
use crate::{base64, digest, hex, svcb};

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
        let is_valid = match fields.is_trusted {
            true => has_rare_form(rtype) || is_well_formed(rtype, out),
            false => is_valid(rtype, out),
        };
        if !is_valid {
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
    check_digest(rtype, fields, out)?;
    check_len(at, out)
}

/// Checks the length of a digest.
fn check_digest(rtype: Rtype, fields: &Fields<'_>, out: &[u8]) -> Result<(), EntryError> {
    let Some(what) = digest::problem(rtype, out) else { return Ok(()) };
    let first = fields.rest_at.and_then(|first| fields.between(first).first());
    let at = first.map_or(fields.end_at(), |token| token.start as usize);
    Err(EntryError::new(at, what).help("copy the whole digest"))
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

/// Parses a type that `domain` knows.
fn known(rtype: Rtype, fields: &mut Fields<'_>, out: &mut Vec<u8>) -> Result<(), EntryError> {
    let at = fields.here();
    let number = DomainRtype::from_int(rtype.0);
    if !is_known(number) {
        let what = format!("{rtype} records have no presentation form here");
        return Err(EntryError::new(at, what)
            .help(format!(r"write it as `TYPE{} \# LENGTH HEX`", rtype.0))
            .rule(BrokenRule::GENERIC_DATA));
    }
    let data = ZoneRecordData::<Vec<u8>, DomainName<Vec<u8>>>::scan(number, fields)
        .map_err(|fault| fields.locate(fault))?;
    if rtype == Rtype::IPSECKEY {
        base64::check_rest(fields)?;
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

/// Whether bytes are valid data of the type.
fn is_valid(rtype: Rtype, rdata: &[u8]) -> bool {
    let is_service = matches!(rtype, Rtype::SVCB | Rtype::HTTPS);
    is_well_formed(rtype, rdata)
        && digest::problem(rtype, rdata).is_none()
        && (!is_service || svcb::is_valid(rdata))
}

/// Whether bytes have the fields of the type, with no compressed name and nothing left over. Data
/// of unknown types is always well-formed.
fn is_well_formed(rtype: Rtype, rdata: &[u8]) -> bool {
    if !form(rtype).is_empty() {
        return fits(form(rtype), rdata);
    }
    let mut parser = Parser::from_ref(rdata);
    let number = DomainRtype::from_int(rtype.0);
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
        half = hex::digits(fields, token, half, out)?;
    }
    if half.is_some() || out.len() != usize::from(len) {
        let what = format!("the length is {len} bytes, but there are {}", out.len());
        let odd = "the number of hexadecimal digits is odd";
        return Err(EntryError::new(at, if half.is_some() { odd.into() } else { what }));
    }
    Ok(())
}
