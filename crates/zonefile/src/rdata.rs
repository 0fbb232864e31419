//! Record data into wire form: types of simple parts by their form, keys and digests and
//! parameters through the `domain` crate, all others as RFC 3597 has it.
use domain::base::Name as DomainName;
use domain::base::iana::Rtype as DomainRtype;
use domain::base::name::ParsedName;
use domain::base::rdata::{ComposeRecordData, ParseAnyRecordData};
use domain::dep::octseq::parse::Parser;
use domain::rdata::{AllRecordData, ZoneRecordData};
use model::Rule;
use wire::Rtype;

use crate::fields::Fields;
use crate::form::{fits, form};
use crate::limits::RDATA_OCTETS_MAX;
use crate::report::{Fault, quote};

/// Reads the fields that are left as the data of a record of type `rtype` into `out`. The result
/// is valid for the type, its names uncompressed and in the case of the file.
pub(crate) fn read(rtype: Rtype, fields: &mut Fields<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    parse(rtype, fields, out).map_err(|fault| fault.rule(Rule::DATA))
}

fn parse(rtype: Rtype, fields: &mut Fields<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    out.clear();
    let at = fields.here();
    if fields.peek().is_some_and(|token| !token.quoted && fields.raw(token) == b"\\#") {
        generic(fields, out).map_err(|fault| fault.rule(Rule::GENERIC_DATA))?;
        if !is_valid(rtype, out) {
            return Err(Fault::new(
                at,
                format!("these octets are not the data of a {rtype} record"),
            )
            .rule(Rule::GENERIC_DATA));
        }
        return Ok(());
    }
    match form(rtype) {
        [] => known(rtype, fields, out)?,
        parts => parts.iter().try_for_each(|part| part.read(fields, out))?,
    }
    fields.end()?;
    check_len(at, out)
}

fn check_len(at: usize, out: &[u8]) -> Result<(), Fault> {
    if out.len() > RDATA_OCTETS_MAX {
        let what = format!("the record data has {} octets", out.len());
        return Err(Fault::new(at, what)
            .help(format!("it may have {RDATA_OCTETS_MAX}"))
            .rule(Rule::LIMIT));
    }
    Ok(())
}

/// The type whose presentation form and wire form another type has too.
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

/// What `domain` knows how to read.
fn known(rtype: Rtype, fields: &mut Fields<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let at = fields.here();
    let number = DomainRtype::from_int(like(rtype).0);
    if !is_known(number) {
        let what = format!("the data of {rtype} records has no form of its own here");
        return Err(Fault::new(at, what)
            .help(r"write it as `\# LENGTH HEX`")
            .rule(Rule::GENERIC_DATA));
    }
    let data = ZoneRecordData::<Vec<u8>, DomainName<Vec<u8>>>::scan(number, fields)
        .map_err(|fault| fields.locate(fault))?;
    if fields.lacks_rest && rtype != Rtype::IPSECKEY {
        return Err(Fault::new(fields.here(), "the last field is missing here"));
    }
    let Ok(()) = data.compose_rdata(out);
    if !is_valid(rtype, out) {
        return Err(Fault::new(at, format!("this is not the data of a {rtype} record")));
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

/// Whether octets are the data of a record of the type: of parts that fit, or else read, and the
/// same when written again, so that no name in them is compressed and nothing is left over. Of
/// types that nobody knows all octets are.
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
fn generic(fields: &mut Fields<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    fields.token("the marker")?;
    let at = fields.here();
    let len: u16 = fields.parse("a length up to 65535")?;
    let mut half = None;
    while fields.peek().is_some() {
        let token = fields.token("hexadecimal digits")?;
        for (i, &octet) in fields.raw(token).iter().enumerate() {
            let at = token.start as usize + i;
            let digit = char::from(octet).to_digit(16).ok_or_else(|| {
                Fault::new(at, format!("{} is not a hexadecimal digit", quote(&[octet])))
            })? as u8;
            match half.take() {
                None => half = Some(digit),
                Some(high) => out.push(high << 4 | digit),
            }
        }
    }
    if half.is_some() || out.len() != usize::from(len) {
        let what = format!("{len} octets announced, {} given", out.len());
        let odd = "the number of hexadecimal digits is odd";
        return Err(Fault::new(at, if half.is_some() { odd.into() } else { what }));
    }
    Ok(())
}
