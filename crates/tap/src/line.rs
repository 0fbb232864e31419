//! One line of the query log: which fields there are, and how they look as text and as JSON.
use crate::sample::{Outcome, Sample};
use jiff::Timestamp;
use packet::Transport;
use std::fmt::{self, Display};
use std::time::Duration;
use wire::{Flags, HEADER_LEN, Name, Query, Rcode, Rtype, skip_name};

/// The flags a query may have, in the order of the header.
const FLAGS: [(u16, &str); 6] = [
    (Flags::AA, "aa"),
    (Flags::TC, "tc"),
    (Flags::RD, "rd"),
    (Flags::RA, "ra"),
    (Flags::AD, "ad"),
    (Flags::CD, "cd"),
];

/// What a line tells; `README.md` says what each field means. Nothing in it has a control character
/// or, in its text form, a space: names are in presentation form, with escapes.
#[derive(Debug, Default, PartialEq)]
pub struct Line {
    pub time: String,
    pub client: String,
    pub proxy: Option<String>,
    pub transport: &'static str,
    pub id: Option<u64>,
    pub opcode: Option<u64>,
    pub flags: Option<String>,
    pub name: Option<String>,
    pub rtype: Option<String>,
    pub class: Option<String>,
    pub edns: Option<u64>,
    pub bufsize: Option<u64>,
    pub dnssec_ok: Option<bool>,
    pub rcode: Option<String>,
    pub octets: Option<u64>,
    pub truncated: Option<bool>,
    pub dropped: Option<&'static str>,
    pub micros: u64,
}

/// The value of a field.
enum Value<'a> {
    Text(&'a str),
    Number(u64),
    Bool(bool),
}

impl Line {
    /// The line of a sample. `query` is memory to parse in.
    pub fn new(sample: &Sample<'_>, query: &mut Query) -> Self {
        let mut line = Self {
            time: timestamp(sample.unix),
            client: sample.client.to_string(),
            proxy: (sample.peer != sample.client).then(|| sample.peer.to_string()),
            transport: match sample.transport {
                Transport::Datagram => "udp",
                Transport::Stream => "tcp",
            },
            micros: sample.took.as_micros() as u64,
            ..Self::default()
        };
        line.read_query(sample.query, query);
        match sample.outcome {
            Outcome::Dropped(reason) => line.dropped = Some(reason.name()),
            Outcome::Reply(reply) => {
                let [_, flags, ..] = header(reply).unwrap_or_default();
                line.rcode = Some(name_of(rcode(reply).unwrap_or(flags & 0xf)));
                line.octets = Some(reply.len() as u64);
                line.truncated = Some(Flags(flags).has(Flags::TC));
            }
        }
        line
    }

