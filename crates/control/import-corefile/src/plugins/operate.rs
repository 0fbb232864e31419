//! Listen addresses, logs, metrics and health.
use super::read_seconds;
use crate::importer::Importer;
use crate::lex::CorefileWord;
use crate::limits::NSID_LEN_MAX;
use crate::parse::{Block, Directive};
use import_report::shown;
use std::net::IpAddr;

/// Adds the addresses of a block: those in `bind`, or all.
pub fn listen(importer: &mut Importer<'_>, block: &Block, ports: &[u16]) {
    let binds = block.directives.iter().filter(|directive| directive.name.text == "bind");
    let bound: Vec<IpAddr> =
        binds.flat_map(|bind| &bind.args).filter_map(|word| word.text.parse().ok()).collect();
    for port in ports {
        let all = [IpAddr::from([0; 4]), IpAddr::from([0; 16])];
        for ip in if bound.is_empty() { &all[..] } else { &bound } {
            let address = match ip {
                IpAddr::V4(ip) => format!("{ip}:{port}"),
                IpAddr::V6(ip) => format!("[{ip}]:{port}"),
            };
            if !importer.draft.listen.contains(&address) {
                importer.draft.listen.push(address);
            }
        }
    }
}

/// `bind ADDRESS
/// IFACE… { except … }`: addresses with the block's ports.
pub fn bind(importer: &mut Importer<'_>, directive: &Directive) {
    for word in &directive.args {
        if word.text.parse::<IpAddr>().is_err() {
            let text = format!(
                "bind {}: this is not an address; set those of the interface in [server] listen",
                shown(&word.text)
            );
            importer.lost(word, &text);
        }
    }
    importer.no_more(directive, usize::MAX);
}

/// `local`.
pub fn local(importer: &mut Importer<'_>, directive: &Directive) {
    importer.has_local = true;
    let text =
        "local: the names localhost.DOMAIN and the reverse name of 127.0.0.1 are not answered";
    importer.lost(&directive.name, text);
    importer.no_more(directive, 0);
}

/// `bufsize [SIZE]`.
pub fn bufsize(importer: &mut Importer<'_>, directive: &Directive) {
    let size = match directive.args.first() {
        None => Some(1232),
        Some(word) => word.text.parse::<u32>().ok(),
    };
    let word = directive.args.first().unwrap_or(&directive.name);
    match size {
        Some(size) => {
            let fits = size.clamp(512, 4096);
            if fits != size {
                importer.note(word, &format!("bufsize {size}: it is 512 to 4096, so {fits}"));
            }
            importer.keep(word, "bufsize", fits, |draft| &mut draft.udp_size_max);
        }
        None => importer.lost(word, "bufsize: this is not a number"),
    }
    importer.no_more(directive, 1);
}

/// `chaos [VERSION] [AUTHORS…]`.
pub fn chaos(importer: &mut Importer<'_>, directive: &Directive) {
    if let Some(version) = directive.args.first() {
        let text = version.text.chars().take(255).collect();
        importer.keep(version, "chaos", text, |draft| &mut draft.version);
    }
    if let Some(author) = directive.args.get(1) {
        importer.lost(author, "chaos AUTHORS: authors.bind is not supported");
    }
}

/// `debug`.
pub fn debug(importer: &mut Importer<'_>, directive: &Directive) {
    importer.keep(&directive.name, "debug", "debug", |draft| &mut draft.log_level);
    importer.no_more(directive, 0);
}

/// `dnstap SOCKET [full] [BUFFERS] { … }`.
pub fn dnstap(importer: &mut Importer<'_>, directive: &Directive) {
    let Some(socket) = directive.args.first() else {
        return importer.lost(&directive.name, "dnstap: a socket is missing");
    };
    let path = socket.text.strip_prefix("unix://").unwrap_or(&socket.text);
    if path.contains("://") {
        let text = format!("dnstap {}: only Unix sockets are supported", shown(path));
        importer.lost(socket, &text);
    } else {
        importer.keep(socket, "dnstap", path.to_owned(), |draft| &mut draft.dnstap);
    }
    if !directive.args.iter().any(|word| word.text == "full") {
        importer.note(&directive.name, "dnstap: whole messages are always sent");
    }
    for extra in directive.args.iter().skip(1).filter(|word| word.text != "full") {
        let text = format!("dnstap … {}: unknown argument", shown(&extra.text));
        importer.lost(extra, &text);
    }
    for option in &directive.body {
        let text = format!("dnstap {{ {} }}: unknown option", shown(&option.name.text));
        importer.lost(&option.name, &text);
    }
}

/// `errors { … }`: errors are always logged.
pub fn errors(importer: &mut Importer<'_>, directive: &Directive) {
    for option in &directive.body {
        let text = format!("errors {{ {} }}: each error is logged once", shown(&option.name.text));
        importer.note(&option.name, &text);
    }
    for arg in &directive.args {
        importer.note(arg, "errors: errors are logged to standard error");
    }
}

