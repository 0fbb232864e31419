//! Simulations of the prober from a seed.
use crate::check::{Check, CheckKind};
use crate::prober::{NotProbed, Prober};
use crate::state::{ProbeState, TargetState};
use fastrand::Rng;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;
use zone_manager::HealthTarget;

pub(crate) fn check(name: &str) -> Check {
    Check {
        name: name.into(),
        kind: CheckKind::Tcp,
        port: 80,
        interval: Duration::from_secs(10),
        timeout: Duration::from_secs(2),
        rise: 2,
        fall: 3,
        jitter: 10,
    }
}

fn target(check: &str, number: u32) -> HealthTarget {
    HealthTarget {
        check: check.into(),
        address: IpAddr::from((0x0a00_0000 + number).to_be_bytes()),
    }
}

fn prober(targets: u32, seed: u64) -> Prober {
    let mut prober = Prober::new([check("web")], seed);
    for number in 0..targets {
        prober.add(target("web", number), TargetState::default(), Duration::ZERO).unwrap();
    }
    prober
}

/// Runs until a time; `passes` decides about each probe. Calls `each` with every probe.
fn run(
    prober: &mut Prober,
    until: Duration,
    mut passes: impl FnMut(Duration, IpAddr) -> bool,
    mut each: impl FnMut(Duration, IpAddr, Option<ProbeState>),
) {
    while let Some(now) = prober.next_due().filter(|now| *now < until) {
        // That of a removed target is none.
        let Some(due) = prober.due(now) else { continue };
        let result = if passes(now, due.address) { Ok(()) } else { Err("lost") };
        let transition = prober.result(due.id, result, now);
        each(now, due.address, transition.map(|transition| transition.now.state));
    }
}

/// The transitions to down within `probes` probes of a target that is up at first, if each fails
/// with probability `loss`: the chain of the states of rise and fall.
fn expected_falls(loss: f64, probes: usize, check: &Check) -> f64 {
    let (fall, rise) = (usize::from(check.fall), usize::from(check.rise));
    let mut states = vec![0.0; fall + rise];
    states[0] = 1.0;
    let mut falls = 0.0;
    for _ in 0..probes {
        let mut next = vec![0.0; fall + rise];
        for (at, mass) in states.iter().enumerate() {
            if at < fall {
                next[0] += mass * (1.0 - loss);
                next[at + 1] += mass * loss;
                falls += if at + 1 == fall { mass * loss } else { 0.0 };
            } else {
                next[fall] += mass * loss;
                let passed = if at + 1 == fall + rise { 0 } else { at + 1 };
                next[passed] += mass * (1.0 - loss);
            }
        }
        states = next;
    }
    falls
}

#[test]
fn random_loss_makes_no_more_flaps_than_the_binomial() {
    const TARGETS: u32 = 2_000;
    let (mut prober, mut rng) = (prober(TARGETS, 1), Rng::with_seed(2));
    // All are up first.
    run(&mut prober, Duration::from_secs(20), |_, _| true, |_, _, _| {});
    let hour = Duration::from_secs(20 + 3_600);
    let (mut falls, mut probes) = (0, 0);
    run(
        &mut prober,
        hour,
        |_, _| rng.f64() >= 0.2,
        |_, _, state| {
            probes += 1;
            falls += u32::from(state == Some(ProbeState::Down));
        },
    );
    assert!((probes as f64 / f64::from(TARGETS) - 360.0).abs() < 2.0, "{probes}");
    let expected = expected_falls(0.2, 360, &check("web")) * f64::from(TARGETS);
    let spread = expected.sqrt();
    assert!(f64::from(falls) < expected + 4.0 * spread, "{falls} falls, {expected} expected");
    assert!(f64::from(falls) > expected - 6.0 * spread, "{falls} falls, {expected} expected");
}

#[test]
fn probes_are_spread_over_the_interval() {
    const WINDOW: u128 = 100;
    for targets in [100, 1_000, 10_000] {
        let mut prober = prober(targets, 3);
        // Some go and others come meanwhile.
        for number in (0..targets).step_by(7) {
            prober.remove(&target("web", number));
            let new = target("web", targets + number);
            prober.add(new, TargetState::default(), Duration::from_millis(1_234)).unwrap();
        }
        let mut windows: HashMap<u128, u32> = HashMap::new();
        let minute = Duration::from_secs(80);
        run(
            &mut prober,
            minute,
            |_, _| true,
            |now, _, _| {
                if now >= Duration::from_secs(20) {
                    *windows.entry(now.as_millis() / WINDOW).or_default() += 1;
                }
            },
        );
        let share = f64::from(targets) / 100.0;
        let most = f64::from(windows.values().copied().max().unwrap());
        // Of few probes, chance brings more than twice the share together.
        let bound = if share < 100.0 { share + 5.0 * share.sqrt() } else { 2.0 * share };
        assert!(most <= bound, "{most} probes in a window of {targets} targets");
    }
}

#[test]
fn dead_target_is_down_within_fall_intervals_and_jitter() {
    let mut worst = Duration::ZERO;
    for seed in 0..200 {
        let mut prober = prober(50, seed);
        let dies = Duration::from_millis(20_000 + 137 * seed);
        let dead = target("web", seed as u32 % 50).address;
        let mut down = None;
        let lives = |now: Duration, address| address != dead || now < dies;
        run(&mut prober, Duration::from_secs(90), lives, |now, address, state| {
            if address == dead && state == Some(ProbeState::Down) {
                down = down.or(Some(now - dies));
            }
        });
        worst = worst.max(down.expect("it is found"));
    }
    let web = check("web");
    assert!(worst <= web.interval * u32::from(web.fall) + web.jitter_max(), "{worst:?}");
    assert!(worst > Duration::from_secs(29), "the bound is close: {worst:?}");
}

