//! A server with a zone of its own and forwarded names, and the responses of their servers.
use crate::common::{Burst, image, key, load, message, opt, section};
use answer::{CacheLookup, ForwardedRecords, Policy, Resolver, TtlLimits, relay};
use cache::{CacheHit, CacheKey};
use compile::Image;
use domain::base::iana::{Class, OptRcode, Rcode};
use domain::base::message_builder::{AnswerBuilder, MessageBuilder};
use domain::base::{Message, Name as DomainName, Rtype as Type};
use domain::rdata::{A, AllRecordData, Cname, Dname, Ns, Soa};
use image::{ForwardRule, Forwards};
use limit::Acl;
use packet::{Packet, Transport, Verdict};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use wire::{Malformed, Name, NameBuf, Rtype, Suffixes};

pub const LIFETIMES: TtlLimits = TtlLimits { ttl_min: 0, ttl_max: 86_400, negative_ttl_max: 3_600 };

pub fn name(text: &str) -> NameBuf {
    let mut name = NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap();
    name.make_lowercase();
    name
}

pub fn domain(text: &str) -> DomainName<Vec<u8>> {
    text.parse().unwrap()
}

/// An upstream's response about the addresses of a name.
pub struct UpstreamResponse(pub AnswerBuilder<Vec<u8>>);

impl UpstreamResponse {
    pub fn about(owner: &str, rcode: Rcode) -> Self {
        let mut builder = MessageBuilder::new_vec();
        builder.header_mut().set_qr(true);
        builder.header_mut().set_rcode(rcode);
        let mut builder = builder.question();
        builder.push((domain(owner), Type::A)).unwrap();
        Self(builder.answer())
    }

    pub fn a(self, owner: &str, ttl: u32, last: u8) -> Self {
        self.a_of(Class::IN, owner, ttl, last)
    }

    pub fn a_of(mut self, class: Class, owner: &str, ttl: u32, last: u8) -> Self {
        let data = A::new(Ipv4Addr::new(192, 0, 2, last));
        self.0.push((domain(owner), class, ttl, data)).unwrap();
        self
    }

    pub fn cname(self, owner: &str, ttl: u32, target: &str) -> Self {
        self.cname_of(Class::IN, owner, ttl, target)
    }

    pub fn cname_of(mut self, class: Class, owner: &str, ttl: u32, target: &str) -> Self {
        self.0.push((domain(owner), class, ttl, Cname::new(domain(target)))).unwrap();
        self
    }

    pub fn dname(mut self, owner: &str, ttl: u32, target: &str) -> Self {
        self.0.push((domain(owner), Class::IN, ttl, Dname::new(domain(target)))).unwrap();
        self
    }

    pub fn authentic(mut self) -> Self {
        self.0.header_mut().set_ad(true);
        self
    }

    pub fn message(self) -> Vec<u8> {
        self.0.finish()
    }

    /// With a referral.
    pub fn ns(self, owner: &str, server: &str) -> Vec<u8> {
        let mut builder = self.0.authority();
        builder.push((domain(owner), Class::IN, 60, Ns::new(domain(server)))).unwrap();
        builder.finish()
    }

    pub fn soa(self, owner: &str, ttl: u32, minimum: u32) -> Vec<u8> {
        self.soa_of(Class::IN, owner, ttl, minimum)
    }

    pub fn soa_of(self, class: Class, owner: &str, ttl: u32, minimum: u32) -> Vec<u8> {
        let mut builder = self.0.authority();
        let second = |seconds| domain::base::Ttl::from_secs(seconds);
        let data = Soa::new(
            domain("ns.example."),
            domain("root.example."),
            1.into(),
            second(1),
            second(1),
            second(1),
            second(minimum),
        );
        builder.push((domain(owner), class, ttl, data)).unwrap();
        builder.finish()
    }
}

/// A server with a zone of its own and two groups of upstreams: `corp.example.` (1), all else (0).
pub struct Fixture {
    pub image: Image,
    pub rules: Vec<ForwardRule>,
    pub resolver: FakeResolver,
    /// How queries come.
    pub transport: Transport,
}

/// The cached responses, and the queries to upstreams.
#[derive(Default)]
pub struct FakeResolver {
    pub messages: HashMap<(Vec<u8>, u16), Entry>,
    /// How often the cache was searched, and the results.
    pub finds: usize,
    pub lookups: Vec<CacheLookup>,
    pub age: u32,
    pub uses: u8,
    /// Name, group, and the packet as it came.
    pub queries: Vec<(Vec<u8>, u16, Vec<u8>)>,
    pub renewed: usize,
    pub refuses: bool,
}

