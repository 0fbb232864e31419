//! Commands to a thread: flush, show, drain; and its report.

use crate::client_thread::{ClientThread, FakeServer, Reply, answer, answered, closed_address};
use std::sync::{Arc, Barrier};
use std::time::Duration;
use upstream::limits::{SHOWN_MAX, WALK_LINES};
use upstream::{
    CommandPending, CommandReport, CommandSender, NameScope, ResolverCommand, StatusView,
};
use wire::{Name, NameBuf, Rtype};

const PATIENCE: Duration = Duration::from_secs(5);

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap()
}

/// Runs the thread until it has done the command; returns its report and the number of turns.
fn reported(
    thread: &mut ClientThread,
    command_sender: &mut CommandSender,
    command: &ResolverCommand,
) -> (CommandReport, usize) {
    command_sender.send(command).unwrap();
    for turns in 1.. {
        thread.turn(&mut Vec::new(), Duration::from_millis(1));
        if let Some(report) = command_sender.report() {
            return (report, turns);
        }
    }
    unreachable!()
}

fn flush(
    thread: &mut ClientThread,
    command_sender: &mut CommandSender,
    scope: NameScope,
) -> (u64, u64) {
    let (report, _) = reported(thread, command_sender, &ResolverCommand::Flush(scope));
    (report.count, report.queries)
}

fn good() -> FakeServer {
    FakeServer::start(|query, _| vec![answer(query, 60, 1)])
}

#[test]
fn only_flushed_names_are_queried_again() {
    let server = good();
    let mut thread = ClientThread::new(&[server.address]);
    let mut command_sender = thread.upstream_client.command().unwrap();
    let names = ["a.example.", "b.a.example.", "ba.example.", "other."];
    let asked_by_now = |thread: &mut ClientThread| {
        assert!(thread.query(&names, PATIENCE).iter().all(|got| *got == answered(1)));
        server.query_count()
    };
    assert_eq!(asked_by_now(&mut thread), 4);
    for (scope, went) in [
        (NameScope::Name(name("A.example.")), 1),
        (NameScope::Subtree(name("a.example.")), 2),
        (NameScope::Subtree(name("absent.")), 0),
        (NameScope::Subtree(name("example.")), 3),
        (NameScope::All, 4),
        (NameScope::Subtree(NameBuf::root()), 4),
    ] {
        let before = server.query_count();
        assert_eq!(flush(&mut thread, &mut command_sender, scope.clone()), (went, 0), "{scope:?}");
        assert_eq!(asked_by_now(&mut thread), before + went as usize, "{scope:?}");
    }
    flush(&mut thread, &mut command_sender, NameScope::All);
    assert_eq!(StatusView::own([&thread.upstream_client.view()]).used, 0);
}

/// A query in progress is answered to its client, and not cached.
#[test]
fn answer_in_progress_during_a_flush_is_not_cached() {
    // The first answer is old, and comes late.
    let flushed = Arc::new(Barrier::new(2));
    let late = Arc::clone(&flushed);
    let server = FakeServer::start(move |query, nth| match nth {
        0 => {
            late.wait();
            vec![answer(query, 60, 1)]
        }
        _ => vec![answer(query, 60, 2)],
    });
    let mut thread = ClientThread::new(&[server.address]);
    let mut command_sender = thread.upstream_client.command().unwrap();
    let mut got = Vec::new();
    thread.send(&["www.example."], &mut got);
    let scope = NameScope::Name(name("www.example."));
    assert_eq!(flush(&mut thread, &mut command_sender, scope), (0, 1));
    // Who asks after the flush does not wait for it.
    thread.send(&["www.example."], &mut got);
    flushed.wait();
    thread.wait(&mut got, 2, PATIENCE);
    assert_eq!(got, [answered(1), answered(2)]);
    assert_eq!(thread.query_one("www.example."), answered(2));
    assert_eq!(server.query_count(), 2);
}

#[test]
fn failure_in_progress_during_a_flush_is_not_cached() {
    let mut thread = ClientThread::new(&[closed_address()]);
    let mut command_sender = thread.upstream_client.command().unwrap();
    let mut got = Vec::new();
    thread.send(&["www.example."], &mut got);
    assert_eq!(flush(&mut thread, &mut command_sender, NameScope::All), (0, 1));
    thread.wait(&mut got, 1, PATIENCE);
    let (report, _) = reported(
        &mut thread,
        &mut command_sender,
        &ResolverCommand::Show(name("www.example."), None),
    );
    assert_eq!(report.count, 0);
}

/// The alias may be kept for long, and what it stands for has changed.
#[test]
fn flush_of_a_name_includes_aliases_through_it() {
    let server = FakeServer::start(|query, _| {
        let mut message = answer(query, 60, 0);
        message[7] = 2;
        let target = message.len() + 12;
        message.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, 9]);
        message.extend(b"\x06target\xc0");
        // example.: behind `alias` of the query.
        message.push(18);
        message.extend([0xc0, target as u8, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, 0, 0, 1]);
        vec![message]
    });
    let mut thread = ClientThread::new(&[server.address]);
    let mut command_sender = thread.upstream_client.command().unwrap();
    assert_eq!(thread.query_one("alias.example."), answered(2));
    assert_eq!(
        flush(&mut thread, &mut command_sender, NameScope::Name(name("get.example."))),
        (0, 0)
    );
    assert_eq!(
        flush(&mut thread, &mut command_sender, NameScope::Name(name("target.example."))),
        (1, 0)
    );
}

