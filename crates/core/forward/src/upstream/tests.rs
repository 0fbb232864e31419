use super::*;

const MILLI: u64 = 1000;

fn heard(times: &[u64]) -> Upstream {
    let mut upstream = Upstream::NEW;
    for (at, took) in times.iter().enumerate() {
        upstream.record_answer(at as u64 * MILLI, *took);
    }
    upstream
}

#[test]
fn timeout_follows_the_usual_reply_time() {
    assert_eq!(Upstream::NEW.wait_micros(0, 0), WAIT_MICROS_UNHEARD);
    assert_eq!(heard(&[100]).wait_micros(0, 0), WAIT_MICROS_MIN);
    let steady = heard(&[100_000; 50]).wait_micros(0, 0);
    assert!((100_000..110_000).contains(&steady), "{steady}");
    assert_eq!(heard(&[10_000_000; 50]).wait_micros(0, 0), WAIT_MICROS_MAX);
}

#[test]
fn timeout_grows_with_each_try() {
    let mut upstream = heard(&[100]);
    assert_eq!(upstream.wait_micros(1, 0), 2 * WAIT_MICROS_MIN);
    assert_eq!(upstream.wait_micros(2, 0), SILENCE_MICROS_GONE, "the last time");
    assert_eq!(upstream.wait_micros(200, 0), WAIT_MICROS_MAX);
    upstream.record_unreachable(0);
    assert_eq!(upstream.wait_micros(0, REST_MICROS_MIN), WAIT_MICROS_MAX);
}

/// Sends probes to a silent upstream until some time; returns how many.
fn probe_until(upstream: &mut Upstream, end: u64) -> usize {
    let mut count = 0;
    while let Some(at) = upstream.probe_due().filter(|at| *at <= end) {
        assert!(upstream.probe(at), "it is not drained");
        count += 1;
    }
    count
}

#[test]
fn upstream_that_refuses_is_down_but_not_gone() {
    let mut upstream = heard(&[1000]);
    (0..100).for_each(|_| upstream.record_refusal(7));
    assert_eq!(upstream.health(7), UpstreamHealth::Down);
    assert!(upstream.serves_as(UpstreamHealth::Down, 7));
    assert_eq!(upstream.probe_due(), None, "it is there");
    upstream.record_probe_reply(8, 1);
    assert_eq!(upstream.health(8), UpstreamHealth::Down, "that it answers a probe is no answer");
    let due = 7 + REST_MICROS_MIN;
    assert_eq!(upstream.health(due), UpstreamHealth::Due);
    upstream.record_answer(due, 1000);
    assert_eq!(upstream.health(due), UpstreamHealth::Up);
}

#[test]
fn missing_replies_do_not_count_while_anything_is_heard() {
    let mut upstream = heard(&[1000]);
    for n in 1..1000 {
        upstream.record_sign_of_life(n * MILLI);
        upstream.record_timeout(n * MILLI - 1, n * MILLI + 1);
    }
    assert!(upstream.is_well());
    assert_eq!(upstream.probe_due(), None);
    upstream.record_timeout(2000 * MILLI, 2001 * MILLI);
    assert!(!upstream.is_well());
    assert_eq!(upstream.probe_due(), Some(2001 * MILLI), "it is time to look");
}

#[test]
fn silent_upstream_is_up_while_it_replies_to_probes() {
    let mut upstream = heard(&[1000]);
    let mut probes = 0;
    for n in 1..1000 {
        let now = n * 10 * MILLI;
        upstream.record_timeout(now - MILLI / 2, now);
        if upstream.probe_due().is_some_and(|at| at <= now) {
            probes += 1;
            assert!(upstream.probe(now));
            upstream.record_probe_reply(now + MILLI, MILLI);
        }
        assert_eq!(upstream.health(now), UpstreamHealth::Up, "{n}");
    }
    assert!((20..=40).contains(&probes), "in ten seconds: {probes}");
}

