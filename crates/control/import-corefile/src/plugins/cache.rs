//! The cache.
use super::read_seconds;
use crate::importer::Importer;
use crate::parse::Directive;
use crate::zones;
use import_report::shown;

/// `cache [TTL] [ZONES…] { … }`. Dunlin has one cache for all zones, with a size in bytes.
pub fn cache(importer: &mut Importer<'_>, directive: &Directive) {
    let mut args = directive.args.iter().peekable();
    if let Some(ttl) = args.next_if(|word| word.text.parse::<u64>().is_ok()) {
        let seconds = read_seconds(importer, ttl);
        if let Some(seconds) = seconds {
            importer.keep(ttl, "cache TTL", seconds, |draft| &mut draft.ttl_max);
            importer.keep(ttl, "cache TTL", seconds, |draft| &mut draft.negative_ttl_max);
        }
    }
    for zone in args {
        let zone_text = shown(&zone.text);
        importer.lost(zone, &format!("cache … {zone_text}: answers of all names are cached"));
    }
    for option in &directive.body {
        self::option(importer, option);
    }
}

fn option(importer: &mut Importer<'_>, option: &Directive) {
    let name = &option.name;
    match name.text.as_str() {
        "success" => limits(importer, option, true),
        "denial" => limits(importer, option, false),
        "prefetch" => importer.note(
            name,
            "cache prefetch: frequently used answers are always refreshed before they expire",
        ),
        "serve_stale" => stale(importer, option),
        "servfail" => failures(importer, option),
        "keepttl" => importer.lost(name, "cache keepttl: TTLs count down"),
        "disable" => disable(importer, option),
        other => {
            let text = format!("cache {{ {} }}: unknown option", shown(other));
            importer.lost(name, &text);
        }
    }
}

/// `disable success|denial [ZONES…]`.
fn disable(importer: &mut Importer<'_>, option: &Directive) {
    let zones: Option<Vec<String>> = option
        .args
        .iter()
        .skip(1)
        .map(|word| zones::zones(&word.text).ok())
        .collect::<Option<Vec<Vec<String>>>>()
        .map(|zones| zones.concat());
    let own = &importer.own_zones;
    let is_own = |zone: &String| own.iter().any(|own| zones::is_within(zone, own));
    match zones {
        Some(zones) if !zones.is_empty() && zones.iter().all(is_own) => importer.note(
            &option.name,
            "cache disable: these names are never cached, because the server has their records",
        ),
        _ => importer.lost(
            &option.name,
            "cache disable: positive and negative answers of upstreams are always cached",
        ),
    }
}

/// `success CAPACITY [TTL] [MINTTL]`, or `denial`.
fn limits(importer: &mut Importer<'_>, option: &Directive, is_success: bool) {
    let what = if is_success { "cache success" } else { "cache denial" };
    if let Some(capacity) = option.args.first() {
        let text = format!(
            "{what} {}: the cache has a size in bytes, [cache] memory, which is 64MiB and holds \
             some 380,000 answers",
            shown(&capacity.text)
        );
        importer.note(capacity, &text);
    }
    if let Some(ttl) = option.args.get(1)
        && let Some(seconds) = read_seconds(importer, ttl)
    {
        let draft = &mut importer.draft;
        // It takes precedence over the common TTL.
        let slot = if is_success { &mut draft.ttl_max } else { &mut draft.negative_ttl_max };
        *slot = Some(seconds);
    }
    if let Some(ttl) = option.args.get(2) {
        if !is_success {
            importer
                .lost(ttl, "cache denial … MINTTL: there is one for all answers, [cache] ttl_min");
        } else if let Some(seconds) = read_seconds(importer, ttl) {
            importer.keep(ttl, what, seconds, |draft| &mut draft.ttl_min);
        }
    }
    importer.no_more(option, 3);
}

/// `servfail DURATION`.
fn failures(importer: &mut Importer<'_>, option: &Directive) {
    let Some(word) = option.args.first() else {
        return importer.lost(&option.name, "cache servfail: a time is missing");
    };
    importer.no_more(option, 1);
    let Some(seconds) = read_seconds(importer, word) else { return };
    if seconds == 0 {
        let text = "cache servfail 0: failures are cached for at least a second (RFC 9520)";
        importer.lost(word, text);
    }
    let text = "cache servfail: failures are cached twice as long each time, \
                up to 5 min";
    importer.note(word, text);
    // CoreDNS has the same maximum of five minutes.
    importer.keep(word, "cache servfail", seconds.clamp(1, 300), |draft| &mut draft.failure_ttl);
}

/// `serve_stale [DURATION] [REFRESH_MODE]`.
fn stale(importer: &mut Importer<'_>, option: &Directive) {
    let seconds = match option.args.first() {
        None => Some(3600),
        Some(word) => read_seconds(importer, word),
    };
    if let Some(seconds) = seconds {
        // CoreDNS's default is an hour; 0 means forever.
        let seconds = if seconds == 0 { 604_800 } else { seconds };
        importer.keep(&option.name, "serve_stale", seconds, |draft| &mut draft.stale);
    }
    if let Some(mode) = option.args.get(1) {
        let text = format!(
            "cache serve_stale … {}: a stale answer is sent after 1.8 s without a fresh one (RFC \
             8767), or at once if the last query failed",
            shown(&mode.text)
        );
        importer.note(mode, &text);
    }
    importer.no_more(option, 2);
}
