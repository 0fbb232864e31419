//! A fleet of three servers and an etcd of three members, each on a host of its own, under load,
//! while everything breaks: `make campaign-fleet-faults` does it for ten minutes.
mod bed;

use bed::{Bed, MEMBERS, SERVERS, USER};
use fastrand::Rng;
use rustix::process::Signal;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};
use test_support::spaces::{Lan, within};
use test_support::wait;

/// How long the campaign lasts, in seconds; otherwise each fault is made once.
const SECONDS: &str = "DUNLIN_FAULTS_SECONDS";

/// After the end of a fault, all servers take writes and answer the same.
const AGREED_MAX: Duration = Duration::from_secs(2);
/// The same after a member of etcd was stopped, which is not announced by anything.
const STOPPED_MAX: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Debug)]
enum Fault {
    LeaderKilled,
    QuorumLost,
    ServerSilenced,
    MemberUnplugged,
    MemberStopped,
    ServerStopped,
    ServerKilled,
    Compacted,
    Defragmented,
    OutOfSpace,
    PasswordChanged,
    ClockSet,
    SetBack,
    ContentLost,
    RevisionEdited,
    FormatEdited,
}

const FAULTS: [Fault; 16] = [
    Fault::LeaderKilled,
    Fault::QuorumLost,
    Fault::ServerSilenced,
    Fault::MemberUnplugged,
    Fault::MemberStopped,
    Fault::ServerStopped,
    Fault::ServerKilled,
    Fault::Compacted,
    Fault::Defragmented,
    Fault::OutOfSpace,
    Fault::PasswordChanged,
    Fault::ClockSet,
    Fault::SetBack,
    Fault::ContentLost,
    Fault::RevisionEdited,
    Fault::FormatEdited,
];

/// The faults of a run.
struct Run {
    bed: Bed,
    rng: Rng,
    /// Whether the limits hold, which a busy machine need not keep.
    is_strict: bool,
    /// The longest time of each fault.
    longest: Vec<(String, Duration, Duration)>,
    /// How many writes were sent that should be refused.
    sent: u32,
}

fn seconds(count: u64) {
    thread::sleep(Duration::from_secs(count));
}

impl Run {
    fn server(&mut self) -> usize {
        self.rng.usize(..SERVERS)
    }

    fn member(&mut self) -> usize {
        self.rng.usize(..MEMBERS)
    }

    /// All servers agree, at most so long after `from`.
    fn agrees(&mut self, what: &str, from: Instant, limit: Duration) {
        let took = self.bed.agree(from);
        println!("{what}: agreed after {took:.2?} of {limit:?}");
        if took > limit {
            self.bed.show_logs();
        }
        match self.longest.iter_mut().find(|(name, ..)| name == what) {
            Some((_, longest, _)) => *longest = took.max(*longest),
            None => self.longest.push((what.to_owned(), took, limit)),
        }
    }

    /// A server loses what it sends to etcd, until it knows. Its watch outlives a short silence,
    /// and would bring what was missed.
    fn cut_off(&self, server: usize) {
        let served = self.bed.servers[server].as_ref().expect("it runs");
        drop(served.new_lines());
        self.bed.lan.lose(MEMBERS + server, 0..MEMBERS, true);
        served.expect_line("etcd is not followed", "");
    }

    /// Waits until a server refuses writes by this status and words.
    fn is_refused(&mut self, server: usize, status: u16, words: &str) {
        let what = format!("server {server} refuses by {status} {words}");
        wait::until_ok(&what, || {
            let began = Instant::now();
            // Another value each time: a write that changes nothing needs no space.
            self.sent += 1;
            let (found, text) = self.bed.set(server, "refused.fleet.example", self.sent);
            let took = began.elapsed();
            if found == status && text.contains(words) {
                let is_soon = took <= Duration::from_secs(6);
                assert!(!self.is_strict || is_soon, "a refusal took {took:?}: {text}");
                let retry = text.to_lowercase().contains("retry-after");
                assert_eq!(retry, status == 503, "{text}");
                return Ok(());
            }
            assert!(matches!(found, 200 | 503 | 504), "{found} {text}");
            Err(format!("{found} {text}"))
        });
    }

    fn set_away(&self, server: usize, is_away: bool) {
        self.bed.load.away[server].store(is_away, Relaxed);
        self.bed.load.changes[server].fetch_add(1, Relaxed);
    }

    fn signal(&self, server: usize, signal: Signal) {
        self.bed.servers[server].as_ref().expect("it runs").signal(signal);
    }

