//! The kinds of checks, and the keys that each has.
use crate::limits::{
    CHECK_ARGUMENTS_MAX, EXPIRY_WARNING, PATH_LEN_MAX, STATUS_RANGES_MAX, TEXT_LEN_MAX,
};
use crate::section::Section;
use crate::units;
use crate::values::{self, Wrong};
use ::health::{CheckKind, DnsCheck, GrpcCheck, HttpCheck, ScriptCheck, TlsCheck};
use std::ops::RangeInclusive;
use std::path::Path;
use toml::de::DeValue;
use wire::{Rcode, Rtype};

/// The kinds of checks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Tcp,
    Http,
    Https,
    Grpc,
    Dns,
    Icmp,
    Script,
}

impl Kind {
    const WORDS: [(&'static str, Self); 7] = [
        ("tcp", Self::Tcp),
        ("http", Self::Http),
        ("https", Self::Https),
        ("grpc", Self::Grpc),
        ("dns", Self::Dns),
        ("icmp", Self::Icmp),
        ("script", Self::Script),
    ];

    pub fn read(section: &mut Section<'_, '_>) -> Option<Self> {
        section.require("kind", values::word(Self::WORDS)).map(toml::Spanned::into_inner)
    }
}

/// The port; 0 if the kind has none. `None`: it is missing or wrong, which is reported.
pub fn read_port(kind: Option<Kind>, section: &mut Section<'_, '_>) -> Option<u16> {
    let number = values::number(1..=u16::MAX);
    match kind {
        Some(Kind::Dns) => Some(section.read("port", 53, number)),
        Some(Kind::Script) => Some(section.read("port", 0, number)),
        Some(Kind::Icmp) => Some(0),
        _ => section.require("port", number).map(toml::Spanned::into_inner),
    }
}

/// Reads the keys of a kind; files are relative to this folder. `None`: a key is missing or wrong,
/// which is reported.
pub fn read(kind: Kind, section: &mut Section<'_, '_>, folder: &Path) -> Option<CheckKind> {
    Some(match kind {
        Kind::Tcp => CheckKind::Tcp,
        Kind::Icmp => CheckKind::Icmp,
        Kind::Http => CheckKind::Http(read_http(section, None)),
        Kind::Https => {
            let tls = read_tls(section, folder);
            CheckKind::Http(read_http(section, Some(tls)))
        }
        Kind::Grpc => {
            let is_tls = section.read("tls", false, values::boolean);
            CheckKind::Grpc(GrpcCheck {
                service: text(section, "service"),
                host: section.read("host", String::new(), host),
                tls: is_tls.then(|| read_tls(section, folder)),
            })
        }
        Kind::Dns => CheckKind::Dns(read_dns(section)?),
        Kind::Script => CheckKind::Script(read_script(section)?),
    })
}

fn text(section: &mut Section<'_, '_>, key: &'static str) -> String {
    section.read(key, String::new(), values::text(TEXT_LEN_MAX))
}

fn read_tls(section: &mut Section<'_, '_>, folder: &Path) -> TlsCheck {
    let ca = section.read("ca", None, |value| values::file(value).map(Some));
    let warning = section.read(
        "expiry_warning",
        TlsCheck::default().expiry_warning,
        units::duration(EXPIRY_WARNING),
    );
    TlsCheck {
        sni: text(section, "sni"),
        ca: ca.map(|ca| folder.join(ca)),
        expiry_warning: warning,
    }
}

fn read_http(section: &mut Section<'_, '_>, tls: Option<TlsCheck>) -> HttpCheck {
    HttpCheck {
        path: section.read("path", "/".into(), path),
        host: section.read("host", String::new(), host),
        status: section.read("status", vec![200..=299], statuses),
        body: text(section, "body"),
        tls,
    }
}

fn read_dns(section: &mut Section<'_, '_>) -> Option<DnsCheck> {
    let name = section.require("name", values::zone_name);
    let rtype = section.read("type", Rtype::A, |value| {
        match value.as_str().and_then(|text| text.parse().ok()) {
            Some(rtype) => Ok(rtype),
            None => values::expected("a type of records such as \"A\" or \"SOA\"", value),
        }
    });
    let rcodes = [
        ("NOERROR", Rcode::NoError),
        ("NXDOMAIN", Rcode::NxDomain),
        ("REFUSED", Rcode::Refused),
        ("NOTIMP", Rcode::NotImp),
    ];
    let rcode = section.read("rcode", Rcode::NoError, values::word(rcodes));
    Some(DnsCheck { name: name?.into_inner(), rtype, rcode })
}

fn read_script(section: &mut Section<'_, '_>) -> Option<ScriptCheck> {
    if !section.has("command") {
        section.missing("command");
    }
    let words =
        section.list("command", Vec::new(), CHECK_ARGUMENTS_MAX, values::text(PATH_LEN_MAX));
    if words.first().is_none_or(|program| !program.starts_with('/')) {
        section.wrong(
            "command",
            "does not begin with the absolute path of a program",
            "there is no shell: [\"/usr/local/bin/check-web\", \"{address}\", \"{port}\"]",
        );
    }
    let user = section.require("user", values::text(TEXT_LEN_MAX));
    let mut words = words.into_iter();
    let program = words.next().filter(|program| program.starts_with('/'))?;
    let user = user?.into_inner();
    Some(ScriptCheck { program: program.into(), arguments: words.collect(), user })
}

/// A path with an optional query, as a request has it.
fn path(value: &DeValue<'_>) -> Result<String, Wrong> {
    let text = values::text(TEXT_LEN_MAX)(value)?;
    let is_valid = text.starts_with('/') && text.bytes().all(|byte| (b'!'..=b'~').contains(&byte));
    match is_valid {
        true => Ok(text),
        false => Err(Wrong {
            message: format!("{:?} is not the path of a request", values::shorten(&text)),
            help: Some("begin with `/`, and encode spaces and other letters as %20".into()),
        }),
    }
}

/// A Host field: a name or an address, and a port if it is not the usual one.
fn host(value: &DeValue<'_>) -> Result<String, Wrong> {
    let text = values::text(TEXT_LEN_MAX)(value)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    match text.bytes().all(is_plain) {
        true => Ok(text),
        false => Err(format!("{:?} is not the name of a host", values::shorten(&text)).into()),
    }
}

/// Status codes: one such as 200, a text such as "200-299,404", or an array of both.
fn statuses(value: &DeValue<'_>) -> Result<Vec<RangeInclusive<u16>>, Wrong> {
    let ranges = match value {
        DeValue::Array(array) => {
            let each = array.iter().map(|one| status(one.get_ref()));
            each.collect::<Result<Vec<_>, _>>()?.concat()
        }
        value => status(value)?,
    };
    match ranges.len() {
        1..=STATUS_RANGES_MAX => Ok(ranges),
        _ => Err(format!("1 to {STATUS_RANGES_MAX} codes or ranges of them").into()),
    }
}

/// Codes and ranges, in a number or a text.
fn status(value: &DeValue<'_>) -> Result<Vec<RangeInclusive<u16>>, Wrong> {
    if value.as_integer().is_some() {
        let code = values::number(100..=599)(value)?;
        return Ok(vec![code..=code]);
    }
    let text = values::text(TEXT_LEN_MAX)(value)?;
    let code = |text: &str| text.parse().ok().filter(|code| (100..=599).contains(code));
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (code(first.trim())?, code(last.trim())?);
        (first <= last).then_some(first..=last)
    };
    text.split(',').map(range).collect::<Option<Vec<_>>>().ok_or_else(|| Wrong {
        message: format!("{:?} is not a list of status codes", values::shorten(&text)),
        help: Some("write one such as 200, or ranges such as \"200-299,404\"".into()),
    })
}