#[test]
fn silent_upstream_is_down_then_gone_and_back_at_one_reply() {
    let mut upstream = heard(&[1000; 2]);
    let (sent_at, missed_at) = (100 * MILLI, 150 * MILLI);
    (0..FAILURES_SURE).for_each(|_| upstream.record_timeout(sent_at, missed_at));
    assert_eq!(upstream.health(missed_at), UpstreamHealth::Up, "no probe says so");
    assert_eq!(probe_until(&mut upstream, missed_at + WAIT_MICROS_MIN), 2);
    assert_eq!(upstream.health(missed_at + WAIT_MICROS_MIN), UpstreamHealth::Down);
    let unreachable_at = sent_at + SILENCE_MICROS_GONE;
    assert!(probe_until(&mut upstream, unreachable_at) < 8);
    assert!(upstream.serves_as(UpstreamHealth::Down, unreachable_at - 1), "it may be slow");
    assert!(!upstream.serves_as(UpstreamHealth::Down, unreachable_at));
    assert_eq!(
        upstream.health(u64::MAX),
        UpstreamHealth::Down,
        "time alone does not bring it back"
    );
    let mut late = upstream.clone();
    late.record_sign_of_life(unreachable_at + 1);
    assert_eq!(late.health(unreachable_at + 1), UpstreamHealth::Up, "a late reply does");
    upstream.record_probe_reply(unreachable_at + 1, MILLI);
    assert_eq!(
        upstream.health(unreachable_at + 1),
        UpstreamHealth::Up,
        "and so does one to a probe"
    );
}

#[test]
fn few_failures_in_a_short_time_are_none() {
    let mut upstream = heard(&[1000]);
    for at in [0, 1, SILENCE_MICROS_DOWN - 1] {
        upstream.record_timeout(1, 1 + at);
        upstream.probe(1 + at);
        assert_eq!(upstream.health(at), UpstreamHealth::Up);
    }
    upstream.record_timeout(1, 1 + SILENCE_MICROS_DOWN);
    assert_eq!(upstream.health(1 + SILENCE_MICROS_DOWN), UpstreamHealth::Down);
}

#[test]
fn far_upstream_is_waited_for_before_it_is_gone() {
    let mut upstream = heard(&[1_500 * MILLI; 50]);
    (0..FAILURES_SURE).for_each(|_| upstream.record_timeout(1_000 * MILLI, 2_500 * MILLI));
    probe_until(&mut upstream, 5_400 * MILLI);
    assert!(!upstream.is_unreachable(5_400 * MILLI));
    probe_until(&mut upstream, 5_600 * MILLI);
    assert!(upstream.is_unreachable(5_600 * MILLI));
    let mut unheard = Upstream::NEW;
    (1..FAILURES_DOWN).for_each(|_| unheard.record_timeout(0, WAIT_MICROS_UNHEARD));
    probe_until(&mut unheard, 2 * WAIT_MICROS_UNHEARD);
    assert!(!unheard.is_unreachable(2 * WAIT_MICROS_UNHEARD), "one question is asked on");
    unheard.record_timeout(0, 3 * WAIT_MICROS_UNHEARD);
    assert!(unheard.is_unreachable(3 * WAIT_MICROS_UNHEARD));
}

#[test]
fn slow_name_does_not_make_its_upstream_slow() {
    let mut upstream = heard(&[1000; 50]);
    let now = 10_000 * MILLI;
    upstream.record_answer(now, 1000);
    (1..100).for_each(|n| upstream.record_answer(now + n, 900 * MILLI));
    assert!(upstream.round_trip_micros() < 2000, "others were answered meanwhile");
    // Or a probe was sent.
    let mut upstream = heard(&[1000; 50]);
    upstream.record_probe_reply(now, 1000);
    (1..100).for_each(|n| upstream.record_answer(now + n, 900 * MILLI));
    assert!(upstream.round_trip_micros() < 2000);
    (1..100).for_each(|n| upstream.record_answer(now + n * 1000 * MILLI, 900 * MILLI));
    assert!(upstream.round_trip_micros() > 800_000, "it has become slow");
}

#[test]
fn gone_upstream_gets_one_new_name_in_a_while() {
    let mut upstream = Upstream::NEW;
    assert!(!upstream.may_trickle(0));
    upstream.record_unreachable(7);
    for begun in [7, 7 + TRICKLE_MICROS] {
        assert!(!upstream.may_trickle(begun + TRICKLE_MICROS - 1));
        assert!(upstream.may_trickle(begun + TRICKLE_MICROS));
        upstream.query(begun + TRICKLE_MICROS);
    }
    upstream.is_drained = true;
    assert!(!upstream.may_trickle(7 + 4 * TRICKLE_MICROS));
}