#[test]
fn prober_of_a_fleet_suspects_itself_if_most_fail_or_it_is_cut_off() {
    // When the first of 60 from 100 targets is down after its first failure, in seconds.
    let first_down = |is_connected: Option<bool>, dead: u8| {
        let (mut prober, cut) = (prober(100, 4), Duration::from_secs(30));
        if let Some(is_connected) = is_connected {
            prober.set_fleet(is_connected);
        }
        let is_dead = move |address: IpAddr| match address {
            IpAddr::V4(address) => address.octets()[3] < dead,
            IpAddr::V6(_) => false,
        };
        let mut first = None;
        run(
            &mut prober,
            Duration::from_secs(120),
            |now, address| now < cut || !is_dead(address),
            |now, _, state| {
                if state == Some(ProbeState::Down) {
                    first = first.or(Some((now - cut).as_secs()));
                }
            },
        );
        first.expect("they are down")
    };
    assert!(first_down(None, 60) < 25, "a server alone believes it");
    assert!(first_down(Some(true), 40) < 25, "one in a fleet, too, if most are up");
    assert!(first_down(Some(true), 60) >= 29, "one more round");
    assert!(first_down(Some(false), 40) >= 29, "one more round");
}

#[test]
fn prober_suspects_itself_if_all_fail_at_once() {
    let mut prober = prober(100, 4);
    let cut = Duration::from_secs(30);
    let (mut first_down, mut was_suspect) = (None, None);
    let mut downs = 0;
    run(
        &mut prober,
        Duration::from_secs(120),
        |now, _| now < cut,
        |now, _, state| {
            if state == Some(ProbeState::Down) {
                first_down = first_down.or(Some(now - cut));
                downs += 1;
            }
        },
    );
    // The first could otherwise be down 20 seconds after the cut, and all 30 seconds after it.
    assert!(first_down.unwrap() > Duration::from_secs(29), "one more round: {first_down:?}");
    assert_eq!(downs, 100, "then they are down");
    // A link that comes back within the extra round changes nothing.
    let mut prober = super::tests::prober(100, 5);
    let back = cut + Duration::from_millis(29_500);
    let dead = |now: &Duration| *now >= cut && *now < back;
    run(&mut prober, cut + Duration::from_secs(25), |now, _| !dead(&now), |_, _, _| {});
    assert!(prober.suspects_itself());
    run(
        &mut prober,
        Duration::from_secs(120),
        |now, _| !dead(&now),
        |now, _, state| {
            assert_eq!(state, None);
            was_suspect = Some(now);
        },
    );
    assert!(was_suspect.is_some() && !prober.suspects_itself());
}

#[test]
fn one_of_many_that_dies_is_not_suspicious() {
    let mut prober = prober(5, 6);
    let dead = target("web", 2).address;
    let mut down = 0;
    let lives = |now: Duration, address| address != dead || now < Duration::from_secs(20);
    run(&mut prober, Duration::from_secs(70), lives, |_, _, state| {
        down += u32::from(state == Some(ProbeState::Down));
    });
    assert_eq!(down, 1);
}

#[test]
fn rate_is_bounded_for_one_address() {
    let fast = |number: u32| Check {
        interval: Duration::from_millis(100),
        ..check(&format!("fast{number}"))
    };
    let mut prober = Prober::new((0..9).map(fast), 7);
    let add = |prober: &mut Prober, check: u32, address: u32| {
        let target = target(&format!("fast{check}"), address);
        prober.add(target, TargetState::default(), Duration::ZERO)
    };
    assert_eq!((add(&mut prober, 0, 1), add(&mut prober, 1, 1)), (Ok(()), Ok(())));
    assert_eq!(add(&mut prober, 2, 1), Err(NotProbed::AddressRate));
    prober.remove(&target("fast0", 1)).unwrap();
    assert_eq!(add(&mut prober, 2, 1), Ok(()), "the room of a removed target is free");
    let unknown = prober.add(target("none", 1), TargetState::default(), Duration::ZERO);
    assert_eq!(unknown, Err(NotProbed::NoCheck));
}

/// Random adds, removes and results in any order keep the counts right.
#[test]
fn results_of_removed_targets_are_ignored() {
    let (mut prober, mut rng) = (prober(0, 8), Rng::with_seed(9));
    let (mut now, mut pending) = (Duration::ZERO, Vec::new());
    for _ in 0..20_000 {
        match rng.u8(..5) {
            0 => drop(prober.add(target("web", rng.u32(..40)), TargetState::default(), now)),
            1 => drop(prober.remove(&target("web", rng.u32(..40)))),
            2 if !pending.is_empty() => {
                let id = pending.swap_remove(rng.usize(..pending.len()));
                let result = if rng.bool() { Ok(()) } else { Err("x") };
                let _ = prober.result(id, result, now);
            }
            _ => {
                now += Duration::from_millis(rng.u64(..900));
                pending.extend(std::iter::from_fn(|| prober.due(now)).map(|due| due.id));
            }
        }
        let up = prober.states().filter(|(_, state)| state.state == ProbeState::Up).count();
        let failing = prober.states().filter(|(_, state)| state.is_failing()).count();
        assert_eq!(prober.suspects_itself(), up >= 3 && up == failing);
    }
}
