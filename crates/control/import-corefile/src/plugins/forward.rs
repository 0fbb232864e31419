//! Forwarding to upstreams.
use super::seconds;
use crate::config;
use crate::importer::Importer;
use crate::lex::CorefileWord;
use crate::limits::{FILE_LEN_MAX, SERVERS_MAX};
use crate::parse::Directive;
use crate::{hops, zones};
use import_report::shown;
use std::net::IpAddr;
use std::path::Path;

/// `forward FROM TO… { … }`.
pub fn forward(importer: &mut Importer<'_>, directive: &Directive) {
    let Some((from, to)) = directive.args.split_first() else {
        return importer.lost(&directive.name, "forward: a name or servers are missing");
    };
    let file = file(to, directive).map(str::to_owned);
    if let (Some(_), [word]) = (&file, to) {
        let text = format!(
            "forward … {}: the file is read where Dunlin runs, and followed; in a Pod it is the \
             node's with dnsPolicy Default",
            shown(&word.text)
        );
        importer.note(word, &text);
    }
    let mut servers = match file {
        Some(_) => Vec::new(),
        None => servers(importer, directive),
    };
    for extra in to.iter().skip(SERVERS_MAX).take(1) {
        let text = format!("forward: a name has at most {SERVERS_MAX} servers; these are omitted");
        importer.lost(extra, &text);
    }
    servers.truncate(SERVERS_MAX);
    for option in &directive.body {
        self::option(importer, option);
    }
    if servers.is_empty() && file.is_none() {
        return importer.lost(&directive.name, "forward: no server is left");
    }
    let caches = importer.caches;
    if !importer.draft.forwards.iter().any(|(_, rule)| rule.has_servers()) {
        importer.note(
            &directive.name,
            "forward: queries of clients in private networks are forwarded; [acl] recursion sets \
             the networks",
        );
    }
    for suffix in suffixes(importer, from) {
        let rule = config::ForwardRule { servers: servers.clone(), file: file.clone(), caches };
        put(importer, from, suffix, rule);
    }
}

/// The servers of a rule, in its order.
pub fn servers(importer: &mut Importer<'_>, directive: &Directive) -> Vec<String> {
    let option = |name: &str| directive.body.iter().find(|option| option.name.text == name);
    let server_name = option("tls_servername").and_then(|option| option.args.first());
    if let Some(name) = server_name.filter(|name| !is_host(&name.text)) {
        let text = format!(
            "forward {{ tls_servername {} }}: this is not a name of a server; certificates are \
             verified for its address",
            shown(&name.text)
        );
        importer.lost(name, &text);
    }
    let server_name = server_name.filter(|name| is_host(&name.text));
    let forces_tcp = option("force_tcp").is_some();
    let mut servers = Vec::new();
    for word in directive.args.iter().skip(1) {
        match server(importer, word, server_name, forces_tcp) {
            Ok(more) => servers.extend(more),
            Err(why) => importer.lost(word, &format!("forward … {}: {why}", shown(&word.text))),
        }
    }
    servers.dedup();
    servers
}

/// Whether a text can be a name in a certificate: labels of letters, digits, `-` and `_`, the last
/// of them no number.
fn is_host(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let is_short = (1..=63).contains(&label.len());
        is_short && label.chars().all(is_plain) && !label.starts_with('-') && !label.ends_with('-')
    };
    let is_number = |label: &str| label.chars().all(|c| c.is_ascii_digit());
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= 253 && text.split('.').all(is_label) && !is_number(last)
}

/// The file that names all servers of a rule, as Dunlin reads it.
fn file<'d>(to: &'d [CorefileWord], directive: &Directive) -> Option<&'d str> {
    match to {
        _ if directive.body.iter().any(|option| option.name.text == "force_tcp") => None,
        [word] if word.text == "/etc/resolv.conf" => Some("resolv.conf"),
        [word] if word.text.starts_with('/') => Some(&word.text),
        _ => None,
    }
}

/// The names of a rule that belong to the block.
fn suffixes(importer: &mut Importer<'_>, from: &CorefileWord) -> Vec<String> {
    let from_zones = match zones::zones(&from.text) {
        Ok(zones) => zones,
        Err(why) => {
            importer.lost(from, &format!("forward: {why}"));
            return Vec::new();
        }
    };
    let mut suffixes = Vec::new();
    for zone in &importer.zones {
        for from in &from_zones {
            let narrower = if zones::is_within(from, zone) { from } else { zone };
            if zones::is_within(narrower, from) && !suffixes.contains(narrower) {
                suffixes.push(narrower.clone());
            }
        }
    }
    if suffixes.is_empty() {
        let text = format!("forward {}: this block does not receive such names", shown(&from.text));
        importer.note(from, &text);
    }
    suffixes
}

fn put(
    importer: &mut Importer<'_>,
    word: &CorefileWord,
    suffix: String,
    rule: config::ForwardRule,
) {
    match importer.draft.forwards.iter().find(|(other, _)| *other == suffix) {
        None => importer.draft.forwards.push((suffix, rule)),
        Some((_, other)) if *other == rule => {}
        Some(_) => {
            let text = format!("forward: an earlier rule for {suffix} is used");
            importer.lost(word, &text);
        }
    }
}

