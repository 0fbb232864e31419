//! All plugins of CoreDNS, and how each is imported.
mod access;
mod cache;
mod forward;
mod hosts;
mod kubernetes;
mod operate;
mod rewrite;
mod zone;

pub use forward::servers;
pub use operate::listen;

use crate::importer::Importer;
use crate::lex::CorefileWord;
use crate::parse::Directive;
use import_report::shown;

/// A plugin of CoreDNS.
pub struct Plugin {
    name: &'static str,
    /// The result, as shown in the documentation.
    becomes: &'static str,
    support: PluginSupport,
}

/// How a plugin is imported.
enum PluginSupport {
    /// By this function.
    Taken(fn(&mut Importer<'_>, &Directive)),
    /// Nothing to import: Dunlin always does it, as `becomes` says.
    Done,
    /// It has no counterpart.
    Lost,
}

use PluginSupport::{Done, Lost, Taken};

/// All plugins, sorted by name.
static PLUGINS: &[Plugin] = &[
    plugin("acl", "`[acl] query`, for rules about networks", Taken(access::acl)),
    plugin(
        "any",
        "ANY is always answered with the smallest record set over UDP, and with all sets over TCP \
         (RFC 8482)",
        Done,
    ),
    plugin(
        "auto",
        "a `[[zone]]` for each file that exists now, by the usual pattern",
        Taken(zone::auto),
    ),
    plugin("autopath", "no equivalent: each client tries its search domains itself", Lost),
    plugin("azure", "zones come from files", Lost),
    plugin("bind", "`[server] listen`, for addresses", Taken(operate::bind)),
    plugin("bufsize", "`[server] udp_size_max`", Taken(operate::bufsize)),
    plugin("cache", "`[cache]`", Taken(cache::cache)),
    plugin("cancel", "every query ends after at most 4 s", Done),
    plugin("chaos", "`[server] version`", Taken(operate::chaos)),
    plugin("clouddns", "zones come from files", Lost),
    plugin("debug", "`[log] level = \"debug\"`", Taken(operate::debug)),
    plugin("dns64", "Dunlin does not make AAAA records from A records", Lost),
    plugin("dnssec", "zones are signed before they are loaded", Lost),
    plugin("dnstap", "`[dnstap] socket`, for a Unix socket", Taken(operate::dnstap)),
    plugin("erratic", "a plugin for tests", Lost),
    plugin("errors", "errors are always logged", Taken(operate::errors)),
    plugin("etcd", "set [store] kind = \"etcd\", and write the records over the API", Lost),
    plugin("file", "a `[[zone]]` for each zone", Taken(zone::file)),
    plugin("forward", "rules of `[forward]`", Taken(forward::forward)),
    plugin("geoip", "answers do not depend on the client's location", Lost),
    plugin("grpc", "Dunlin does not query over gRPC", Lost),
    plugin("grpc_server", "Dunlin does not serve gRPC", Lost),
    plugin("header", "Dunlin sets flags as the RFCs require", Lost),
    plugin(
        "health",
        "`[ops] listen`, with `/healthz`; lameduck is `[server] drain`",
        Taken(operate::health),
    ),
    plugin("hosts", "`[hosts] files`; inline entries become a file", Taken(hosts::hosts)),
    plugin("https", "Dunlin does not serve HTTPS", Lost),
    plugin("https3", "Dunlin does not serve HTTPS", Lost),
    plugin("k8s_external", "external addresses of services have no names", Lost),
    plugin("kubernetes", "`[kubernetes]`, for one cluster", Taken(kubernetes::kubernetes)),
    plugin(
        "loadbalance",
        "addresses are always returned in random order",
        Taken(operate::loadbalance),
    ),
    plugin("local", "rules of `[forward]` with `mode = \"local\"`", Taken(operate::local)),
    plugin("log", "`[log.queries] sample = 1`", Taken(operate::log)),
    plugin("loop", "loops are always detected; the log and `dunlin status` show them", Done),
    plugin("metadata", "Dunlin has no plugins that use metadata", Done),
    plugin(
        "minimal",
        "answers contain the requested records, and useful additional records that fit",
        Done,
    ),
    plugin("multisocket", "each worker has a socket: `[server] workers`", Done),
    plugin("nomad", "Nomad is not a source of records", Lost),
    plugin("nsid", "`[server] nsid`", Taken(operate::nsid)),
    plugin("on", "Dunlin runs no commands", Lost),
    plugin("pprof", "there are no Go profiles; use `perf record`", Lost),
    plugin(
        "prometheus",
        "`[ops] listen`, with `/metrics`; the metrics have other names",
        Taken(operate::prometheus),
    ),
    plugin("quic", "Dunlin does not serve QUIC", Lost),
    plugin("ready", "`[ops] listen`, with `/readyz`", Taken(operate::ready)),
    plugin(
        "reload",
        "`[server] watch_config`; zone files are always watched",
        Taken(operate::reload),
    ),
    plugin("rewrite", "`[[rewrite]]`, for whole names and for suffixes", Taken(rewrite::rewrite)),
    plugin("root", "a prefix of the paths of zone files", Taken(zone::root)),
    plugin("route53", "zones come from files", Lost),
    plugin("secondary", "write a section `[[zone]]` with `primaries` (docs/secondary.md)", Lost),
    plugin("sign", "zones are signed before they are loaded", Lost),
    plugin("template", "Dunlin has no templates", Lost),
    plugin(
        "timeouts",
        "`[streams] idle` is the idle timeout of a connection; all other timeouts are fixed",
        Lost,
    ),
    plugin("tls", "Dunlin does not serve TLS", Lost),
    plugin("trace", "Dunlin has no traces; use `[dnstap]`", Lost),
    plugin("transfer", "Dunlin does not transfer zones to other servers", Lost),
    plugin("tsig", "Dunlin does not support TSIG", Lost),
    plugin("view", "all clients get the same answers", Lost),
    plugin("whoami", "Dunlin does not return the client's address", Lost),
];

const fn plugin(name: &'static str, becomes: &'static str, support: PluginSupport) -> Plugin {
    Plugin { name, becomes, support }
}

/// The plugin with this name.
pub fn find(name: &str) -> Option<&'static Plugin> {
    PLUGINS.iter().find(|plugin| plugin.name == name)
}

/// A Markdown table of all plugins.
pub fn table() -> String {
    let mut table = String::from("| plugin | result |\n| --- | --- |\n");
    for Plugin { name, becomes, support } in PLUGINS {
        let lost = if matches!(support, Lost) { "**lost**: " } else { "" };
        table += &format!("| `{name}` | {lost}{becomes} |\n");
    }
    table
}

impl Plugin {
    /// Imports a directive.
    pub fn take(&self, importer: &mut Importer<'_>, directive: &Directive) {
        let Self { name, becomes, support } = self;
        match support {
            Taken(take) => take(importer, directive),
            Done => importer.note(&directive.name, &format!("{name}: {becomes}")),
            Lost => importer.lost(&directive.name, &format!("{name}: {becomes}")),
        }
    }
}

/// Seconds of a Go duration, such as `1h30m`, or of a number.
pub(crate) fn seconds(text: &str) -> Option<u64> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let (mut sum, mut rest) = (0.0_f64, text);
    while !rest.is_empty() {
        let end = rest.find(|character: char| !character.is_ascii_digit() && character != '.')?;
        let (number, unit) = rest.split_at(end);
        let end = unit.find(|character: char| character.is_ascii_digit()).unwrap_or(unit.len());
        let (unit, behind) = unit.split_at(end);
        let factor = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        sum += number.parse::<f64>().ok()? * factor;
        rest = behind;
    }
    // A week is the maximum of all these times.
    (!text.is_empty()).then(|| sum.ceil().min(604_800.0) as u64)
}

/// The seconds in a word; adds a note if it is not a time.
pub(crate) fn read_seconds(importer: &mut Importer<'_>, word: &CorefileWord) -> Option<u64> {
    let seconds = seconds(&word.text);
    if seconds.is_none() {
        importer.lost(word, &format!("{}: this is not a time", shown(&word.text)));
    }
    seconds.map(|seconds| seconds.min(604_800))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_table_is_sorted_without_duplicates() {
        assert!(PLUGINS.is_sorted_by(|a, b| a.name < b.name));
        assert!(PLUGINS.len() > 50);
    }

    #[test]
    fn go_durations_are_parsed() {
        for (text, expected) in [
            ("30", Some(30)),
            ("5s", Some(5)),
            ("1h30m", Some(5400)),
            ("1.5m", Some(90)),
            ("300ms", Some(1)),
            ("0s", Some(0)),
            ("", None),
            ("s", None),
            ("5x", None),
            ("-5s", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
