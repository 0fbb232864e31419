//! The head of a record: owner, TTL, class and type, and what stands for those left out.
use std::net::IpAddr;
use std::str::FromStr;

use model::Rule;
use wire::{Class, Name, NameBuf, Rtype};

use crate::fields::Fields;
use crate::lex::Token;
use crate::report::{Fault, quote};

/// What an entry inherits from those before it.
#[derive(Clone)]
pub(crate) struct Defaults {
    /// The zone's name: no owner lies outside of it.
    zone: NameBuf,
    /// What relative names are relative to.
    pub origin: NameBuf,
    /// The owner of the record before.
    pub owner: Option<NameBuf>,
    /// $TTL (RFC 2308 §4).
    pub ttl: Option<u32>,
    /// The TTL stated last, for want of $TTL (RFC 1035 §5.1).
    ttl_stated: Option<u32>,
}

/// What stands before the record data.
pub(crate) struct Head {
    pub ttl: u32,
    pub rtype: Rtype,
    /// How many fields the head has.
    pub fields: usize,
}

impl Defaults {
    pub(crate) fn new(zone: Name<'_>) -> Self {
        Self { zone: zone.into(), origin: zone.into(), owner: None, ttl: None, ttl_stated: None }
    }

    /// The owner of the record whose head was read last.
    pub(crate) fn owner_name(&self) -> Name<'_> {
        self.owner.as_ref().unwrap_or(&self.zone).as_name()
    }

    /// Reads a head, with TTL and class in either order, and keeps the owner and the TTL.
    pub(crate) fn head(&mut self, text: &[u8], tokens: &[Token]) -> Result<Head, Fault> {
        let mut fields = Fields::new(text, tokens, self.origin.as_name());
        let owner = match text[0] {
            b' ' | b'\t' => None,
            _ => Some(self.owner_of(&mut fields)?),
        };
        let (mut ttl, mut class) = (None, None);
        let rtype = loop {
            let at = fields.here();
            let Some(token) = fields.peek() else {
                return Err(Fault::new(at, "the record type is missing here")
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
            return Err(Fault::new(0, "there is no owner before this to be meant by the blank")
                .help(
                    "a line that begins with a blank takes the owner of the line before; \
                       begin it with `@` for the apex",
                ));
        }
        self.ttl_stated = ttl.or(self.ttl_stated);
        let ttl = ttl.or(self.ttl).or(self.ttl_stated).ok_or_else(|| {
            Fault::new(tokens[0].start as usize, "no TTL given and no $TTL before it")
                .help("put a line such as `$TTL 3600` in front")
                .rule(Rule::TTL_MISSING)
        })?;
        Ok(Head { ttl, rtype, fields: taken })
    }

    /// An owner inside the zone.
    fn owner_of(&self, fields: &mut Fields<'_>) -> Result<NameBuf, Fault> {
        let at = fields.here();
        let owner = fields.name("the owner")?;
        if !owner.as_name().is_within(self.zone.as_name()) {
            let what = format!("`{owner}` lies outside of the zone `{}`", self.zone);
            let help = format!(
                "is `name` in the config right? owners of this zone end in `{}`, or in no dot",
                self.zone
            );
            return Err(Fault::new(at, what).help(help).rule(Rule::OUT_OF_ZONE));
        }
        Ok(owner)
    }
}

/// Whether a field can only be meant as a TTL: no class or type begins with a digit.
fn is_ttl_like(raw: &[u8]) -> bool {
    raw.first().is_some_and(u8::is_ascii_digit) && raw.iter().all(u8::is_ascii_alphanumeric)
}

/// Reads a mnemonic or a generic form.
fn parse<T: FromStr>(raw: &[u8]) -> Option<T> {
    std::str::from_utf8(raw).ok()?.parse().ok()
}

fn check_class(class: Class, at: usize) -> Result<(), Fault> {
    match class {
        Class::IN => Ok(()),
        _ => {
            let what = format!("the class is {class}, but the zone's class is IN");
            Err(Fault::new(at, what).help("leave the class out").rule(Rule::CLASS))
        }
    }
}

fn rtype(raw: &[u8], at: usize) -> Result<Rtype, Fault> {
    let Some(rtype) = parse::<Rtype>(raw) else {
        let fault = Fault::new(at, format!("unknown record type {}", quote(raw))).rule(Rule::TYPE);
        return Err(match nearest(raw) {
            Some(known) => fault.help(format!("did you mean `{known}`?")),
            None if parse::<IpAddr>(raw).is_some() => fault.help("a type is missing before it"),
            None => {
                fault.help("a record is `owner [TTL] [IN] type data`; types are A, AAAA, MX, …")
            }
        });
    };
    if rtype.is_meta() {
        let what = format!("{rtype} is a type of questions and messages, not of records");
        let help = "leave the line out: no zone has such a record";
        return Err(Fault::new(at, what).help(help).rule(Rule::META_TYPE));
    }
    Ok(rtype)
}

/// The known type that is one edit away from what was written.
fn nearest(raw: &[u8]) -> Option<&'static str> {
    let written = raw.to_ascii_uppercase();
    // The blocks that IANA has assigned types from.
    let mut numbers = (0..0x200).chain(0x8000..0x8100);
    numbers.find_map(|number| Rtype(number).mnemonic().filter(|known| is_near(&written, known)))
}

/// Whether one edit makes one of the other, both in upper case.
fn is_near(written: &[u8], known: &str) -> bool {
    let known = known.as_bytes();
    let (short, long) =
        if known.len() < written.len() { (known, written) } else { (written, known) };
    let same = short.iter().zip(long).take_while(|(a, b)| a == b).count();
    match long.len() - short.len() {
        // One letter is another, or two have changed places.
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