/// The servers of a word: one, or those of a file such as `/etc/resolv.conf`.
fn server(
    importer: &mut Importer<'_>,
    word: &CorefileWord,
    server_name: Option<&CorefileWord>,
    forces_tcp: bool,
) -> Result<Vec<String>, String> {
    let (scheme, rest) = word.text.split_once("://").unwrap_or(("dns", &word.text));
    let usual = match scheme {
        "dns" => 53,
        "tls" => 853,
        other => return Err(format!("forwarding over {} is not supported", shown(other))),
    };
    // `9.9.9.9%dns.quad9.net` is a server with its TLS name.
    let (rest, own_name) = match rest.split_once('%') {
        Some((rest, name)) if scheme == "tls" => (rest, Some(name)),
        _ => (rest, None),
    };
    let Some(address) = hops::address(rest, usual) else {
        return match word.text.contains("://") {
            true => Err("this is not an address".into()),
            false => resolvers(importer, word, forces_tcp),
        };
    };
    if address.port() == 0 {
        return Err("port 0 cannot be queried".into());
    }
    if scheme == "dns"
        && let Some(servers) = importer.servers_of_own(word, address)
    {
        return servers;
    }
    let shown = if address.port() == usual { shown_ip(address.ip()) } else { address.to_string() };
    Ok(vec![match scheme {
        "tls" => {
            let name = own_name.or(server_name.map(|word| word.text.as_str()));
            name.map_or(format!("tls://{shown}"), |name| format!("tls://{shown}#{name}"))
        }
        _ if forces_tcp => format!("tcp://{shown}"),
        _ => shown,
    }])
}

fn shown_ip(ip: IpAddr) -> String {
    if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() }
}

/// The servers in a file at this time.
fn resolvers(
    importer: &mut Importer<'_>,
    word: &CorefileWord,
    forces_tcp: bool,
) -> Result<Vec<String>, String> {
    let text = importer.around.read(Path::new(&word.text), FILE_LEN_MAX).map_err(|error| {
        format!("this is not an address, and cannot be read as a file: {error}")
    })?;
    let mut servers = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if words.next() == Some("nameserver")
            && let Some(ip) = words.next().and_then(|ip| ip.parse::<IpAddr>().ok())
        {
            let ip = shown_ip(ip);
            servers.push(if forces_tcp { format!("tcp://{ip}") } else { ip });
        }
    }
    if servers.is_empty() {
        return Err("the file names no nameserver".into());
    }
    let text = format!(
        "forward … {}: its current servers are imported, {}: import again when they change",
        shown(&word.text),
        servers.join(", ")
    );
    importer.note(word, &text);
    Ok(servers)
}

fn option(importer: &mut Importer<'_>, option: &Directive) {
    let name = &option.name;
    let done = |what: &str| format!("forward {}: {what}", name.text);
    match name.text.as_str() {
        "tls_servername" | "force_tcp" => {}
        "except" => except(importer, option),
        "tls" if option.args.is_empty() => {}
        "tls" => {
            let text = "no client certificate is sent; server certificates are verified with the \
                        system's authorities";
            importer.lost(name, &done(text));
        }
        "policy" => importer.note(
            name,
            &done("the fastest server is queried first, and another one if it is late or fails"),
        ),
        "prefer_udp" => importer
            .note(name, &done("servers are queried over UDP unless their address says otherwise")),
        "max_fails" => {
            let text = "a failing server is not queried for 0.5 s, then for longer, up to 30 s";
            importer.note(name, &done(text));
        }
        "health_check" => {
            let is_off = option.args.first().and_then(|word| seconds(&word.text)) == Some(0);
            let how = "the health of a server is judged by clients' queries";
            let text = if is_off { "only clients' queries are sent" } else { how };
            importer.note(name, &done(text));
        }
        "expire" => importer.note(name, &done("unused connections are closed")),
        "max_concurrent" => {
            importer.note(name, &done("each thread waits for at most 4096 answers"));
        }
        "max_connect_attempts" => {
            importer.note(name, &done("a query is sent at most 6 times, within 4 s"));
        }
        "next" | "failover" => {
            let text = "another server is queried after any response code except NOERROR, \
                        NXDOMAIN and YXDOMAIN";
            importer.note(name, &done(text));
        }
        "failfast_all_unhealthy_upstreams" => {
            importer.note(name, &done("if all servers fail, the client gets SERVFAIL at once"));
        }
        other => {
            let text = format!("forward {{ {} }}: unknown option", shown(other));
            importer.lost(name, &text);
        }
    }
}

/// `except NAMES…`: names below the suffix that are not forwarded.
fn except(importer: &mut Importer<'_>, option: &Directive) {
    for word in &option.args {
        match zones::zones(&word.text) {
            Err(why) => importer.lost(word, &format!("forward except: {why}")),
            Ok(zones) => {
                for zone in zones {
                    let off =
                        config::ForwardRule { servers: Vec::new(), file: None, caches: false };
                    put(importer, word, zone, off);
                }
            }
        }
    }
}