#[test]
fn unreachable_server_is_down_at_once() {
    let mut upstream = heard(&[1000]);
    upstream.record_unreachable(7);
    assert_eq!(upstream.health(7), UpstreamHealth::Down);
}

#[test]
fn query_that_no_server_can_answer_is_not_a_failure() {
    let mut upstream = heard(&[1000]);
    (0..100).for_each(|_| upstream.record_refusal(7));
    upstream.forgive_refusal(8);
    assert!(!upstream.is_well(), "that was something else");
    upstream.record_refusal(9);
    upstream.forgive_refusal(9);
    assert!(upstream.is_well());
    assert_eq!(upstream.health(9), UpstreamHealth::Up);
}

#[test]
fn slower_server_is_preferred_less() {
    let (mut dead, other) = (heard(&[1000]), heard(&[20_000]));
    let questions = (0..).take_while(|at| {
        dead.record_outrun(*at, 25_000);
        dead.cost(*at) < other.cost(*at)
    });
    assert!((5..30).contains(&questions.count()));
    dead.record_outrun(0, 10);
    assert!(dead.cost(0) > other.cost(0), "to be outrun soon says nothing");
}

#[test]
fn a_stream_that_ends_says_little_of_datagrams() {
    let mut upstream = heard(&[1000]);
    upstream.record_stream_loss(StreamLoss::Refused, 7);
    assert_eq!(upstream.health(7), UpstreamHealth::Up);
    upstream = heard(&[1000]);
    upstream.transport = UpstreamTransport::Streams;
    (0..100).for_each(|_| upstream.record_stream_loss(StreamLoss::Closed, 7));
    assert_eq!(upstream.health(7), UpstreamHealth::Up, "any server may close");
    upstream.record_stream_loss(StreamLoss::Refused, 7);
    assert_eq!(upstream.health(7), UpstreamHealth::Down);
}

#[test]
fn probes_of_a_gone_upstream_become_rare() {
    let mut upstream = Upstream::NEW;
    upstream.record_unreachable(0);
    let (mut now, mut before) = (0, 0);
    for _ in 0..300 {
        upstream.record_unreachable(now);
        let due = upstream.probe_due().expect("it is looked after");
        let back_off = due - now;
        assert!(back_off >= before && back_off <= REST_MICROS_MAX, "{back_off}");
        (now, before) = (due, back_off);
        assert_eq!(upstream.health(now), UpstreamHealth::Down, "no client's query is to find out");
        assert!(upstream.probe(now));
    }
    assert_eq!(before, REST_MICROS_MAX);
}

#[test]
fn refusing_upstream_gets_one_query_a_rest() {
    let mut upstream = heard(&[1000]);
    let (mut now, mut before) = (7, 0);
    (0..100).for_each(|_| upstream.record_refusal(now));
    for _ in 0..20 {
        let back_off = upstream.back_off_until.expect("it is down") - now;
        assert!(back_off >= before && back_off <= REST_MICROS_MAX, "{back_off}");
        (now, before) = (now + back_off, back_off);
        assert_eq!(upstream.health(now), UpstreamHealth::Due);
        upstream.query(now);
        assert_eq!(upstream.health(now), UpstreamHealth::Down, "one question at a time");
    }
    assert_eq!(before, REST_MICROS_MAX);
}

#[test]
fn slow_server_is_tried_again() {
    let (slow, fast) = (heard(&[100_000]), heard(&[1000]));
    assert!(slow.cost(0) > fast.cost(0));
    assert!(slow.cost(100_000 * MILLI) < fast.cost(0));
}

#[test]
fn busy_server_is_preferred_less() {
    let mut busy = heard(&[1000]);
    let idle = heard(&[1500]);
    assert!(busy.cost(0) < idle.cost(0));
    (0..16).for_each(|_| busy.query(0));
    assert!(busy.cost(0) > idle.cost(0));
    (0..16).for_each(|_| busy.record_query_end());
    assert!(busy.cost(0) < idle.cost(0));
}

#[test]
fn drained_server_gets_no_query_and_no_probe() {
    let mut drained = Upstream { is_drained: true, ..Upstream::NEW };
    assert_eq!(drained.health(0), UpstreamHealth::Drained);
    drained.record_unreachable(0);
    assert_eq!(drained.health(1), UpstreamHealth::Down);
    assert_eq!(drained.health(u64::MAX), UpstreamHealth::Drained, "and not due");
}