    /// Reads as much of a query as can be read: it may be broken.
    fn read_query(&mut self, message: &[u8], query: &mut Query) {
        let Some([id, flags, questions, ..]) = header(message) else { return };
        self.id = Some(id.into());
        self.opcode = Some(u64::from(flags >> 11 & 0xf)).filter(|opcode| *opcode != 0);
        let set: Vec<&str> =
            FLAGS.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| *name).collect();
        self.flags = (!set.is_empty()).then(|| set.join(","));
        // The case as it came: some resolvers vary it to be harder to deceive.
        let name = Name::parse(&message[HEADER_LEN..]).ok().filter(|_| questions > 0);
        self.name = name.map(|name| name.to_string());
        // What is wrong with it is what it was replied to with.
        let _ = query.parse(message, message.len());
        if name.is_some() && query.question_end > HEADER_LEN {
            self.rtype = Some(query.rtype.to_string());
            self.class = Some(query.class.to_string());
        }
        if let Some(edns) = query.edns {
            self.edns = Some(edns.version.into());
            self.bufsize = Some(edns.size.into());
            self.dnssec_ok = Some(edns.dnssec_ok);
        }
    }

    /// Shows the fields that are there, in their order.
    fn each(&self, mut show: impl FnMut(&'static str, Value<'_>) -> fmt::Result) -> fmt::Result {
        let text = |text: &'static str| Some(Value::Text(text));
        let owned = |text| Option::as_deref(text).map(Value::Text);
        let fields = [
            ("time", Some(Value::Text(&self.time))),
            ("client", Some(Value::Text(&self.client))),
            ("proxy", owned(&self.proxy)),
            ("transport", text(self.transport)),
            ("id", self.id.map(Value::Number)),
            ("opcode", self.opcode.map(Value::Number)),
            ("flags", owned(&self.flags)),
            ("name", owned(&self.name)),
            ("type", owned(&self.rtype)),
            ("class", owned(&self.class)),
            ("edns", self.edns.map(Value::Number)),
            ("bufsize", self.bufsize.map(Value::Number)),
            ("do", self.dnssec_ok.map(Value::Bool)),
            ("rcode", owned(&self.rcode)),
            ("octets", self.octets.map(Value::Number)),
            ("truncated", self.truncated.map(Value::Bool)),
            ("dropped", self.dropped.and_then(text)),
            ("micros", Some(Value::Number(self.micros))),
        ];
        fields.into_iter().try_for_each(|(key, value)| value.map_or(Ok(()), |v| show(key, v)))
    }

    /// `key=value key=value`.
    pub fn text(&self) -> impl Display {
        fmt::from_fn(|f| {
            let mut space = "";
            self.each(|key, value| {
                write!(f, "{}{key}=", std::mem::replace(&mut space, " "))?;
                match value {
                    Value::Text(text) => f.write_str(text),
                    Value::Number(number) => write!(f, "{number}"),
                    Value::Bool(bool) => write!(f, "{bool}"),
                }
            })
        })
    }

    /// An object of JSON.
    pub fn json(&self) -> impl Display {
        fmt::from_fn(|f| {
            let mut comma = "{";
            self.each(|key, value| {
                write!(f, "{}\"{key}\":", std::mem::replace(&mut comma, ","))?;
                match value {
                    Value::Text(text) => write!(f, "{}", serde_json::Value::from(text)),
                    Value::Number(number) => write!(f, "{number}"),
                    Value::Bool(bool) => write!(f, "{bool}"),
                }
            })?;
            f.write_str("}")
        })
    }

    /// Hands it to the log.
    pub fn log(&self) {
        let shown = |text| Option::as_deref(text).map(tracing::field::display);
        tracing::info!(
            target: "queries",
            time = %self.time,
            client = %self.client,
            proxy = shown(&self.proxy),
            transport = %self.transport,
            id = self.id,
            opcode = self.opcode,
            flags = shown(&self.flags),
            name = shown(&self.name),
            "type" = shown(&self.rtype),
            class = shown(&self.class),
            edns = self.edns,
            bufsize = self.bufsize,
            "do" = self.dnssec_ok,
            rcode = shown(&self.rcode),
            octets = self.octets,
            truncated = self.truncated,
            dropped = self.dropped.map(tracing::field::display),
            micros = self.micros,
        );
    }
}

/// The numbers of a header: ID, flags, and the four counts.
fn header(message: &[u8]) -> Option<[u16; 6]> {
    let octets: &[u8; HEADER_LEN] = message.first_chunk()?;
    let (pairs, _) = octets.as_chunks::<2>();
    Some(std::array::from_fn(|at| u16::from_be_bytes(pairs[at])))
}

/// The response code, with the upper eight bits that OPT has (RFC 6891 §6.1.3); nothing where the
/// message cannot be read.
fn rcode(reply: &[u8]) -> Option<u16> {
    let [_, flags, questions, records @ ..] = header(reply)?;
    let mut at = HEADER_LEN;
    for _ in 0..questions {
        at = skip_name(reply, at).ok()? + 4;
    }
    for _ in 0..records.into_iter().map(u32::from).sum() {
        at = skip_name(reply, at).ok()?;
        let [t0, t1, _, _, extended, _, _, _, l0, l1] = *reply.get(at..)?.first_chunk()?;
        if u16::from_be_bytes([t0, t1]) == Rtype::OPT.0 {
            return Some(u16::from(extended) << 4 | flags & 0xf);
        }
        at += 10 + usize::from(u16::from_be_bytes([l0, l1]));
    }
    Some(flags & 0xf)
}

fn name_of(rcode: u16) -> String {
    let known = Rcode::ALL.iter().find(|known| **known as u16 == rcode);
    known.map_or_else(|| format!("RCODE{rcode}"), |known| known.name().to_owned())
}

/// A time since 1970 as RFC 3339 writes it, UTC, with microseconds.
fn timestamp(unix: Duration) -> String {
    let micros = i64::try_from(unix.as_micros()).unwrap_or(i64::MAX);
    format!("{:.6}", Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests;
