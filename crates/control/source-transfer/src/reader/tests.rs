//! Transfers with random damage.
use super::*;
use crate::content;
use image::HashKey;
use std::sync::Arc;
use wire::{Name, NameBuf};

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
}

fn record(owner: &str, rtype: Rtype, data: &[u8]) -> Vec<u8> {
    let (rtype, len) = (rtype.0.to_be_bytes(), (data.len() as u16).to_be_bytes());
    let owner = name(owner);
    let parts: [&[u8]; 6] =
        [owner.as_name().as_bytes(), &rtype, &[0, 1], &[0, 0, 0, 60], &len, data];
    parts.concat()
}

fn soa(serial: u32) -> Vec<u8> {
    let numbers = [serial, 3_600, 600, 86_400, 60].map(u32::to_be_bytes).concat();
    record("z.test.", Rtype::SOA, &[&b"\x02ns\0\x04root\0"[..], &numbers].concat())
}

fn message(query: &Query, answers: &[Vec<u8>]) -> Vec<u8> {
    let mut message = query.message(None);
    (message[2], message[7]) = (0x84, answers.len() as u8);
    answers.iter().for_each(|record| message.extend(record));
    message
}

/// Changes, inserts or removes a few bytes.
fn damage(message: &mut Vec<u8>, random: &mut fastrand::Rng) {
    for _ in 0..random.u8(1..4) {
        let at = random.usize(..message.len().max(1));
        match random.u8(..4) {
            0 => message.truncate(at),
            1 => message.insert(at.min(message.len()), random.u8(..)),
            _ if at < message.len() => message[at] = random.u8(..),
            _ => {}
        }
    }
}

#[test]
fn damaged_transfer_is_an_error_or_a_zone_and_never_a_panic() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let key = Arc::new(HashKey::new(std::array::from_fn(|word| word as u64 * 7 + 1)));
    let zone = name("z.test.");
    let (servers, address) =
        (record("z.test.", Rtype::NS, b"\x02ns\0"), record("a.z.test.", Rtype::A, &[1; 4]));
    let added = record("b.z.test.", Rtype::A, &[2; 4]);
    let full = Query::new(zone.as_name(), Rtype::AXFR).expect("random numbers");
    let all = [soa(1), servers, address.clone(), soa(1)];
    let read = |query: &Query, known, messages: &[Vec<u8>]| {
        let mut reader = TransferReader::new(query.clone(), known, 100);
        for message in messages {
            if reader.push(message)? {
                break;
            }
        }
        reader.finish()
    };
    let messages = [message(&full, &all[..2]), message(&full, &all[2..])];
    let transferred = read(&full, None, &messages).expect("a transfer");
    let made = content::make(&transferred, &key, zone.as_name(), None);
    let known = Arc::new(made.expect("a zone").expect("records"));
    assert_eq!((known.serial(), known.count()), (Some(1), (2, 3)));
    let some = Query::new(zone.as_name(), Rtype::IXFR).expect("random numbers");
    let step = [soa(2), soa(1), address, soa(2), added, soa(2)];
    let differences = [message(&some, &step[..4]), message(&some, &step[4..])];
    let transferred = read(&some, Some(1), &differences).expect("differences");
    let made = content::make(&transferred, &key, zone.as_name(), Some(&known));
    assert_eq!(made.expect("a zone").and_then(|zone| zone.serial()), Some(2));
    for _ in 0..5_000 {
        let (query, known_serial, mut messages) = match random.bool() {
            true => (&full, None, messages.clone()),
            false => (&some, Some(1), differences.clone()),
        };
        damage(&mut messages[random.usize(..2)], &mut random);
        if let Ok(transferred) = read(query, known_serial, &messages) {
            let made = content::make(&transferred, &key, zone.as_name(), Some(&known));
            if let Ok(Some(made)) = made {
                assert!(made.serial().is_some());
            }
        }
    }
}