    fn make(&mut self, fault: Fault) {
        let server = self.server();
        match fault {
            Fault::LeaderKilled => self.kill_leader(),
            Fault::QuorumLost => self.lose_quorum(),
            Fault::ServerSilenced => self.silence(server),
            Fault::MemberUnplugged => {
                self.miss_a_member(fault, |bed, member, is_away| bed.lan.plug(member, !is_away));
            }
            Fault::MemberStopped => self.miss_a_member(fault, |bed, member, is_away| {
                if is_away { bed.etcd.pause(member) } else { bed.etcd.resume(member) }
            }),
            Fault::ServerStopped => self.stop(server),
            Fault::ServerKilled => {
                self.set_away(server, true);
                self.signal(server, Signal::KILL);
                self.bed.restart(server);
            }
            Fault::Compacted => {
                self.cut_off(server);
                self.bed.operator.compact();
                self.bed.lan.lose(MEMBERS + server, 0..MEMBERS, false);
            }
            Fault::Defragmented => self.bed.operator.defragment(),
            Fault::OutOfSpace => self.fill(),
            Fault::PasswordChanged => self.change_password(),
            Fault::ClockSet => self.set_clock(server),
            Fault::SetBack => self.set_back(),
            Fault::ContentLost => self.lose_content(),
            Fault::RevisionEdited => self.edit_revision(),
            Fault::FormatEdited => {
                self.bed.operator.put("/dunlin/format", "9");
                (0..SERVERS).for_each(|server| self.is_refused(server, 503, "newer version"));
                self.bed.operator.put("/dunlin/format", "1");
            }
        }
        self.agrees(&format!("{fault:?}"), Instant::now(), AGREED_MAX);
        (0..SERVERS).for_each(|server| self.set_away(server, false));
    }

    fn kill_leader(&mut self) {
        let leader = self.bed.operator.leader();
        let killed = Instant::now();
        self.bed.etcd.kill(leader);
        self.agrees("LeaderKilled, without it", killed, STOPPED_MAX);
        self.bed.etcd.start(leader);
    }

    fn lose_quorum(&mut self) {
        let left = self.member();
        let lost = (0..MEMBERS).filter(|member| *member != left);
        lost.clone().for_each(|member| self.bed.etcd.kill(member));
        (0..SERVERS).for_each(|server| self.is_refused(server, 503, ""));
        lost.for_each(|member| self.bed.etcd.start(member));
        // Healed is an etcd that has a leader.
        self.bed.operator.put("/other/healed", "");
    }

    /// A member is away, and comes back.
    fn miss_a_member(&mut self, fault: Fault, set_away: fn(&Bed, usize, bool)) {
        let member = self.member();
        let began = Instant::now();
        set_away(&self.bed, member, true);
        self.agrees(&format!("{fault:?}, without it"), began, STOPPED_MAX);
        seconds(self.rng.u64(..5));
        set_away(&self.bed, member, false);
    }

    fn silence(&mut self, server: usize) {
        self.bed.lan.lose(MEMBERS + server, 0..MEMBERS, true);
        self.is_refused(server, 503, "");
        // Sometimes until it is not a member any more.
        seconds(self.rng.u64(1..12));
        self.bed.lan.lose(MEMBERS + server, 0..MEMBERS, false);
    }

    fn stop(&mut self, server: usize) {
        self.set_away(server, true);
        self.signal(server, Signal::STOP);
        seconds(self.rng.u64(1..13));
        self.signal(server, Signal::CONT);
    }

    fn fill(&mut self) {
        self.bed.operator.fill("/other/", 1_000_000);
        (0..SERVERS).for_each(|server| self.is_refused(server, 507, "defragment"));
        let check = r#"{"kind":"tcp","port":80}"#;
        let (status, text) = self.bed.request(0, "PUT", "/v1/checks/web", check);
        assert_eq!(status, 507, "{text}");
        self.bed.operator.delete("/other/");
        self.bed.operator.make_room();
    }

    fn change_password(&mut self) {
        let password = format!("password-{}", self.rng.u32(..));
        self.bed.operator.change_password(USER, &password);
        (0..SERVERS).for_each(|server| self.is_refused(server, 503, ""));
        self.bed.set_password(&password);
    }

    fn set_clock(&mut self, server: usize) {
        for offset in [600, -86_400, 0] {
            self.bed.set_clock(server, offset);
            // The library reads the file once a second.
            seconds(2);
            self.agrees("ClockSet, to another time", Instant::now(), AGREED_MAX);
        }
    }

