//! The head of a record: owner, TTL, class and type, and their defaults.
use std::net::IpAddr;
use std::str::FromStr;

use crate::BrokenRule;
use wire::{Class, Name, NameBuf, Rtype};

use crate::fields::Fields;
use crate::lex::Token;
use crate::limits::TTL_MAX;
use crate::report::{EntryError, quote};

/// How to state the TTL.
pub(crate) const TTL_HELP: &str = "put a line such as `$TTL 3600` in front";

/// What an entry inherits from earlier entries.
#[derive(Clone)]
pub(crate) struct InheritedFields {
    /// The zone's name. Every owner is at or below it.
    zone: NameBuf,
    /// The origin of relative names.
    pub origin: NameBuf,
    /// The owner of the previous record.
    pub owner: Option<NameBuf>,
    /// $TTL (RFC 2308 §4).
    pub ttl: Option<u32>,
    /// The last explicit TTL, used without $TTL (RFC 1035 §5.1).
    ttl_stated: Option<u32>,
}

/// The fields before the record data.
pub(crate) struct EntryHead {
    /// `None`: neither the record nor anything before it states one.
    pub ttl: Option<u32>,
    pub rtype: Rtype,
    /// The number of fields in the head.
    pub fields: usize,
}

impl InheritedFields {
    pub(crate) fn new(zone: Name<'_>) -> Self {
        Self { zone: zone.into(), origin: zone.into(), owner: None, ttl: None, ttl_stated: None }
    }

    /// The owner of the last head read.
    pub(crate) fn owner_name(&self) -> Name<'_> {
        self.owner.as_ref().unwrap_or(&self.zone).as_name()
    }

    /// Reads a head, with TTL and class in either order, and stores the owner and the TTL.
    pub(crate) fn head(&mut self, text: &[u8], tokens: &[Token]) -> Result<EntryHead, EntryError> {
        let mut fields = Fields::new(text, tokens, self.origin.as_name());
        let owner = match text[0] {
            b' ' | b'\t' => None,
            _ => Some(self.owner_of(&mut fields)?),
        };
        let (mut ttl, mut class) = (None, None);
        let rtype = loop {
            let at = fields.here();
            let Some(token) = fields.peek() else {
                return Err(EntryError::new(at, "the record type is missing here")
                    .help("a record is `owner [TTL] [IN] type data`"));
            };
            let raw = fields.raw(token);
            if ttl.is_none() && is_ttl_like(raw) {
                ttl = Some(fields.ttl()?);
            } else if let Some(found) = parse::<Class>(raw).filter(|_| class.is_none()) {
                check_class(found, at)?;
                (_, class) = (fields.token("a class")?, Some(found));
            } else {
                fields.token("a record type")?;
                break rtype(raw, at)?;
            }
        };
        let taken = fields.taken();
        if let Some(owner) = owner {
            self.owner = Some(owner);
        } else if self.owner.is_none() {
            return Err(EntryError::new(
                0,
                "the line begins with a blank, but there is no previous owner",
            )
            .help(
                "a line that begins with a blank takes the owner of the line before; \
                       begin it with `@` for the apex",
            ));
        }
        self.ttl_stated = ttl.or(self.ttl_stated);
        let ttl = ttl.or(self.ttl).or(self.ttl_stated);
        Ok(EntryHead { ttl, rtype, fields: taken })
    }

    /// The TTL of a record without one: an SOA record has its minimum, and so have the records
    /// after it, as in RFC 1034 §6.1.
    pub(crate) fn implied_ttl(
        &mut self,
        at: usize,
        rtype: Rtype,
        data: &[u8],
    ) -> Result<u32, EntryError> {
        let minimum = data.last_chunk().filter(|_| rtype == Rtype::SOA);
        let ttl = minimum.map(|minimum| u32::from_be_bytes(*minimum).min(TTL_MAX));
        self.ttl_stated = ttl;
        ttl.ok_or_else(|| {
            EntryError::new(at, "no TTL given and no $TTL before it")
                .help(TTL_HELP)
                .rule(BrokenRule::TTL_MISSING)
        })
    }

    /// Reads an owner, which must be in the zone.
    fn owner_of(&self, fields: &mut Fields<'_>) -> Result<NameBuf, EntryError> {
        let at = fields.here();
        let owner = fields.name("the owner")?;
        if !owner.as_name().is_within(self.zone.as_name()) {
            let what = format!("`{owner}` is outside of the zone `{}`", self.zone);
            let help = format!(
                "is `name` in the config right? owners of this zone end in `{}`, or in no dot",
                self.zone
            );
            return Err(EntryError::new(at, what).help(help).rule(BrokenRule::OUT_OF_ZONE));
        }
        Ok(owner)
    }
}

