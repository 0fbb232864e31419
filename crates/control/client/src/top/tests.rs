//! Drawing at several sizes; reactions to keys and samples.
use super::rates::Rates;
use super::*;
use crate::sample::{self, NOW};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

/// A screen after two samples one second apart.
fn screen(workers: usize) -> (Screen, RateMeter) {
    let (mut screen, mut meter) = (Screen::default(), RateMeter::default());
    let begin = Instant::now();
    for second in 0..2 {
        let mut status = sample::status(workers, 40, 100 + 124 * second);
        status.gathered_seconds = NOW + second as f64;
        let at = begin + Duration::from_secs(second);
        assert!(handle(&mut screen, &mut meter, Event::Sample(Ok(Box::new(status)), at)));
    }
    (screen, meter)
}

fn drawn(screen: &mut Screen, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    let cells = terminal.backend().buffer().content();
    let line = |row: &[ratatui::buffer::Cell]| {
        row.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned() + "\n"
    };
    cells.chunks(width.into()).map(line).collect()
}

fn press(screen: &mut Screen, meter: &mut RateMeter, code: KeyCode) -> bool {
    handle(screen, meter, Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

#[test]
fn rates_are_the_difference_of_two_samples() {
    let (earlier, later) = (sample::status(2, 1, 100), sample::status(2, 1, 300));
    let rates = Rates::between(&earlier, &later, Duration::from_secs(2));
    assert_eq!((rates.received, rates.replied), (210_000.0, 209_580.0));
    assert_eq!(rates.dropped, 420.0);
    let names: Vec<&str> = rates.rcodes.iter().map(|(rcode, _)| rcode.as_str()).collect();
    assert_eq!(names, ["NOERROR", "NXDOMAIN", "SERVFAIL"], "by rate, without zeros");
    assert_eq!(rates.rcodes[0].1, 189_000.0);
    assert_eq!(rates.threads[0].latency.counts.iter().sum::<u64>(), 998 * 200);
    let idle = Rates::between(&later, &later, Duration::ZERO);
    assert_eq!((idle.received, idle.latency.quantile(0.5)), (0.0, None));
}

#[test]
fn new_process_has_no_rates_at_first() {
    let (mut meter, now) = (RateMeter::default(), Instant::now());
    assert_eq!(meter.update(sample::status(2, 1, 500), now), None);
    let mut other = sample::status(2, 1, 1);
    other.pid += 1;
    assert_eq!(meter.update(other.clone(), now), None, "its counters are not comparable");
    assert!(meter.update(other, now).is_some());
}

#[test]
fn terminal_of_80_columns_shows_everything() {
    let text = drawn(&mut screen(4).0, 80, 24);
    for expected in [
        "dunlin 0.1.0  serving, up 2 h 13 min",
        "p pause  q quit\n",
        "received 508,000/s   p50 20 µs   p99 80 µs   p99.9 1 ms",
        "zones 40",
        "streams 12 of 1,024",
        "memory 48.2 MiB",
        "imbalance 1.03",
        "\nTHREAD         CPU  RECEIVED/s   REPLIED/s  DROPPED/s      P50      P99    P99.9\n",
        "\nworker-3         3     124,000     123,752        248    20 µs    80 µs     1 ms\n",
        "\nstreams-0        -      12,000",
        "\nRCODE                  /s   TYPE                  /s   DROPPED",
        "\nNOERROR           457,200   A                304,800   rate_limited          508\n",
        "kubernetes.default.svc.cluster.local.",
        "10.244.3.17",
        "31 %\n",
    ] {
        assert!(text.contains(expected), "{expected:?} in\n{text}");
    }
    assert!(text.contains('█'), "the history\n{text}");
}

#[test]
fn tiny_terminal_shows_the_most_important_parts() {
    let text = drawn(&mut screen(4).0, 40, 10);
    for expected in ["dunlin 0.1.0", "q quit\n", "received 508,000/s", "p99 80 µs", "worker-0"] {
        assert!(text.contains(expected), "{expected:?} in\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 40));
}

#[test]
fn large_terminal_shows_all_lists_side_by_side() {
    let text = drawn(&mut screen(32).0, 200, 60);
    let heads = text.lines().find(|line| line.starts_with("RCODE")).unwrap();
    for head in ["TYPE", "DROPPED", "HOT NAME", "HOT CLIENT"] {
        assert!(heads.contains(head), "{head} in\n{text}");
    }
    assert!(text.contains("\nworker-31       31"), "{text}");
}

#[test]
fn narrow_terminal_omits_unreadable_lists() {
    let (mut screen, _) = screen(2);
    let lists =
        |text: String| text.lines().find(|line| line.contains("HOT NAME")).unwrap().to_owned();
    let narrow = lists(drawn(&mut screen, 60, 14));
    let words: Vec<&str> = narrow.split_whitespace().collect();
    assert_eq!(words, ["RCODE", "/s", "TYPE", "/s", "HOT", "NAME", "SHARE"]);
    let wide = lists(drawn(&mut screen, 120, 14));
    assert!(wide.contains("HOT CLIENT") && wide.contains("DROPPED"), "{wide}");
    let tiny = drawn(&mut screen, 20, 5);
    assert!(tiny.lines().next().unwrap().ends_with("q quit"), "{tiny}");
    assert!(tiny.contains("RECEIVED/s"), "{tiny}");
}

#[test]
fn any_terminal_size_is_drawn_without_a_panic() {
    for (width, height) in [(1, 1), (2, 3), (10, 4), (25, 7), (30, 12), (300, 5), (5, 100)] {
        drawn(&mut screen(9).0, width, height);
        drawn(&mut Screen::default(), width, height);
    }
}

#[test]
fn keys_scroll_through_many_threads() {
    let (mut screen, mut meter) = screen(64);
    let shown = |screen: &mut Screen| drawn(screen, 80, 24);
    assert!(shown(&mut screen).contains("\n1-"), "the first ones");
    assert!(press(&mut screen, &mut meter, KeyCode::Down));
    let text = shown(&mut screen);
    assert!(text.contains("\nworker-1 ") && !text.contains("\nworker-0 "), "{text}");
    press(&mut screen, &mut meter, KeyCode::End);
    let text = shown(&mut screen);
    assert!(text.contains("OF 65 ") && text.contains("\nstreams-0 "), "{text}");
    press(&mut screen, &mut meter, KeyCode::PageUp);
    assert!(!shown(&mut screen).contains("\nstreams-0 "), "End goes to the end, not beyond");
    press(&mut screen, &mut meter, KeyCode::Home);
    assert!(shown(&mut screen).contains("\nworker-0 "));
}

#[test]
fn pause_keeps_the_screen_unchanged() {
    let (mut screen, mut meter) = screen(1);
    press(&mut screen, &mut meter, KeyCode::Char('p'));
    let before = drawn(&mut screen, 80, 24);
    assert!(before.contains("PAUSED"), "{before}");
    let later = Event::Sample(Ok(Box::new(sample::status(1, 40, 9_000))), Instant::now());
    handle(&mut screen, &mut meter, later);
    assert_eq!(drawn(&mut screen, 80, 24), before);
    press(&mut screen, &mut meter, KeyCode::Char('p'));
    let next = Instant::now() + Duration::from_secs(10);
    handle(
        &mut screen,
        &mut meter,
        Event::Sample(Ok(Box::new(sample::status(1, 40, 9_000))), next),
    );
    assert!(drawn(&mut screen, 80, 24).contains("received 0/s"), "since the last sample");
}

#[test]
fn last_status_stays_on_screen_while_no_server_answers() {
    let (mut screen, mut meter) = screen(1);
    let gone = Event::Sample(Err("no server answers\u{1b}[2J".into()), Instant::now());
    assert!(handle(&mut screen, &mut meter, gone));
    let text = drawn(&mut screen, 80, 24);
    assert!(text.starts_with("no answer; showing the last status"), "{text}");
    assert!(
        text.contains("\nno server answers\u{fffd}[2J\n") && text.contains("worker-0"),
        "{text}"
    );
    let back = Event::Sample(Ok(Box::new(sample::status(1, 40, 300))), Instant::now());
    handle(&mut screen, &mut meter, back);
    assert!(drawn(&mut screen, 80, 24).starts_with("dunlin 0.1.0"));
}

#[test]
fn quit_keys_and_signals_end_the_program() {
    let (mut screen, mut meter) = screen(1);
    assert!(!press(&mut screen, &mut meter, KeyCode::Char('q')));
    assert!(!press(&mut screen, &mut meter, KeyCode::Esc));
    assert!(!handle(&mut screen, &mut meter, Event::End));
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert!(!handle(&mut screen, &mut meter, Event::Key(interrupt)));
    assert!(press(&mut screen, &mut meter, KeyCode::Char('c')));
    assert!(handle(&mut screen, &mut meter, Event::Redraw));
}

/// Accepts this many lines, as `head` does, then fails.
struct Head(Vec<u8>, usize);

impl Write for Head {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.iter().filter(|byte| **byte == b'\n').count() == self.1 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The output without a terminal, up to this many lines.
fn written(output: Output, lines: usize) -> String {
    let mut times = 1;
    let fetch: FetchStatus = Box::new(move || {
        times += 1;
        if times == 3 { Err("gone for a while".into()) } else { Ok(sample::status(1, 1, times)) }
    });
    let mut out = Head(Vec::new(), lines);
    let first = (sample::status(1, 1, 1), Instant::now());
    let interval = Duration::from_millis(1);
    let command = cli::Top { local: cli::LocalServer::default(), interval, output };
    write_lines(&mut out, fetch, &command, first).unwrap();
    String::from_utf8(out.0).unwrap()
}

#[test]
fn output_without_a_terminal_is_lines_until_the_pipe_closes() {
    let text = written(Output::Text, 3);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].starts_with("TIME      RECEIVED/s"), "{text}");
    assert!(lines[1].starts_with("14:00:03 ") && lines[1].contains("NOERROR 90 %"), "{text}");
}

#[test]
fn json_output_is_one_object_per_line_with_the_values_of_the_screen() {
    let text = written(Output::Json, 2);
    let samples: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(samples.len(), 2, "{text}");
    let sample = &samples[0];
    let rate = |name: &str| sample[name].as_f64().unwrap();
    let received = rate("received_per_second");
    assert!(received > 0.0 && rate("replied_per_second") > 0.9 * received, "{sample}");
    let rcodes = &sample["rcodes_per_second"];
    assert!(rcodes["NOERROR"].as_f64() > rcodes["NXDOMAIN"].as_f64(), "{sample}");
    assert!(sample["types_per_second"]["A"].is_f64(), "{sample}");
    assert!(sample["reasons_per_second"]["rate_limited"].is_f64(), "{sample}");
    assert_eq!(sample["latency"]["p50_seconds"], 20e-6, "{sample}");
    let worker = &sample["threads"][0];
    assert_eq!((&worker["name"], &worker["cpu"]), (&"worker-0".into(), &0.into()), "{sample}");
    assert_eq!(worker["latency"]["p999_seconds"], 1e-3, "{sample}");
    assert_eq!(sample["hot"]["clients"][0]["what"], "10.244.3.17", "{sample}");
    assert_eq!(sample["hot"]["names"][0]["share"], 0.214, "{sample}");
    assert_eq!((&sample["zones"], &sample["state"]), (&1.into(), &"serving".into()), "{sample}");
}
