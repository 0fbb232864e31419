//! Generated keys in a real etcd: what `CoreDNS` answers by its plugin `etcd`, the imported sets
//! have, but for what is reported.
use import_etcd::{Entry, Imported, Layout, import};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Child, Command, Stdio};
use test_support::etcd::Etcd;
use test_support::folder::Folder;
use test_support::ports::free_address;
use test_support::{tools, wait};
use wire::{NameBuf, Rtype};

const ZONE: &str = "skydns.local.";
const TYPES: [Rtype; 5] = [Rtype::A, Rtype::AAAA, Rtype::SRV, Rtype::MX, Rtype::TXT];
const ROUNDS: u64 = 12;
const KEYS: usize = 40;

struct CoreDns(Child);

impl Drop for CoreDns {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn name(text: &str) -> NameBuf {
    zonefile::read_name(text).expect("a name")
}

/// Keys with names of two levels, groups, texts, mail and TTLs.
fn generate(seed: u64) -> BTreeMap<String, String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut keys = BTreeMap::new();
    for _ in 0..KEYS {
        let mut path = "/skydns/local/skydns".to_owned();
        for _ in 0..random.usize(1..4) {
            path += ["/a", "/b", "/web", "/x1", "/10"][random.usize(..5)];
        }
        let mut fields = Vec::new();
        match random.u8(..10) {
            0 => fields.push(r#""text":"v=spf1 -all""#.to_owned()),
            1 | 2 => fields.push(format!(r#""host":"2001:db8::{}""#, random.u8(1..5))),
            _ => fields.push(format!(r#""host":"192.0.2.{}""#, random.u8(1..9))),
        }
        for (share, field) in [
            (3, format!(r#""port":{}"#, [80, 443, 8080][random.usize(..3)])),
            (2, format!(r#""weight":{}"#, random.u8(1..9))),
            (2, format!(r#""priority":{}"#, random.u8(1..4))),
            (3, format!(r#""group":"g{}""#, random.u8(1..3))),
            (2, r#""mail":true"#.to_owned()),
            (2, format!(r#""targetstrip":{}"#, random.u8(1..3))),
        ] {
            if random.u8(..10) < share {
                fields.push(field);
            }
        }
        keys.insert(path, format!("{{{}}}", fields.join(",")));
    }
    keys
}

/// The data of the answer records of a type: of a reply without compression of our names.
fn answer(socket: &UdpSocket, owner: &NameBuf, rtype: Rtype) -> BTreeSet<String> {
    let mut query = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    query.extend_from_slice(owner.as_name().as_bytes());
    query.extend_from_slice(&rtype.0.to_be_bytes());
    query.extend_from_slice(&[0, 1, 0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0]);
    let mut reply = [0; 4096];
    let len = wait::until_ok("a reply", || {
        socket.send(&query)?;
        socket.recv(&mut reply)
    });
    let reply = &reply[..len];
    let count = u16::from_be_bytes([reply[6], reply[7]]);
    let mut at = query.len() - 11;
    let mut found = BTreeSet::new();
    for _ in 0..count {
        at = skip_name(reply, at);
        let fixed: [u8; 10] = reply[at..at + 10].try_into().expect("a record");
        let kind = Rtype(u16::from_be_bytes([fixed[0], fixed[1]]));
        let len = usize::from(u16::from_be_bytes([fixed[8], fixed[9]]));
        at += 10;
        found.insert(format!("{kind} {}", data_text(reply, at, len, kind)));
        at += len;
    }
    found
}

fn skip_name(message: &[u8], mut at: usize) -> usize {
    loop {
        match message[at] {
            0 => return at + 1,
            192.. => return at + 2,
            len => at += usize::from(len) + 1,
        }
    }
}

/// A name, whose end may be a pointer.
fn expand(message: &[u8], mut at: usize) -> Vec<u8> {
    let mut name = Vec::new();
    loop {
        match message[at] {
            0 => {
                name.push(0);
                return name;
            }
            192.. => at = usize::from(u16::from_be_bytes([message[at] & 63, message[at + 1]])),
            len => {
                let end = at + usize::from(len) + 1;
                name.extend_from_slice(&message[at..end]);
                at = end;
            }
        }
    }
}

fn data_text(message: &[u8], at: usize, len: usize, rtype: Rtype) -> String {
    let fixed = match rtype {
        Rtype::SRV => 6,
        Rtype::MX => 2,
        _ => len,
    };
    let mut data = message[at..at + fixed].to_vec();
    if fixed < len {
        data.extend(expand(message, at + fixed));
    }
    zonefile::data_text(rtype, &data)
}

fn imported_answer(imported: &Imported, owner: &NameBuf, rtype: Rtype) -> BTreeSet<String> {
    let (owner, kind) = (owner.to_string(), rtype.to_string());
    let sets = imported.sets.iter().filter(|set| set.name == owner && set.rtype == kind);
    sets.flat_map(|set| set.data.iter().map(|data| format!("{kind} {data}"))).collect()
}

async fn fill(etcd: &Etcd, keys: &BTreeMap<String, String>) {
    let mut client = etcd_client::Client::connect(etcd.endpoints(), None).await.expect("etcd");
    let all = etcd_client::DeleteOptions::new().with_prefix();
    client.delete("/skydns", Some(all)).await.expect("deleted");
    for (key, value) in keys {
        client.put(key.as_str(), value.as_str(), None).await.expect("put");
    }
}

#[test]
#[ignore = "cluster: CoreDNS, which Go builds"]
fn generated_keys_have_the_answers_of_coredns() {
    let coredns = tools::go("coredns", "COREDNS").expect("CoreDNS");
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (folder, address) = (Folder::new("coredns"), free_address(Ipv4Addr::LOCALHOST));
    let config = format!(
        "{ZONE}:{} {{\n bind 127.0.0.1\n etcd {{\n  path /skydns\n  endpoint {}\n }}\n}}\n",
        address.port(),
        etcd.endpoints()[0]
    );
    std::fs::write(folder.join("Corefile"), config).expect("written");
    let child = Command::new(coredns)
        .arg("-conf")
        .arg(folder.join("Corefile"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _server = CoreDns(child.expect("it runs"));
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(address).expect("connected");
    socket.set_read_timeout(Some(std::time::Duration::from_secs(1))).expect("a timeout");
    let mut compared = 0;
    for seed in 0..ROUNDS {
        let keys = generate(seed);
        runtime.block_on(fill(&etcd, &keys));
        let entries = keys.iter().map(|(key, value)| {
            let (key, value) = (key.clone(), value.clone().into_bytes());
            Entry { key, value, lease_seconds: None }
        });
        let entries: Vec<Entry> = entries.collect();
        let imported = import(&entries, Layout::SkyDns, "skydns", name(ZONE).as_name());
        assert!(imported.notes.iter().all(|note| !note.is_lost), "{:?}", imported.notes);
        let names: BTreeSet<String> = imported.sets.iter().map(|set| set.name.clone()).collect();
        for owner in names.iter().map(|text| name(text)) {
            assert!(owner.as_name().is_within(name(ZONE).as_name()), "{owner}");
            for rtype in TYPES {
                let theirs = answer(&socket, &owner, rtype);
                let ours = imported_answer(&imported, &owner, rtype);
                assert_eq!(ours, theirs, "seed {seed}: {owner} {rtype}: {keys:#?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 500, "{compared} answers");
    println!("{compared} answers are those of CoreDNS");
}