#[test]
fn show_lists_cached_answers_and_changes_nothing() {
    let server = FakeServer::start(|query, _| vec![answer(query, 60, 3)]);
    let mut thread = ClientThread::new(&[server.address]);
    let mut command_sender = thread.upstream_client.command().unwrap();
    thread.query(&["www.example.", "b.www.example."], PATIENCE);
    assert_eq!(thread.query_one("www.example."), answered(3));
    for rtype in [None, Some(Rtype::A)] {
        let look = ResolverCommand::Show(name("www.example."), rtype);
        let (report, _) = reported(&mut thread, &mut command_sender, &look);
        assert_eq!((report.count, report.cached.len()), (1, 1));
        let cached = report.cached[0];
        assert_eq!((cached.rtype, cached.rcode, cached.answers), (Rtype::A, 0, 3));
        assert_eq!((cached.ttl_seconds, cached.uses), (60, 1), "a lookup is not a use");
        assert!(cached.age_seconds < 60 && cached.bytes > 50, "{cached:?}");
        assert!(!cached.dnssec_ok && !cached.checking_disabled && !cached.is_unfinished);
    }
    let look = ResolverCommand::Show(name("www.example."), Some(Rtype::MX));
    assert_eq!(reported(&mut thread, &mut command_sender, &look).0, CommandReport::default());
    assert_eq!(server.query_count(), 2);
}

#[test]
fn drained_server_answers_earlier_queries_and_gets_no_new_ones() {
    let drained = Arc::new(Barrier::new(2));
    let late = Arc::clone(&drained);
    let slow = FakeServer::start(move |query, nth| {
        if nth == 0 {
            late.wait();
        }
        vec![answer(query, 60, 1)]
    });
    let other = FakeServer::start(|query, _| vec![answer(query, 60, 2)]);
    let mut thread = ClientThread::new(&[slow.address, other.address]);
    let mut command_sender = thread.upstream_client.command().unwrap();
    let mut got = Vec::new();
    // Servers that have never answered are queried, in their order.
    thread.send(&["www.example."], &mut got);
    assert_eq!(
        reported(&mut thread, &mut command_sender, &ResolverCommand::Drain(0, true)).0,
        CommandReport::default()
    );
    assert_eq!(StatusView::server([&thread.upstream_client.view()], 0).drained, 1);
    drained.wait();
    thread.wait(&mut got, 1, PATIENCE);
    assert_eq!(got.len(), 1);
    let query_count = slow.query_count();
    for n in 0..50 {
        assert_eq!(thread.query_one(&format!("n{n}.example.")), answered(2));
    }
    assert_eq!(slow.query_count(), query_count);
    reported(&mut thread, &mut command_sender, &ResolverCommand::Drain(1, true));
    reported(&mut thread, &mut command_sender, &ResolverCommand::Drain(0, false));
    assert_eq!(StatusView::server([&thread.upstream_client.view()], 0).drained, 0);
    assert_eq!(thread.query_one("back.example."), answered(1));
    // A number without an upstream changes nothing.
    reported(&mut thread, &mut command_sender, &ResolverCommand::Drain(u16::MAX, true));
}

#[test]
fn walk_over_the_cache_is_split_into_turns() {
    let server = good();
    let mut thread = ClientThread::with_memory(&[server.address], 8 << 20);
    let mut command_sender = thread.upstream_client.command().unwrap();
    let (_, turns) =
        reported(&mut thread, &mut command_sender, &ResolverCommand::Flush(NameScope::All));
    assert!(turns > (8 << 20) / 1_000 / WALK_LINES, "{turns}");
    command_sender.send(&ResolverCommand::Flush(NameScope::All)).unwrap();
    assert_eq!(thread.query_one("www.example."), answered(1));
}

#[test]
fn commands_to_a_stuck_thread_are_bounded() {
    let mut thread = ClientThread::new(&[closed_address()]);
    let mut command_sender = thread.upstream_client.command().unwrap();
    let long = [["a"; 60].join(""), ["b"; 60].join(""), ["c"; 60].join("")].join(".") + ".";
    let command = ResolverCommand::Flush(NameScope::Name(name(&long)));
    let count = (0..1_000).take_while(|_| command_sender.send(&command).is_ok()).count();
    assert!((10..100).contains(&count), "{count}");
    assert_eq!(command_sender.send(&command), Err(CommandPending));
    assert_eq!(command_sender.report(), None);
    // Once it listens all is done, and what is reported is of the last.
    thread.wait(&mut Vec::new(), 1, Duration::from_millis(200));
    assert_eq!(command_sender.report(), None, "it was not taken");
    assert_eq!(reported(&mut thread, &mut command_sender, &command).0, CommandReport::default());
    assert!(!command_sender.is_alone());
    drop(thread);
    assert!(command_sender.is_alone());
}

#[test]
fn show_is_bounded() {
    // Each type is an answer of its own.
    let server = FakeServer::start(|query, _| {
        let end = query.len() - 11;
        let mut message = answer(query, 60, 1);
        message.copy_within(end - 4..end - 2, end + 2);
        vec![message]
    });
    let mut thread = ClientThread::new(&[server.address]);
    let mut command_sender = thread.upstream_client.command().unwrap();
    let mut got: Vec<Reply> = Vec::new();
    let count = SHOWN_MAX + 10;
    for rtype in 0..count as u16 {
        thread.send_type("www.example.", 1_000 + rtype, &mut got);
    }
    thread.wait(&mut got, count as usize, PATIENCE);
    let look = ResolverCommand::Show(name("www.example."), None);
    let (report, _) = reported(&mut thread, &mut command_sender, &look);
    assert_eq!((report.count, report.cached.len() as u64), (count, SHOWN_MAX));
}
