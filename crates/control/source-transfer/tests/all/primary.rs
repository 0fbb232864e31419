//! A primary of the tests, which says what a test tells it to.
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread;
use wire::{Name, NameBuf};

pub const SOA: u16 = 6;
pub const AXFR: u16 = 252;
pub const IXFR: u16 = 251;

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rr {
    pub owner: Vec<u8>,
    pub rtype: u16,
    pub class: u16,
    pub ttl: u32,
    pub data: Vec<u8>,
}

/// A message, before it is written.
#[derive(Clone, Debug)]
pub struct Message {
    pub id: u16,
    pub flags: u16,
    pub question: Option<(Vec<u8>, u16, u16)>,
    pub answers: Vec<Rr>,
    pub authority: Vec<Rr>,
}

/// What a primary is asked.
#[derive(Clone, Debug)]
pub struct Asked {
    pub id: u16,
    pub zone: NameBuf,
    pub rtype: u16,
}

impl Asked {
    fn read(message: &[u8]) -> Self {
        let end = wire::skip_name(message, 12).expect("a question");
        let zone = Name::parse(&message[12..end]).expect("a name").into();
        let number = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
        Self { id: number(0), zone, rtype: number(end) }
    }

    /// A response with authority and these answers.
    pub fn answer(&self, answers: Vec<Rr>) -> Message {
        let question = Some((self.zone.as_name().as_bytes().to_vec(), self.rtype, 1));
        Message { id: self.id, flags: 0x8400, question, answers, authority: Vec::new() }
    }
}

impl Message {
    pub fn bytes(&self) -> Vec<u8> {
        let count = |len: usize| (len as u16).to_be_bytes();
        let counts =
            [usize::from(self.question.is_some()), self.answers.len(), self.authority.len(), 0];
        let mut bytes = [self.id.to_be_bytes(), self.flags.to_be_bytes()].concat();
        counts.iter().for_each(|len| bytes.extend(count(*len)));
        if let Some((name, rtype, class)) = &self.question {
            bytes.extend([&name[..], &rtype.to_be_bytes(), &class.to_be_bytes()].concat());
        }
        for Rr { owner, rtype, class, ttl, data } in self.answers.iter().chain(&self.authority) {
            let (rtype, class, ttl) = (rtype.to_be_bytes(), class.to_be_bytes(), ttl.to_be_bytes());
            bytes.extend([&owner[..], &rtype, &class, &ttl, &count(data.len()), data].concat());
        }
        bytes
    }
}

/// What a primary sends over a stream. Then it closes, or stays silent.
pub struct Reply {
    pub messages: Vec<Vec<u8>>,
    pub closes: bool,
}

impl Reply {
    pub fn of(messages: impl IntoIterator<Item = Message>) -> Self {
        Self { messages: messages.into_iter().map(|it| it.bytes()).collect(), closes: true }
    }
}

type Script = dyn Fn(&Asked) -> Reply + Send + Sync;

/// Starts a primary; its threads end with the process.
pub fn start(script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> SocketAddr {
    let script: Arc<Script> = Arc::new(script);
    let (streams, datagrams) = loop {
        let streams = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = streams.local_addr().expect("an address");
        // Another process may have the port of the other protocol.
        if let Ok(datagrams) = UdpSocket::bind(address) {
            break (streams, datagrams);
        }
    };
    let address = streams.local_addr().expect("an address");
    let by_datagram = Arc::clone(&script);
    thread::spawn(move || {
        let mut room = [0; 512];
        while let Ok((len, from)) = datagrams.recv_from(&mut room) {
            for message in by_datagram(&Asked::read(&room[..len])).messages {
                // A client that is gone needs no answer.
                let _ = datagrams.send_to(&message, from);
            }
        }
    });
    thread::spawn(move || {
        for stream in streams.incoming().flatten() {
            let script = Arc::clone(&script);
            thread::spawn(move || serve(stream, &*script));
        }
    });
    address
}

fn serve(mut stream: TcpStream, script: &Script) -> Option<()> {
    let mut len = [0; 2];
    stream.read_exact(&mut len).ok()?;
    let mut message = vec![0; u16::from_be_bytes(len).into()];
    stream.read_exact(&mut message).ok()?;
    let reply = script(&Asked::read(&message));
    for message in reply.messages {
        let framed = [&(message.len() as u16).to_be_bytes()[..], &message].concat();
        stream.write_all(&framed).ok()?;
    }
    // One that does not close waits until the client does.
    while !reply.closes && stream.read(&mut len).ok()? > 0 {}
    Some(())
}

pub fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
}

/// A record of class IN.
pub fn rr(owner: &str, rtype: u16, data: &[u8]) -> Rr {
    let owner = name(owner).as_name().as_bytes().to_vec();
    Rr { owner, rtype, class: 1, ttl: 60, data: data.to_vec() }
}

/// The SOA of a zone, with these timers.
pub fn soa(zone: &str, serial: u32, [refresh, retry, expire]: [u32; 3]) -> Rr {
    let numbers = [serial, refresh, retry, expire, 60].map(u32::to_be_bytes).concat();
    rr(zone, SOA, &[&b"\x02ns\0\x04root\0"[..], &numbers].concat())
}
