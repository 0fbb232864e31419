//! Lists of servers: forwarders, primaries, and servers to notify.
use crate::context::Context;
use crate::lex::Token;
use crate::limits::{ELEMENTS_MAX, LIST_DEPTH_MAX};
use crate::parse::Statement;
use import_report::{ImportError, shown};
use std::net::{IpAddr, SocketAddr};

/// Servers of a zone or a rule, as the config takes them.
pub const SERVERS_MAX: usize = 16;

/// A server and the key of messages to it.
#[derive(Clone, Debug)]
pub struct Server<'s> {
    pub address: SocketAddr,
    pub key: Option<&'s Token>,
}

impl Server<'_> {
    /// The address in the config.
    pub fn text(&self) -> String {
        match (self.address.port(), self.address.ip()) {
            (53, ip) => ip.to_string(),
            _ => self.address.to_string(),
        }
    }
}

/// Reads the list of a statement, with the lists that it names; `what`: its name.
pub fn read<'s>(
    context: &mut Context<'s>,
    what: &str,
    statement: &'s Statement,
) -> Result<Vec<Server<'s>>, ImportError> {
    let mut servers = Vec::new();
    read_into(context, what, statement, &mut servers, 0)?;
    Ok(servers)
}

fn read_into<'s>(
    context: &mut Context<'s>,
    what: &str,
    statement: &'s Statement,
    servers: &mut Vec<Server<'s>>,
    depth: usize,
) -> Result<(), ImportError> {
    if depth == LIST_DEPTH_MAX {
        let text = format!("{what}: does a list name itself?");
        return Err(ImportError::new(&statement.place, text));
    }
    let usual = options(context, what, statement, usize::from(depth > 0) + 1);
    for element in statement.block().unwrap_or_default() {
        let Some(word) = element.word(0) else { continue };
        let own = options(context, what, element, 1);
        let before = servers.len();
        if let Ok(ip) = word.text.parse::<IpAddr>() {
            let port = own.port.or(usual.port).unwrap_or(53);
            let key = own.key.or_else(|| context.server_keys.get(&ip).copied());
            servers.push(Server { address: SocketAddr::new(ip, port), key });
        } else if let Some(list) = context.server_lists.get(word.text.as_str()).copied() {
            read_into(context, what, list, servers, depth + 1)?;
            for server in &mut servers[before..] {
                server.key = own.key.or(server.key);
            }
        } else {
            let text = format!(
                "{what} … {}: this is no address, and no list of servers: write addresses",
                shown(&word.text)
            );
            context.lost(&word.place, text);
        }
        if servers.len() > ELEMENTS_MAX {
            let text = format!("{what}: a list has at most {ELEMENTS_MAX} servers");
            return Err(ImportError::new(&element.place, text));
        }
    }
    Ok(())
}

#[derive(Default)]
struct Options<'s> {
    port: Option<u16>,
    key: Option<&'s Token>,
}

/// The words after an address, or before the block of a statement.
fn options<'s>(
    context: &mut Context<'s>,
    what: &str,
    statement: &'s Statement,
    skipped: usize,
) -> Options<'s> {
    let (mut options, mut words) = (Options::default(), statement.words().skip(skipped));
    while let Some(word) = words.next() {
        let value = words.next();
        match (word.text.as_str(), value) {
            ("port", Some(value)) if value.text.parse::<u16>().is_ok_and(|port| port > 0) => {
                options.port = value.text.parse().ok();
            }
            ("key", Some(key)) => options.key = Some(key),
            (name, _) => {
                let what = format!("{what} … {}: the server is queried without", shown(name));
                context.lost(&word.place, what);
            }
        }
    }
    options
}

/// `also-notify { ADDRESS [key NAME]; };`
pub fn notify<'s>(context: &mut Context<'s>, statement: &'s Statement) -> Result<(), ImportError> {
    for server in read(context, "also-notify", statement)? {
        let mut text = server.text();
        if let Some(key) = server.key {
            let name = key.text.trim_end_matches('.');
            if zonefile::read_name(name).is_err() {
                context.lost(&key.place, format!("key {}: this is not a name", shown(name)));
                continue;
            }
            text = format!("{}#{name}", server.address);
            let name = shown(name);
            let what = format!(
                "also-notify … key {name}: make it here, and give it to that server: dunlin \
                 token create {name} --tsig"
            );
            context.lost(&key.place, what);
        }
        if !context.draft.notify.contains(&text) {
            context.draft.notify.push(text);
        }
    }
    Ok(())
}

/// `forwarders { … };` of all names, or of a zone.
pub fn forward<'s>(
    context: &mut Context<'s>,
    suffix: &str,
    statement: &'s Statement,
) -> Result<(), ImportError> {
    let is_off = statement.block().unwrap_or_default().is_empty();
    let mut servers: Vec<String> = Vec::new();
    for server in read(context, "forwarders", statement)? {
        let text = server.text();
        if !servers.contains(&text) {
            servers.push(text);
        }
    }
    if servers.len() > SERVERS_MAX {
        let text = format!("forwarders: only {SERVERS_MAX} servers of {suffix} are used");
        context.lost(&statement.place, text);
        servers.truncate(SERVERS_MAX);
    }
    let is_known = context.draft.forwards.iter().any(|(known, _)| known == suffix);
    if is_known {
        context.lost(&statement.place, format!("forwarders: an earlier rule for {suffix} is used"));
    } else if is_off != servers.is_empty() {
        context.lost(&statement.place, format!("forwarders: no server of {suffix} is left"));
    } else if !(is_off && suffix == ".") {
        context.draft.forwards.push((suffix.to_owned(), servers));
    }
    Ok(())
}
