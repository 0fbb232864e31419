//! Rings of events under real threads, and their bookkeeping in one.

use std::thread;
use sync::events;

#[test]
fn event_without_room_is_counted() {
    let (mut writer, mut reader) = events(64);
    // Eight words: four events of two.
    let taken = (0..10u8).filter(|n| writer.write([&[*n; 8]])).count();
    assert_eq!((taken, reader.lost()), (4, 6));
    let mut seen = Vec::new();
    assert_eq!(reader.drain(|event| seen.push(event[0])), 4);
    assert_eq!(seen, [0, 1, 2, 3]);
    assert!(writer.write([&[0; 56]]), "all of the ring");
    assert!(!writer.write([&[]]), "not even an empty one");
    reader.drain(|_| ());
    assert!(!writer.write([&[0; 57]]), "more than the ring, ever");
    writer.lose();
    assert_eq!(reader.lost(), 9);
}

#[test]
fn parts_begin_at_multiples_of_eight() {
    let (mut writer, mut reader) = events(1024);
    assert!(writer.write([b"one", b"", b"sixteen bytes..."]));
    assert!(writer.write([]));
    let mut seen = Vec::new();
    reader.drain(|event| seen.push(event.to_vec()));
    assert_eq!(seen, [b"one\0\0\0\0\0sixteen bytes...".to_vec(), Vec::new()]);
}

#[test]
fn event_written_during_a_read_waits_for_the_next_read() {
    let (mut writer, mut reader) = events(1024);
    writer.write([b"early"]);
    let seen = reader.drain(|_| assert!(writer.write([b"late"])));
    assert_eq!(seen, 1);
    assert_eq!(reader.drain(|event| assert_eq!(event, b"late\0\0\0\0")), 1);
}

#[test]
fn a_reader_knows_that_its_writer_is_gone() {
    let (mut writer, mut reader) = events(64);
    writer.write([b"last"]);
    assert!(!reader.is_closed());
    drop(writer);
    assert!(reader.is_closed());
    assert_eq!(reader.drain(|event| assert_eq!(event, b"last\0\0\0\0")), 1);
}

/// Each event tells its number and, in every byte behind it, what follows from the number.
#[test]
fn under_load_events_are_whole_in_order_and_all_accounted_for() {
    const EVENTS: u64 = 300_000;
    let (mut writer, mut reader) = events(4096);
    let writing = thread::spawn(move || {
        let mut taken = 0u64;
        for number in 0..EVENTS {
            let body = [number as u8; 200];
            let len = (number.wrapping_mul(0x9e37_79b9) >> 7) as usize % body.len();
            taken += u64::from(writer.write([&number.to_le_bytes(), &body[..len]]));
        }
        taken
    });
    let (mut seen, mut next) = (0u64, 0u64);
    loop {
        let closed = reader.is_closed();
        reader.drain(|event| {
            let (number, body) = event.split_first_chunk().expect("a number");
            let number = u64::from_le_bytes(*number);
            assert!(number >= next, "{number} where {next} or later should be");
            let len = (number.wrapping_mul(0x9e37_79b9) >> 7) as usize % 200;
            assert_eq!(body.len(), len.next_multiple_of(8));
            assert!(body[..len].iter().all(|byte| *byte == number as u8), "event {number}");
            assert!(body[len..].iter().all(|byte| *byte == 0));
            (next, seen) = (number + 1, seen + 1);
        });
        if closed {
            break;
        }
    }
    let taken = writing.join().expect("no panic");
    assert_eq!(seen, taken);
    assert_eq!(seen + reader.lost(), EVENTS);
    assert!(seen > 0);
}