/// A message, its life in seconds, and the map its name was confirmed by.
pub type Entry = (Vec<u8>, u32, u32);

impl Resolver for FakeResolver {
    fn prefetch(&self, _key: &CacheKey<'_>) {}

    fn find(&mut self, key: &CacheKey<'_>) -> Option<CacheHit<'_>> {
        self.finds += 1;
        let (message, ttl, map) = self.messages.get(&(key.name.to_vec(), key.kind.rtype()))?;
        let (age, uses, may_renew) = (self.age, self.uses, true);
        Some(CacheHit { message, age, ttl: *ttl, uses, may_renew, map: *map })
    }

    fn count(&mut self, lookup: CacheLookup) {
        self.lookups.push(lookup);
    }

    fn request(&mut self, key: &CacheKey<'_>, group: u16, packet: &Packet<'_>) -> bool {
        self.queries.push((key.name.to_vec(), group, packet.message().to_vec()));
        !self.refuses
    }

    fn renew(&mut self, _key: &CacheKey<'_>, _group: u16) {
        self.renewed += 1;
    }

    fn confirm(&mut self, key: &CacheKey<'_>, by: u32) {
        let entry = self.messages.get_mut(&(key.name.to_vec(), key.kind.rtype()));
        entry.expect("what was found is there").2 = by;
    }
}

impl Fixture {
    pub fn new() -> Self {
        let image = image(&[(
            "here.example.",
            "@ 60 SOA ns root 1 1 1 1 60\n@ 60 NS ns\nns 60 A 192.0.2.53\n\
             out 60 CNAME www.elsewhere.example.\nround 60 CNAME round.elsewhere.example.\n",
        )]);
        let mut rules = vec![
            ForwardRule { suffix: name("."), group: 0 },
            ForwardRule { suffix: name("corp.example."), group: 1 },
        ];
        Forwards::sort(&mut rules);
        let (resolver, transport) = (FakeResolver::default(), Transport::Datagram);
        Self { image, rules, resolver, transport }
    }

    pub fn add_zone(&mut self, origin: &str, records: &str) {
        self.image.put_zone(Arc::new(load(&key(), origin, records)));
    }

    /// Caches the response of the servers of a suffix about a name's addresses. Returns its TTL.
    pub fn remember(&mut self, owner: &str, suffix: &str, message: &[u8]) -> u32 {
        let (saved, relayed) = relayed(owner, suffix, false, message);
        self.resolver
            .messages
            .insert((name(owner).as_name().as_bytes().to_vec(), 1), (saved, relayed.ttl, 0));
        relayed.ttl
    }

    /// The same for another type.
    pub fn remember_of(&mut self, rtype: Rtype, owner: &str, suffix: &str, message: &[u8]) {
        let (saved, relayed) = relayed_of(rtype, owner, suffix, false, message).unwrap();
        let key = (name(owner).as_name().as_bytes().to_vec(), rtype.0);
        self.resolver.messages.insert(key, (saved, relayed.ttl, 0));
    }

    pub fn request(&mut self, owner: &str) -> Option<String> {
        self.query_with(owner, QueryOptions::default())
    }

    pub fn query_with(&mut self, owner: &str, options: QueryOptions) -> Option<String> {
        self.query_by(owner, options, Acl::ALL)
    }

    /// The same, where upstreams are queried only for the clients of a list.
    pub fn query_by(
        &mut self,
        owner: &str,
        options: QueryOptions,
        recursion: Acl<'_>,
    ) -> Option<String> {
        let question = options.message(owner);
        self.transport = options.transport;
        let reply = self.burst(&[&question], &recursion);
        // After another forwarded query it may take the fast path.
        let before =
            (self.resolver.queries.len(), self.resolver.renewed, self.resolver.lookups.len());
        let other = QueryOptions::default().message("another.example.net.");
        assert_eq!(self.burst(&[&other, &question], &recursion), reply);
        self.resolver.queries.truncate(before.0);
        self.resolver.lookups.truncate(before.2);
        self.resolver.renewed = before.1;
        reply.map(|reply| show(&reply))
    }

    /// The reply to the last of several queries, if it has one.
    pub fn burst(&mut self, queries: &[&[u8]], recursion: &Acl<'_>) -> Option<Vec<u8>> {
        let (forwards, recursion) = (Forwards::new(&self.rules), *recursion);
        let policy = Policy { forwards, recursion, ..Policy::default() };
        let burst = Burst { transport: self.transport, ..Burst::new(&self.image, &policy) };
        let queries: Vec<_> = queries.iter().map(|question| question.to_vec()).collect();
        let mut sent = burst.send(&mut self.resolver, &queries).0;
        match sent.pop().expect("a question") {
            (Verdict::Reply, bytes) => Some(bytes),
            (Verdict::Deferred, bytes) => {
                assert_eq!(Some(&bytes), queries.last(), "as it came");
                None
            }
            (other, _) => panic!("{other:?}"),
        }
    }

    /// Whether a query of a forwarded name, after another one, takes the fast path.
    pub fn takes_fast_path(&mut self, owner: &str, options: QueryOptions) -> bool {
        let other = QueryOptions::default().message("another.example.net.");
        self.resolver.finds = 0;
        self.burst(&[&other, &options.message(owner)], &Acl::ALL).expect("it is known");
        // The other name is searched once, and one that cannot take the fast path twice.
        self.resolver.finds == 2
    }
}

/// The header, the type and the OPT of a query.
#[derive(Clone, Copy, Debug)]
pub struct QueryOptions {
    pub recursion: bool,
    pub authentic: bool,
    pub opt: Option<u16>,
    pub rtype: Rtype,
    pub class: u16,
    pub transport: Transport,
}

impl Default for QueryOptions {
    fn default() -> Self {
        let (rtype, class, transport) = (Rtype::A, 1, Transport::Datagram);
        Self { recursion: true, authentic: false, opt: Some(1232), rtype, class, transport }
    }
}

impl QueryOptions {
    pub fn message(&self, owner: &str) -> Vec<u8> {
        let flags = u16::from(self.recursion) << 8 | u16::from(self.authentic) << 5;
        let opt = self.opt.map(|size| opt(size, 0, 0, &[])).unwrap_or_default();
        let counts = [1, 0, 0, self.opt.is_some().into()];
        message(flags, counts, &section(owner, self.rtype.0, self.class), &opt)
    }
}

pub fn relayed(
    owner: &str,
    suffix: &str,
    dnssec_ok: bool,
    message: &[u8],
) -> (Vec<u8>, ForwardedRecords) {
    relayed_of(Rtype::A, owner, suffix, dnssec_ok, message).unwrap()
}

pub fn relayed_of(
    rtype: Rtype,
    owner: &str,
    suffix: &str,
    dnssec_ok: bool,
    message: &[u8],
) -> Result<(Vec<u8>, ForwardedRecords), Malformed> {
    let (owner, suffix) = (name(owner), name(suffix));
    let kind = cache::QueryKind::new(rtype.0, 1, dnssec_ok, false);
    let key = CacheKey { hash: 0, kind, name: owner.as_name().as_bytes() };
    let mut saved = vec![0; 2 * message.len() + 512];
    let relayed =
        relay(&key, suffix.as_name(), message, &LIFETIMES, &mut Suffixes::new(), &mut saved)?;
    saved.truncate(relayed.len);
    Ok((saved, relayed))
}

pub fn show(bytes: &[u8]) -> String {
    let message = Message::from_octets(bytes).expect("a whole message");
    let header = message.header();
    let question = message.sole_question().expect("the question");
    let code = match message.opt() {
        Some(_) => message.opt_rcode(),
        None => OptRcode::from_rcode(header.rcode()),
    };
    let mut text = format!("{code} {}", question.qname());
    for (set, flag) in
        [(header.aa(), " aa"), (header.tc(), " tc"), (header.ra(), " ra"), (header.ad(), " ad")]
    {
        text.push_str(if set { flag } else { "" });
    }
    let (_, answer, authority, _) = message.sections().expect("sections");
    for (section, mark) in [(answer, ""), (authority, "! ")] {
        for record in section.limit_to::<AllRecordData<_, _>>() {
            let record = record.expect("a record");
            let ttl = record.ttl().as_secs();
            text +=
                &format!("\n{mark}{} {ttl} {} {}", record.owner(), record.rtype(), record.data());
        }
    }
    let errors = message.opt().into_iter().flat_map(|opt| {
        let options = opt.opt().iter::<domain::base::opt::ExtendedError<_>>();
        options.map(|ede| ede.unwrap().code().to_int()).collect::<Vec<_>>()
    });
    for code in errors {
        text += &format!("\nede {code}");
    }
    text
}
