//! A line of the query log: its fields, as text and as JSON.
use jiff::Timestamp;
use packet::Transport;
use std::fmt::{self, Display};
use std::time::Duration;
use tap::{QueryOutcome, Sample};
use wire::{Flags, HEADER_LEN, Name, Query, Rcode, Rtype, skip_name};

/// Header flags in their order.
const FLAGS: [(u16, &str); 6] = [
    (Flags::AA, "aa"),
    (Flags::TC, "tc"),
    (Flags::RD, "rd"),
    (Flags::RA, "ra"),
    (Flags::AD, "ad"),
    (Flags::CD, "cd"),
];

/// The fields of a line; `README.md` explains them. Values have no control characters and, as text,
/// no spaces: names are in presentation form, with escapes.
#[derive(Debug, Default, PartialEq)]
pub struct LogLine {
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
    pub bytes: Option<u64>,
    pub truncated: Option<bool>,
    pub dropped: Option<&'static str>,
    pub micros: u64,
}

/// The value of a field.
enum FieldValue<'a> {
    Text(&'a str),
    Number(u64),
    Bool(bool),
}

impl LogLine {
    /// The line of a sample. `query` is reused memory.
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
            QueryOutcome::Dropped(reason) => line.dropped = Some(reason.name()),
            QueryOutcome::Reply(reply) => {
                let [_, flags, ..] = header(reply).unwrap_or_default();
                line.rcode = Some(name_of(rcode(reply).unwrap_or(flags & 0xf)));
                line.bytes = Some(reply.len() as u64);
                line.truncated = Some(Flags(flags).has(Flags::TC));
            }
        }
        line
    }

    /// Reads the valid part of a query.
    fn read_query(&mut self, message: &[u8], query: &mut Query) {
        let Some([id, flags, questions, ..]) = header(message) else { return };
        self.id = Some(id.into());
        self.opcode = Some(u64::from(flags >> 11 & 0xf)).filter(|opcode| *opcode != 0);
        let set: Vec<&str> =
            FLAGS.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| *name).collect();
        self.flags = (!set.is_empty()).then(|| set.join(","));
        // In the received case: some resolvers vary it against spoofing.
        let name = Name::parse(&message[HEADER_LEN..]).ok().filter(|_| questions > 0);
        self.name = name.map(|name| name.to_string());
        // An error of the query shows in its reply.
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

    /// Passes the present fields to `each`, in their order.
    fn each(
        &self,
        mut show: impl FnMut(&'static str, FieldValue<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let text = |text: &'static str| Some(FieldValue::Text(text));
        let owned = |text| Option::as_deref(text).map(FieldValue::Text);
        let fields = [
            ("time", Some(FieldValue::Text(&self.time))),
            ("client", Some(FieldValue::Text(&self.client))),
            ("proxy", owned(&self.proxy)),
            ("transport", text(self.transport)),
            ("id", self.id.map(FieldValue::Number)),
            ("opcode", self.opcode.map(FieldValue::Number)),
            ("flags", owned(&self.flags)),
            ("name", owned(&self.name)),
            ("type", owned(&self.rtype)),
            ("class", owned(&self.class)),
            ("edns", self.edns.map(FieldValue::Number)),
            ("bufsize", self.bufsize.map(FieldValue::Number)),
            ("do", self.dnssec_ok.map(FieldValue::Bool)),
            ("rcode", owned(&self.rcode)),
            ("bytes", self.bytes.map(FieldValue::Number)),
            ("truncated", self.truncated.map(FieldValue::Bool)),
            ("dropped", self.dropped.and_then(text)),
            ("micros", Some(FieldValue::Number(self.micros))),
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
                    FieldValue::Text(text) => f.write_str(text),
                    FieldValue::Number(number) => write!(f, "{number}"),
                    FieldValue::Bool(bool) => write!(f, "{bool}"),
                }
            })
        })
    }

    /// A JSON object.
    pub fn json(&self) -> impl Display {
        fmt::from_fn(|f| {
            let mut comma = "{";
            self.each(|key, value| {
                write!(f, "{}\"{key}\":", std::mem::replace(&mut comma, ","))?;
                match value {
                    FieldValue::Text(text) => write!(f, "{}", serde_json::Value::from(text)),
                    FieldValue::Number(number) => write!(f, "{number}"),
                    FieldValue::Bool(bool) => write!(f, "{bool}"),
                }
            })?;
            f.write_str("}")
        })
    }

    /// Writes it to the log.
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
            bytes = self.bytes,
            truncated = self.truncated,
            dropped = self.dropped.map(tracing::field::display),
            micros = self.micros,
        );
    }
}

/// The numbers of a header: ID, flags, and four counts.
fn header(message: &[u8]) -> Option<[u16; 6]> {
    let bytes: &[u8; HEADER_LEN] = message.first_chunk()?;
    let (pairs, _) = bytes.as_chunks::<2>();
    Some(std::array::from_fn(|at| u16::from_be_bytes(pairs[at])))
}

/// The response code with the upper bits of OPT (RFC 6891 §6.1.3); `None` if unreadable.
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

/// A time in RFC 3339 format, UTC, with microseconds.
fn timestamp(unix: Duration) -> String {
    let micros = i64::try_from(unix.as_micros()).unwrap_or(i64::MAX);
    format!("{:.6}", Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests;
