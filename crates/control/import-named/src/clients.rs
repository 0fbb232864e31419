//! Lists of clients (`address_match_list`) and lists of Dunlin.
//!
//! In BIND the first element that matches decides, in Dunlin the longest prefix. Once an element is
//! left out that an earlier one covers, both are the same. What cannot be imported only ever makes
//! a list stricter.
use crate::context::Context;
use crate::limits::{ELEMENTS_MAX, LIST_DEPTH_MAX};
use crate::parse::{Part, Statement};
use import_report::{FilePosition, ImportError, shown};
use std::net::IpAddr;

/// An element: a prefix, and whether it is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    pub address: IpAddr,
    pub len: u32,
    pub is_allowed: bool,
}

impl Rule {
    /// Whether it has all addresses of another.
    pub fn covers(&self, other: &Self) -> bool {
        self.len <= other.len
            && self.address.is_ipv4() == other.address.is_ipv4()
            && masked(other.address, self.len) == self.address
    }

    /// Whether it is all of IPv4 or of IPv6.
    pub fn is_all(&self) -> bool {
        self.len == 0
    }

    /// Whether it is one address.
    pub fn is_host(&self) -> bool {
        self.len == if self.address.is_ipv4() { 32 } else { 128 }
    }

    /// The prefix as in the config.
    pub fn prefix(&self) -> String {
        match self.is_host() {
            true => self.address.to_string(),
            false => format!("{}/{}", self.address, self.len),
        }
    }
}

/// A list whose elements are in the order of BIND and also right by the longest prefix.
#[derive(Debug, Default)]
pub struct ClientList {
    pub rules: Vec<Rule>,
    /// Whether all its elements are there.
    is_complete: bool,
}

impl ClientList {
    fn add(&mut self, rule: Rule) {
        if !self.rules.iter().any(|earlier| earlier.covers(&rule)) {
            self.rules.push(rule);
        }
    }

    /// Whether it denies clients that it would otherwise allow.
    fn excludes(&self) -> bool {
        self.texts().iter().any(|text| text.starts_with('!'))
    }

    /// Whether all clients are allowed, but for those that it denies.
    pub fn is_for_all(&self) -> bool {
        self.rules.iter().filter(|rule| rule.is_allowed && rule.is_all()).count() == 2
    }

    /// The elements as in the config.
    pub fn texts(&self) -> Vec<String> {
        let is_all = |rule: &Rule| rule.is_allowed && rule.is_all();
        let has_any = self.is_for_all();
        let mut texts = Vec::new();
        for rule in &self.rules {
            let matters =
                |other: &Rule| other.is_allowed && other.len < rule.len && other.covers(rule);
            if has_any && is_all(rule) {
                if !texts.iter().any(|text| text == "any") {
                    texts.push("any".to_owned());
                }
            } else if rule.is_allowed {
                texts.push(rule.prefix());
            } else if self.rules.iter().any(matters) {
                texts.push(format!("!{}", rule.prefix()));
            }
        }
        texts
    }
}

/// Reads the list of a statement; `what`: its name.
pub fn read(
    context: &mut Context<'_>,
    what: &str,
    block: &[Statement],
) -> Result<ClientList, ImportError> {
    Reader { context, what, count: 0 }.list(block, 0)
}

struct Reader<'c, 'a, 'w> {
    context: &'c mut Context<'a>,
    what: &'w str,
    count: usize,
}

/// An element that has no counterpart, and what to do.
struct Unknown(String);