/// Whether a field can only be a TTL: no class or type begins with a digit.
fn is_ttl_like(raw: &[u8]) -> bool {
    raw.first().is_some_and(u8::is_ascii_digit) && raw.iter().all(u8::is_ascii_alphanumeric)
}

/// Parses a mnemonic or a generic form.
fn parse<T: FromStr>(raw: &[u8]) -> Option<T> {
    std::str::from_utf8(raw).ok()?.parse().ok()
}

fn check_class(class: Class, at: usize) -> Result<(), EntryError> {
    match class {
        Class::IN => Ok(()),
        _ => {
            let what = format!("the class is {class}, but the zone's class is IN");
            Err(EntryError::new(at, what).help("leave the class out").rule(BrokenRule::CLASS))
        }
    }
}

fn rtype(raw: &[u8], at: usize) -> Result<Rtype, EntryError> {
    let Some(rtype) = parse::<Rtype>(raw) else {
        let fault = EntryError::new(at, format!("unknown record type {}", quote(raw)))
            .rule(BrokenRule::TYPE);
        if let Some(help) = pseudo_type(raw) {
            return Err(fault.help(help));
        }
        return Err(match nearest(raw) {
            Some(known) => fault.help(format!("did you mean `{known}`?")),
            None if parse::<IpAddr>(raw).is_some() => fault.help("a type is missing before it"),
            None => fault.help(
                "a record is `owner [TTL] [IN] type data`; types are A, AAAA, MX, …; one without \
                 a name here is `TYPEnnn \\# LENGTH HEX`",
            ),
        });
    };
    if rtype.is_meta() {
        let what = format!("{rtype} is a query type, not a record type");
        let help = "delete the line: zones have no such records";
        return Err(EntryError::new(at, what).help(help).rule(BrokenRule::META_TYPE));
    }
    Ok(rtype)
}

/// Help for a type that only some other servers have, which compute addresses from it.
fn pseudo_type(raw: &[u8]) -> Option<&'static str> {
    let is_one = |known: &&str| raw.eq_ignore_ascii_case(known.as_bytes());
    ["ANAME", "FLATTEN"].iter().any(is_one).then_some(
        "other servers compute addresses from it: write an ALIAS record if its target is in a \
         zone of this server, else the A and AAAA records of its target, or, below the apex, a \
         CNAME record",
    )
}

/// A known type that is one edit away from `raw`.
fn nearest(raw: &[u8]) -> Option<&'static str> {
    if parse::<Class>(raw).is_some() {
        return None;
    }
    let written = raw.to_ascii_uppercase();
    // The blocks that IANA assigns types from.
    let mut numbers = (0..0x200).chain(0x8000..0x8100);
    numbers.find_map(|number| Rtype(number).mnemonic().filter(|known| is_near(&written, known)))
}

/// Whether one edit turns one text into the other. Both are in upper case.
fn is_near(written: &[u8], known: &str) -> bool {
    let known = known.as_bytes();
    let (short, long) =
        if known.len() < written.len() { (known, written) } else { (written, known) };
    let same = short.iter().zip(long).take_while(|(a, b)| a == b).count();
    match long.len() - short.len() {
        // One character differs, or two are swapped.
        0 => {
            short.get(same + 1..) == long.get(same + 1..)
                || (short.get(same + 2..) == long.get(same + 2..)
                    && short.get(same) == long.get(same + 1)
                    && short.get(same + 1) == long.get(same))
        }
        1 => short[same..] == long[same + 1..],
        _ => false,
    }
}
