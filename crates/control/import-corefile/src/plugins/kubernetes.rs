//! `kubernetes [ZONES…] { … }`: the section `[kubernetes]`.
use super::zone::own_zones;
use crate::importer::Importer;
use crate::lex::CorefileWord;
use crate::parse::Directive;
use crate::zones;
use import_report::shown;
use import_report::{array, quote};

/// The longest time that CoreDNS lets its records be cached, in seconds.
const TTL_MAX: u64 = 3600;
/// Zones of reverse names.
const REVERSE: [&str; 2] = ["in-addr.arpa", "ip6.arpa"];

pub fn kubernetes(importer: &mut Importer<'_>, directive: &Directive) {
    if !importer.draft.kubernetes.is_empty() {
        let text = "kubernetes: Dunlin watches one cluster: that of the first block is imported";
        return importer.lost(&directive.name, text);
    }
    let (reverse, mut names): (Vec<String>, Vec<String>) =
        own_zones(importer, &directive.args).into_iter().partition(|zone| is_reverse(zone));
    if !reverse.is_empty() {
        let text = "kubernetes: reverse names need no zone, and are looked up elsewhere where the \
                    cluster does not have them";
        importer.note(&directive.name, text);
    }
    let body = &directive.body;
    importer.claims_reverse = !reverse.is_empty() && !body.iter().any(passes_reverse);
    let multicluster = body.iter().find(|option| option.name.text == "multicluster");
    let multicluster = multicluster.map(|option| named(importer, &option.args)).unwrap_or_default();
    names.retain(|zone| !multicluster.contains(zone));
    if names.is_empty() {
        return importer.lost(&directive.name, "kubernetes: a zone of names is missing");
    }
    let own = [&names[..], &multicluster].concat();
    let mut keys = vec![("zones", array(&names)), ("compat", quote("coredns"))];
    if !multicluster.is_empty() {
        keys.push(("multicluster_zones", array(&multicluster)));
    }
    for option in body {
        let words = &option.args;
        match option.name.text.as_str() {
            "multicluster" => {}
            "fallthrough" => {
                let zones = through(importer, words, &own);
                if !zones.is_empty() {
                    keys.push(("fallthrough", array(&zones)));
                }
            }
            _ => keys.extend(read(importer, option)),
        }
    }
    importer.draft.kubernetes = keys;
}

/// Whether an option passes on reverse names that the cluster does not have.
fn passes_reverse(option: &Directive) -> bool {
    let names_reverse = |word: &CorefileWord| {
        let zones = zones::zones(&word.text).unwrap_or_default();
        zones.iter().any(|zone| zone == "." || is_reverse(zone))
    };
    let words = &option.args;
    option.name.text == "fallthrough" && (words.is_empty() || words.iter().any(names_reverse))
}

fn is_reverse(zone: &str) -> bool {
    let is_below = |above: &&str| zone.strip_suffix(above).is_some_and(|rest| rest.ends_with('.'));
    REVERSE.iter().any(|above| zone == *above || is_below(above))
}

/// The zones of the cluster whose names fall through: all, or those at and below the given names.
fn through(importer: &mut Importer<'_>, words: &[CorefileWord], own: &[String]) -> Vec<String> {
    if words.is_empty() {
        return own.to_vec();
    }
    let mut found: Vec<String> = Vec::new();
    for word in words {
        let zones = named(importer, std::slice::from_ref(word));
        let is_covered = |zone: &String, by: &String| {
            let rest = zone.strip_suffix(by.as_str());
            by == "." || rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        let covered = own.iter().filter(|zone| zones.iter().any(|by| is_covered(zone, by)));
        let covered: Vec<String> = covered.cloned().collect();
        if covered.is_empty() && !zones.iter().all(|zone| is_reverse(zone)) {
            let text = format!(
                "kubernetes fallthrough {}: only the names of a whole zone fall through",
                shown(&word.text)
            );
            importer.lost(word, &text);
        }
        found.extend(covered);
    }
    found.sort();
    found.dedup();
    found
}

fn named(importer: &mut Importer<'_>, words: &[CorefileWord]) -> Vec<String> {
    let mut named = Vec::new();
    for word in words {
        match zones::zones(&word.text) {
            Ok(zones) => named.extend(zones),
            Err(why) => importer.lost(word, &why),
        }
    }
    named
}

/// The keys of an option, each with its value as TOML.
fn read(importer: &mut Importer<'_>, option: &Directive) -> Vec<(&'static str, String)> {
    let (name, words) = (&option.name, &option.args);
    let first = words.first().map(|word| word.text.as_str()).unwrap_or_default();
    let yes = |key| vec![(key, "true".to_owned())];
    let text = || {
        let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        quote(&words.join(" "))
    };
    match name.text.as_str() {
        "endpoint_pod_names" => yes("endpoint_pod_names"),
        "zonal" => yes("zonal"),
        "noendpoints" => vec![("endpoints", "false".to_owned())],
        "ignore" if first == "empty_service" => yes("ignore_empty_services"),
        "pods" if ["disabled", "verified", "insecure"].contains(&first) => {
            vec![("pods", quote(first))]
        }
        "namespaces" if !words.is_empty() => {
            let all: Vec<String> = words.iter().map(|word| word.text.clone()).collect();
            vec![("namespaces", array(&all))]
        }
        "labels" if !words.is_empty() => vec![("labels", text())],
        "namespace_labels" if !words.is_empty() => vec![("namespace_labels", text())],
        "ttl" => ttl(importer, name, first),
        "kubeconfig" if !words.is_empty() => {
            let context = words.get(1).map(|word| ("context", quote(&word.text)));
            std::iter::once(("kubeconfig", quote(&importer.path(&words[0]))))
                .chain(context)
                .collect()
        }
        "startup_timeout" | "apiserver_qps" | "apiserver_burst" | "apiserver_max_inflight" => {
            let text = format!(
                "kubernetes {}: a watch per kind of object needs no such limit",
                shown(&name.text)
            );
            importer.note(name, &text);
            Vec::new()
        }
        "endpoint" | "tls" => {
            let text = format!(
                "kubernetes {}: write a kubeconfig with the same content, and name it in \
                 `kubeconfig`",
                shown(&name.text)
            );
            importer.lost(name, &text);
            Vec::new()
        }
        other => {
            let text = format!("kubernetes {{ {} }}: unknown option, or value", shown(other));
            importer.lost(name, &text);
            Vec::new()
        }
    }
}

/// CoreDNS has one time for records and for their absence.
fn ttl(
    importer: &mut Importer<'_>,
    name: &CorefileWord,
    seconds: &str,
) -> Vec<(&'static str, String)> {
    match seconds.parse::<u64>() {
        Ok(seconds) if seconds <= TTL_MAX => {
            let value = quote(&format!("{seconds}s"));
            vec![("ttl", value.clone()), ("negative_ttl", value)]
        }
        _ => {
            let text = format!("kubernetes ttl {}: not 0 to {TTL_MAX}", shown(seconds));
            importer.lost(name, &text);
            Vec::new()
        }
    }
}