    /// etcd is restored as it was some seconds before.
    fn set_back(&mut self) {
        let members = 0..MEMBERS;
        members.clone().for_each(|member| self.bed.etcd.kill(member));
        let saved: Vec<_> = members.clone().map(|member| self.bed.etcd.save(member)).collect();
        members.clone().for_each(|member| self.bed.etcd.spawn(member));
        self.agrees("SetBack, before it", Instant::now(), STOPPED_MAX);
        seconds(2);
        members.clone().for_each(|member| self.bed.etcd.kill(member));
        for server in 0..SERVERS {
            self.is_refused(server, 503, "");
        }
        self.bed.rewind(true);
        for (member, saved) in saved.iter().enumerate() {
            self.bed.etcd.load(member, saved);
        }
        members.for_each(|member| self.bed.etcd.spawn(member));
        (0..SERVERS).for_each(|server| self.is_refused(server, 503, "fleet adopt"));
        let server = self.server();
        self.adopt(server);
        self.bed.rewind(false);
    }

    /// Most record sets are deleted by hand, and a server has to read everything.
    fn lose_content(&mut self) {
        let server = self.server();
        self.cut_off(server);
        self.is_refused(server, 503, "");
        self.bed.operator.delete("/dunlin/sets/fleet.example./f");
        // So that the commits since then do not suffice.
        self.bed.operator.delete("/dunlin/commits/");
        self.bed.lan.lose(MEMBERS + server, 0..MEMBERS, false);
        self.is_refused(server, 503, "fleet adopt");
        self.adopt(server);
        self.bed.put_fillers();
    }

    /// The newest revision is edited by hand: the commits up to it are in no etcd.
    fn edit_revision(&mut self) {
        let value = self.bed.operator.get("/dunlin/revision").expect("a revision");
        let newest: u64 = value.split(' ').next().and_then(|text| text.parse().ok()).expect("one");
        self.bed.operator.put("/dunlin/revision", format!("{} {:032x}", newest + 100, 7));
        (0..SERVERS).for_each(|server| self.is_refused(server, 503, "fleet adopt"));
        let server = self.server();
        self.adopt(server);
    }

    fn adopt(&mut self, server: usize) {
        let adopted = self.bed.run(server, &["fleet", "adopt", "--yes"]);
        assert!(adopted.status.success(), "{adopted:?}");
        self.agrees("adopted", Instant::now(), AGREED_MAX);
    }
}

#[test]
#[ignore = "slow: it breaks everything for minutes"]
fn fleet_answers_right_and_agrees_whatever_breaks() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fleet-faults");
    let lan = Lan::new("faults", (MEMBERS + SERVERS) as u8);
    let switch = lan.switch.clone();
    within(&switch, move || run(lan, &folder));
}

fn run(lan: Lan, folder: &Path) {
    let Some(bed) = Bed::start(lan, folder) else { return };
    let lasts = std::env::var(SECONDS).ok();
    let lasts = lasts.map(|text| Duration::from_secs(text.parse().expect("a number of seconds")));
    let seed = std::env::var("DUNLIN_SEED")
        .map_or_else(|_| fastrand::u64(..), |seed| seed.parse().expect("a number"));
    println!("DUNLIN_SEED={seed}");
    let (load, threads) = (bed.load.clone(), bed.start_load());
    let rng = Rng::with_seed(seed);
    let mut run = Run { bed, rng, is_strict: lasts.is_some(), longest: Vec::new(), sent: 0 };
    let began = Instant::now();
    run.agrees("at the beginning", began, AGREED_MAX);
    let mut rounds = 0;
    while rounds == 0 || lasts.is_some_and(|lasts| began.elapsed() < lasts) {
        let mut faults = FAULTS;
        run.rng.shuffle(&mut faults);
        for fault in faults {
            assert!(threads.iter().all(|thread| !thread.is_finished()), "a check failed");
            println!("{:.0?}: {fault:?}", began.elapsed());
            run.make(fault);
        }
        rounds += 1;
    }
    load.end();
    for thread in threads {
        thread.join().expect("every answer is right");
    }
    run.bed.agree(Instant::now());
    run.bed.compare();
    let mut late = Vec::new();
    for (what, longest, limit) in &run.longest {
        let is_late = longest > limit;
        late.extend(is_late.then_some(what));
        println!(
            "{what:30} {:.2} s of {:.0} s{}",
            longest.as_secs_f64(),
            limit.as_secs_f64(),
            if is_late { ", too late" } else { "" },
        );
    }
    println!(
        "{rounds} rounds in {:.0?}: {} answers, none wrong; {} writes, {} refused; {} unanswered",
        began.elapsed(),
        load.answers.load(Relaxed),
        load.writes.load(Relaxed),
        load.refusals.load(Relaxed),
        load.silences.load(Relaxed),
    );
    assert!(!run.is_strict || late.is_empty(), "too late: {late:?}");
    assert_eq!(load.silences.load(Relaxed), 0, "a server that runs answers");
    assert!(load.answers.load(Relaxed) > 1000 && load.writes.load(Relaxed) > 100);
}
