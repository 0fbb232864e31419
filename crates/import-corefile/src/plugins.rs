//! All plugins, and what becomes of each.
mod access;
mod cache;
mod forward;
mod hosts;
mod operate;
mod rewrite;
mod zone;

pub use operate::listen;

use crate::importer::Importer;
use crate::lex::Word;
use crate::note::shown;
use crate::parse::Directive;

/// A plugin of CoreDNS.
pub struct Plugin {
    name: &'static str,
    /// What becomes of it, as the page tells.
    becomes: &'static str,
    fate: Fate,
}

/// What is done about it.
enum Fate {
    /// This.
    Taken(fn(&mut Importer<'_>, &Directive)),
    /// Nothing is to be done: Dunlin does it anyway, and `becomes` says how.
    Done,
    /// Nothing can be done.
    Lost,
}

use Fate::{Done, Lost, Taken};

/// Every plugin, in the order of their names.
static PLUGINS: &[Plugin] = &[
    plugin("acl", "`[acl] query`, where it is about networks alone", Taken(access::acl)),
    plugin("any", "ANY is always answered with one record set over UDP (RFC 8482)", Done),
    plugin(
        "auto",
        "a `[[zone]]` for each file that is there now, by the usual pattern",
        Taken(zone::auto),
    ),
    plugin("autopath", "clients follow their search path themselves", Lost),
    plugin("azure", "zones come from files", Lost),
    plugin("bind", "`[server] listen`, where it names addresses", Taken(operate::bind)),
    plugin("bufsize", "`[server] udp_size_max`", Taken(operate::bufsize)),
    plugin("cache", "`[cache]`", Taken(cache::cache)),
    plugin("cancel", "every question ends after 4 s at most", Done),
    plugin("chaos", "`[server] version`", Taken(operate::chaos)),
    plugin("clouddns", "zones come from files", Lost),
    plugin("debug", "`[log] level = \"debug\"`", Taken(operate::debug)),
    plugin("dns64", "AAAA records are not made of A records", Lost),
    plugin("dnssec", "zones are signed before they are loaded", Lost),
    plugin("dnstap", "`[dnstap] socket`, where it is a unix socket", Taken(operate::dnstap)),
    plugin("erratic", "this is for tests", Lost),
    plugin("errors", "errors are always logged", Taken(operate::errors)),
    plugin("etcd", "records come from zone files", Lost),
    plugin("file", "a `[[zone]]` for each zone", Taken(zone::file)),
    plugin("forward", "rules of `[forward]`", Taken(forward::forward)),
    plugin("geoip", "answers do not depend on where who asks is", Lost),
    plugin("grpc", "others are not asked over gRPC", Lost),
    plugin("grpc_server", "questions are not taken over gRPC", Lost),
    plugin("header", "flags are set as the RFCs say", Lost),
    plugin(
        "health",
        "`[ops] listen`, with `/healthz`; lameduck is `[server] drain`",
        Taken(operate::health),
    ),
    plugin("hosts", "`[hosts] files`; entries of its own become a file", Taken(hosts::hosts)),
    plugin("https", "questions are not taken over HTTPS", Lost),
    plugin("https3", "questions are not taken over HTTPS", Lost),
    plugin("k8s_external", "Kubernetes is not a source of records", Lost),
    plugin("kubernetes", "Kubernetes is not a source of records", Taken(zone::kubernetes)),
    plugin("loadbalance", "addresses are always dealt in turn", Taken(operate::loadbalance)),
    plugin("local", "localhost and the reverse zones of RFC 6303 are always answered here", Done),
    plugin("log", "`[log.queries] sample = 1`", Taken(operate::log)),
    plugin(
        "loop",
        "loops are found out at any time; the log and `dunlin status` tell, and the server goes on",
        Done,
    ),
    plugin("metadata", "there are no plugins to tell anything", Done),
    plugin(
        "minimal",
        "answers hold what was asked for, and in the additional section what helps and fits",
        Done,
    ),
    plugin("multisocket", "there is a socket for each worker: `[server] workers`", Done),
    plugin("nomad", "Nomad is not a source of records", Lost),
    plugin("nsid", "`[server] nsid`", Taken(operate::nsid)),
    plugin("on", "no commands are run", Lost),
    plugin("pprof", "there are no Go profiles: `perf record` shows a running server", Lost),
    plugin(
        "prometheus",
        "`[ops] listen`, with `/metrics`; the metrics have other names",
        Taken(operate::prometheus),
    ),
    plugin("quic", "questions are not taken over QUIC", Lost),
    plugin("ready", "`[ops] listen`, with `/readyz`", Taken(operate::ready)),
    plugin(
        "reload",
        "zone files are watched; `dunlin reload` takes over a changed config",
        Taken(operate::reload),
    ),
    plugin("rewrite", "`[[rewrite]]`, for whole names and for suffixes", Taken(rewrite::rewrite)),
    plugin("root", "paths of zone files begin with it", Taken(zone::root)),
    plugin("route53", "zones come from files", Lost),
    plugin("secondary", "zones are not transferred from other servers", Lost),
    plugin("sign", "zones are signed before they are loaded", Lost),
    plugin("template", "answers are not made by templates", Lost),
    plugin(
        "timeouts",
        "`[streams] idle` is how long a connection may be idle; all other waits are fixed",
        Lost,
    ),
    plugin("tls", "questions are not taken over TLS", Lost),
    plugin("trace", "questions are not traced; `[dnstap]` tells of each", Lost),
    plugin("transfer", "zones are not transferred to other servers", Lost),
    plugin("tsig", "questions are not signed", Lost),
    plugin("view", "all are told the same", Lost),
    plugin("whoami", "no one is told who they are", Lost),
];

const fn plugin(name: &'static str, becomes: &'static str, fate: Fate) -> Plugin {
    Plugin { name, becomes, fate }
}

/// The plugin of a name.
pub fn find(name: &str) -> Option<&'static Plugin> {
    PLUGINS.iter().find(|plugin| plugin.name == name)
}

/// A table of all plugins, as the page has it.
pub fn table() -> String {
    let mut table = String::from("| plugin | what becomes of it |\n| --- | --- |\n");
    for Plugin { name, becomes, fate } in PLUGINS {
        let lost = if matches!(fate, Lost) { "**lost**: " } else { "" };
        table += &format!("| `{name}` | {lost}{becomes} |\n");
    }
    table
}

impl Plugin {
    /// Takes it over.
    pub fn take(&self, importer: &mut Importer<'_>, directive: &Directive) {
        let Self { name, becomes, fate } = self;
        match fate {
            Taken(take) => take(importer, directive),
            Done => importer.note(&directive.name, &format!("{name}: {becomes}")),
            Lost => importer.lost(&directive.name, &format!("{name}: {becomes}")),
        }
    }
}

/// Seconds of a duration as Go writes them, such as `1h30m`, or of a number.
pub(crate) fn seconds(text: &str) -> Option<u64> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let (mut sum, mut rest) = (0.0_f64, text);
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, unit) = rest.split_at(end);
        let end = unit.find(|letter: char| letter.is_ascii_digit()).unwrap_or(unit.len());
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
    // A week is more than anything here lasts.
    (!text.is_empty()).then(|| sum.ceil().min(604_800.0) as u64)
}

/// The seconds that a word stands for; what is none is told.
pub(crate) fn read_seconds(importer: &mut Importer<'_>, word: &Word) -> Option<u64> {
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
    fn the_table_is_in_order_and_tells_each_plugin_once() {
        assert!(PLUGINS.is_sorted_by(|a, b| a.name < b.name));
        assert!(PLUGINS.len() > 50);
    }

    #[test]
    fn times_are_as_go_writes_them() {
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
