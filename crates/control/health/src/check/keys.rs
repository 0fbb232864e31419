//! A check as the keys of the config.
use super::{Check, CheckKind, DnsCheck, GrpcCheck, HttpCheck, ScriptCheck, TlsCheck};
use serde_json::{Map, Value, json};
use std::time::Duration;
use wire::Rcode;

impl Check {
    /// All keys of the check with their values, also those that have their default.
    pub fn keys(&self) -> Map<String, Value> {
        let mut keys = Map::new();
        let mut put = |key: &str, value: Value| drop(keys.insert(key.to_owned(), value));
        put("kind", self.kind_word().into());
        if self.port != 0 {
            put("port", self.port.into());
        }
        put("interval", duration(self.interval));
        put("timeout", duration(self.timeout));
        put("rise", self.rise.into());
        put("fall", self.fall.into());
        put("jitter", self.jitter.into());
        match &self.kind {
            CheckKind::Tcp | CheckKind::Icmp => {}
            CheckKind::Http(HttpCheck { path, host, status, body, tls }) => {
                put("path", json!(path));
                put("host", json!(host));
                let ranges = status.iter().map(|range| match range.start() == range.end() {
                    true => range.start().to_string(),
                    false => format!("{}-{}", range.start(), range.end()),
                });
                put("status", ranges.collect::<Vec<_>>().join(",").into());
                put("body", json!(body));
                put_tls(&mut put, tls.as_ref());
            }
            CheckKind::Grpc(GrpcCheck { service, host, tls }) => {
                put("service", json!(service));
                put("host", json!(host));
                put("tls", tls.is_some().into());
                put_tls(&mut put, tls.as_ref());
            }
            CheckKind::Dns(DnsCheck { name, rtype, rcode }) => {
                put("name", name.as_name().to_string().into());
                put("type", rtype.to_string().into());
                put("rcode", rcode_word(*rcode).into());
            }
            CheckKind::Script(ScriptCheck { program, arguments, user }) => {
                let program = program.display().to_string();
                let command: Vec<_> = [&program].into_iter().chain(arguments).collect();
                put("command", json!(command));
                put("user", json!(user));
            }
        }
        keys
    }
}

fn put_tls(put: &mut impl FnMut(&str, Value), tls: Option<&TlsCheck>) {
    let Some(TlsCheck { sni, ca, expiry_warning }) = tls else { return };
    put("sni", json!(sni));
    put("expiry_warning", duration(*expiry_warning));
    if let Some(ca) = ca {
        put("ca", json!(ca));
    }
}

/// A response code, as in the config.
fn rcode_word(rcode: Rcode) -> &'static str {
    match rcode {
        Rcode::NxDomain => "NXDOMAIN",
        Rcode::Refused => "REFUSED",
        Rcode::NotImp => "NOTIMP",
        _ => "NOERROR",
    }
}

/// A duration in its largest unit without a fraction.
fn duration(duration: Duration) -> Value {
    let millis = duration.as_millis();
    let units = [("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
    let is_whole = |(_, unit): &(&str, u128)| millis > 0 && millis.is_multiple_of(*unit);
    let unit = units.into_iter().find(is_whole);
    let (unit, of_unit) = unit.unwrap_or(("ms", 1));
    format!("{}{unit}", millis / of_unit).into()
}
