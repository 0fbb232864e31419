//! What these tests share: zones of text, messages in parts, and a burst of them.
use answer::{AnswerCounts, NoForwarding, Now, Policy, Resolver, Scratch, batch};
use compile::{Image, Loader, Zone};
use image::HashKey;
use packet::{Packet, Transport, Verdict, View};
use std::sync::Arc;
use wire::{Name, NameBuf};

pub fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap()
}

pub fn key() -> Arc<HashKey> {
    Arc::new(HashKey::new(std::array::from_fn(|n| {
        (n as u64 + 3).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })))
}

/// Records of a zone that is not finished.
pub fn loader(key: &Arc<HashKey>, origin: &str, text: &str) -> Loader<'static> {
    let origin = name(origin);
    let mut loader = Loader::new(Arc::clone(key), origin.as_name(), None);
    zonefile::read_stream(&mut text.as_bytes(), origin.as_name(), &mut |r| {
        loader.add(r.owner, r.rtype, r.ttl, r.rdata, 0)
    })
    .unwrap_or_else(|failure| panic!("{failure}"));
    loader
}

pub fn load(key: &Arc<HashKey>, origin: &str, text: &str) -> Zone {
    let loaded = loader(key, origin, text).finish();
    loaded.unwrap_or_else(|problems| panic!("{}", problems[0]))
}

/// Zones: an origin and records each.
pub fn image(zones: &[(&str, &str)]) -> Image {
    let mut image = Image::new(key());
    for (origin, text) in zones {
        image.put_zone(Arc::new(load(&key(), origin, text)));
    }
    image
}

/// The zone example.org, with an address.
pub fn zones() -> Image {
    image(&[("example.org.", "$TTL 60\n@ SOA ns root 1 2 3 4 30\n@ NS ns\nns A 192.0.2.1\n")])
}

/// Header (flags, counts), section, and what else there is.
pub fn message(flags: u16, counts: [u16; 4], question: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x12, 0x34];
    bytes.extend(flags.to_be_bytes());
    bytes.extend(counts.iter().flat_map(|count| count.to_be_bytes()));
    bytes.extend(question);
    bytes.extend(rest);
    bytes
}

/// RD in the flags of a header.
pub const RD: u16 = 0x0100;

/// A query of class IN with these flags, and an OPT or nothing behind the question.
pub fn query(flags: u16, owner: &str, rtype: u16, opt: &[u8]) -> Vec<u8> {
    message(flags, [1, 0, 0, u16::from(!opt.is_empty())], &section(owner, rtype, 1), opt)
}

/// A question section.
pub fn section(text: &str, rtype: u16, class: u16) -> Vec<u8> {
    let mut bytes = name(text).as_name().as_bytes().to_vec();
    bytes.extend(rtype.to_be_bytes());
    bytes.extend(class.to_be_bytes());
    bytes
}

pub fn opt(size: u16, version: u8, flags: u8, options: &[(u16, &[u8])]) -> Vec<u8> {
    let mut data = Vec::new();
    for (code, value) in options {
        data.extend(code.to_be_bytes());
        data.extend((value.len() as u16).to_be_bytes());
        data.extend(*value);
    }
    let mut bytes = vec![0, 0, 41];
    bytes.extend(size.to_be_bytes());
    bytes.extend([0, version, flags, 0]);
    bytes.extend((data.len() as u16).to_be_bytes());
    bytes.extend(data);
    bytes
}

pub const NOW: Now = Now { unix_seconds: 0, monotonic_micros: 0, seed: 1 };

/// How messages are answered.
pub struct Burst<'a> {
    pub image: &'a Image,
    pub policy: &'a Policy<'a>,
    pub now: Now,
    pub client: &'a str,
    pub transport: Transport,
    /// Bytes of each buffer.
    pub room: usize,
    /// The view of each message, one after the other.
    pub views: &'a [View],
}

impl<'a> Burst<'a> {
    pub fn new(image: &'a Image, policy: &'a Policy<'a>) -> Self {
        let (client, transport) = ("192.0.2.9", Transport::Datagram);
        let (now, views) = (NOW, &[View::DEFAULT][..]);
        Self { image, policy, now, client, transport, room: 4096, views }
    }

    /// Has messages answered in bursts: the verdict and the bytes of each, and all counts.
    pub fn send(
        &self,
        resolver: &mut dyn Resolver,
        messages: &[Vec<u8>],
    ) -> (Vec<(Verdict, Vec<u8>)>, AnswerCounts) {
        let peer = (self.client.parse::<std::net::IpAddr>().unwrap(), 5353).into();
        let mut buffers: Vec<_> = messages.to_vec();
        let views = self.views.iter().cycle();
        let mut packets: Vec<_> = buffers
            .iter_mut()
            .zip(views)
            .map(|(buffer, view)| {
                let len = buffer.len();
                buffer.resize(self.room.max(len), 0xee);
                let mut packet = Packet::new(buffer, len, peer, self.transport);
                packet.context.view = *view;
                packet
            })
            .collect();
        let (mut counts, mut scratch) = (AnswerCounts::default(), Box::<Scratch>::default());
        for some in packets.chunks_mut(packet::BURST_MAX) {
            batch(self.image, self.policy, self.now, resolver, &mut scratch, some, &mut counts);
        }
        let sent = packets.iter().map(|packet| (packet.verdict, packet.message().to_vec()));
        (sent.collect(), counts)
    }

    /// The same of one message, without forwarding.
    pub fn send_one(&self, message: &[u8]) -> (Verdict, Vec<u8>, AnswerCounts) {
        let (mut sent, counts) = self.send(&mut NoForwarding, &[message.to_vec()]);
        let (verdict, bytes) = sent.remove(0);
        (verdict, bytes, counts)
    }
}