impl Reader<'_, '_, '_> {
    fn list(&mut self, block: &[Statement], depth: usize) -> Result<ClientList, ImportError> {
        let mut list = ClientList { rules: Vec::new(), is_complete: true };
        for (at, element) in block.iter().enumerate() {
            self.count += 1;
            if self.count > ELEMENTS_MAX || list.rules.len() > ELEMENTS_MAX {
                let text = format!("{}: a list has at most {ELEMENTS_MAX} elements", self.what);
                return Err(ImportError::new(&element.place, text));
            }
            if depth == LIST_DEPTH_MAX {
                let text = format!("{}: does a list name itself?", self.what);
                return Err(ImportError::new(&element.place, text));
            }
            let (is_not, parts) = match &element.parts[..] {
                [Part::Word(not), rest @ ..] if not.is_mark("!") => (true, rest),
                all => (false, all),
            };
            let inner = match self.element(parts, depth)? {
                Ok(inner) => inner,
                Err(Unknown(why)) => {
                    list.is_complete = false;
                    self.lose(&element.place, is_not, &why);
                    if is_not {
                        break;
                    }
                    continue;
                }
            };
            if is_not && !inner.rules.iter().any(|rule| rule.is_allowed) {
                self.lose(
                    &element.place,
                    false,
                    "this excludes no client: write `any`, or nothing",
                );
                continue;
            }
            if is_not && !inner.is_complete {
                list.is_complete = false;
                self.lose(&element.place, true, "not all of this list can be imported");
                break;
            }
            if inner.excludes() && at + 1 < block.len() {
                let text = format!(
                    "{}: clients that this inner list excludes stay denied, also if a later \
                     element allows them: name them before it",
                    self.what
                );
                self.context.lost(&element.place, text);
            }
            list.is_complete &= inner.is_complete;
            let matters = |rule: &&Rule| !is_not || rule.is_allowed;
            for rule in inner.rules.iter().filter(matters) {
                list.add(Rule { is_allowed: rule.is_allowed && !is_not, ..*rule });
            }
        }
        Ok(list)
    }

    fn lose(&mut self, place: &FilePosition, is_not: bool, why: &str) {
        let rest = match is_not {
            true => "; the rest of the list is left out, so that no client is allowed too much",
            false => "",
        };
        self.context.lost(place, format!("{}: {why}{rest}", self.what));
    }

    /// A list in a list: what it denies, it only takes out of what it allows itself.
    fn inner(
        &mut self,
        block: &[Statement],
        depth: usize,
    ) -> Result<Result<ClientList, Unknown>, ImportError> {
        let mut list = self.list(block, depth + 1)?;
        let all = list.rules.clone();
        let matters = |rule: &Rule| all.iter().any(|one| one.is_allowed && one.covers(rule));
        list.rules.retain(matters);
        Ok(Ok(list))
    }

    /// What one element allows, without its `!`.
    fn element(
        &mut self,
        parts: &[Part],
        depth: usize,
    ) -> Result<Result<ClientList, Unknown>, ImportError> {
        let word = match parts {
            [Part::Block(_, block)] => return self.inner(block, depth),
            [Part::Word(word)] => word,
            [Part::Word(kind), Part::Word(name)] if kind.text == "key" => {
                return Ok(Err(Unknown(format!(
                    "key {}: make a key with grants instead: dunlin token create NAME --tsig",
                    shown(&name.text)
                ))));
            }
            [Part::Word(word), ..] => {
                let text = format!("{}: only addresses and lists are imported", shown(&word.text));
                return Ok(Err(Unknown(text)));
            }
            _ => return Ok(Err(Unknown("this is not an address".to_owned()))),
        };
        let any = [IpAddr::from([0_u8; 4]), IpAddr::from([0_u8; 16])];
        let all = |is_allowed| any.map(|address| Rule { address, len: 0, is_allowed }).to_vec();
        let rules = match word.text.as_str() {
            "any" => all(true),
            "none" => all(false),
            "localhost" => {
                let text = "localhost: the addresses of loopback; add the others of this host";
                let text = format!("{}: {text}", self.what);
                self.context.lost(&word.place, text);
                let hosts = [(IpAddr::from([127, 0, 0, 0]), 8), (IpAddr::from(LOOPBACK_V6), 128)];
                let rules =
                    hosts.map(|(address, len)| Rule { address, len, is_allowed: true }).to_vec();
                return Ok(Ok(ClientList { rules, is_complete: false }));
            }
            "localnets" => {
                let text = "localnets: write the prefixes of this host's networks";
                return Ok(Err(Unknown(text.to_owned())));
            }
            text => match (prefix(text), self.context.acls.get(text).copied()) {
                (Some((address, len)), _) => vec![Rule { address, len, is_allowed: true }],
                (None, Some(acl)) => {
                    return self.inner(acl.block().unwrap_or_default(), depth);
                }
                (None, None) => {
                    let text = format!("{}: this is no prefix, and no acl", shown(text));
                    return Ok(Err(Unknown(text)));
                }
            },
        };
        Ok(Ok(ClientList { rules, is_complete: true }))
    }
}

const LOOPBACK_V6: [u16; 8] = [0, 0, 0, 0, 0, 0, 0, 1];

/// A prefix such as `10.0.0.0/8`, `10/8` or `2001:db8::/32`.
fn prefix(text: &str) -> Option<(IpAddr, u32)> {
    let (address, len) = text.split_once('/').map_or((text, None), |(a, len)| (a, Some(len)));
    let missing = match len {
        Some(_) if !address.contains(':') => 3_usize.saturating_sub(address.matches('.').count()),
        _ => 0,
    };
    let address: IpAddr = (address.to_owned() + &".0".repeat(missing)).parse().ok()?;
    let all = if address.is_ipv4() { 32 } else { 128 };
    let len = len.map_or(Some(all), |len| len.parse().ok())?;
    (len <= all && masked(address, len) == address).then_some((address, len))
}

/// Clears all bits after `len`.
fn masked(address: IpAddr, len: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - len).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}