/// Sets the address for metrics and health; the first address wins.
fn watched(importer: &mut Importer<'_>, word: &CorefileWord, address: &str, what: &str) {
    let address = match address.strip_prefix(':') {
        Some(port) => format!("0.0.0.0:{port}"),
        None => address.replacen("localhost:", "127.0.0.1:", 1),
    };
    if address.parse::<std::net::SocketAddr>().is_err() {
        let text = format!("{}: this is not an address with a port", shown(&word.text));
        return importer.lost(word, &text);
    }
    match &importer.draft.ops {
        Some(ops) if *ops != address => {
            let text =
                format!("{what} is served at {ops}, too, because [ops] listen is one address");
            importer.note(word, &text);
        }
        _ => importer.draft.ops = Some(address),
    }
}

/// `prometheus [ADDRESS]`.
pub fn prometheus(importer: &mut Importer<'_>, directive: &Directive) {
    let word = directive.args.first().unwrap_or(&directive.name);
    let address = directive.args.first().map_or("localhost:9153", |word| word.text.as_str());
    // This address has precedence over those of probes.
    importer.draft.ops = None;
    watched(importer, word, address, "prometheus");
    importer.note(
        &directive.name,
        "prometheus: metrics begin with dunlin_ and have other labels; examples/grafana has a \
         dashboard",
    );
    importer.no_more(directive, 1);
}

/// `health [ADDRESS] { lameduck DURATION }`.
pub fn health(importer: &mut Importer<'_>, directive: &Directive) {
    let word = directive.args.first().unwrap_or(&directive.name);
    let address = directive.args.first().map_or(":8080", |word| word.text.as_str());
    probe(importer, word, address, "health: /healthz");
    for option in &directive.body {
        match (option.name.text.as_str(), option.args.first()) {
            ("lameduck", Some(word)) => {
                if let Some(seconds) = read_seconds(importer, word) {
                    let drain = format!("{}s", seconds.min(3600));
                    importer.keep(word, "lameduck", drain, |draft| &mut draft.drain);
                }
            }
            (other, _) => {
                let text = format!("health {{ {} }}: unknown option", shown(other));
                importer.lost(&option.name, &text);
            }
        }
    }
}

/// `ready [ADDRESS] [monitor …]`.
pub fn ready(importer: &mut Importer<'_>, directive: &Directive) {
    let word = directive.args.first().unwrap_or(&directive.name);
    let address = directive.args.first().map_or(":8181", |word| word.text.as_str());
    probe(importer, word, address, "ready: /readyz");
    importer.no_more(directive, 1);
}

/// Probes share the address of metrics if there is one.
fn probe(importer: &mut Importer<'_>, word: &CorefileWord, address: &str, what: &str) {
    if importer.draft.ops.is_none() {
        watched(importer, word, address, what);
    }
    let text = format!("{what} is served at [ops] listen: change the probe's port and path");
    importer.note(word, &text);
}

/// `loadbalance [POLICY]`.
pub fn loadbalance(importer: &mut Importer<'_>, directive: &Directive) {
    match directive.args.first() {
        None => {}
        Some(policy) if policy.text == "round_robin" => {}
        Some(policy) => {
            let text = format!(
                "loadbalance {}: addresses are returned in random order",
                shown(&policy.text)
            );
            importer.lost(policy, &text);
        }
    }
    for option in &directive.body {
        let text = format!("loadbalance {{ {} }}: unknown option", shown(&option.name.text));
        importer.lost(&option.name, &text);
    }
}

/// `log [NAMES…] [FORMAT] { class … }`.
pub fn log(importer: &mut Importer<'_>, directive: &Directive) {
    // CoreDNS then logs only responses of these classes; to log all queries would be far more.
    let is_partial = directive
        .body
        .iter()
        .any(|option| option.name.text == "class" && !option.args.iter().any(|a| a.text == "all"));
    importer.draft.logs_queries |= !is_partial;
    if let Some(word) = directive.args.first().filter(|word| word.text != ".") {
        importer.lost(word, "log NAMES FORMAT: all queries are logged, in one format");
    }
    for option in &directive.body {
        let words: Vec<String> = option.args.iter().map(|word| shown(&word.text)).collect();
        let effect = if is_partial { "no query is logged" } else { "all queries are logged" };
        let text = format!("log {{ {} {} }}: {effect}", shown(&option.name.text), words.join(" "));
        importer.lost(&option.name, &text);
    }
}

/// `nsid [DATA]`.
pub fn nsid(importer: &mut Importer<'_>, directive: &Directive) {
    match directive.args.first() {
        None => importer.lost(&directive.name, "nsid: set it; the host's name is not used"),
        Some(_) => {
            let words: Vec<&str> = directive.args.iter().map(|word| word.text.as_str()).collect();
            let text: String = words.join(" ");
            if text.len() > NSID_LEN_MAX {
                let why = format!("nsid: it has more than {NSID_LEN_MAX} bytes; set a shorter one");
                return importer.lost(&directive.name, &why);
            }
            importer.keep(&directive.name, "nsid", text, |draft| &mut draft.nsid);
        }
    }
}

/// `reload [INTERVAL] [JITTER] { … }`.
pub fn reload(importer: &mut Importer<'_>, directive: &Directive) {
    importer.draft.watch_config = true;
    importer.note(&directive.name, "reload: the config and zone files are watched");
}
