//! Answers over time: a soak, and an event under load.

use lab::record::RunRecord;

use super::{Data, figure, legend};
use crate::bundle::SearchRecord;
use crate::event::EventRecord;
use crate::soak::SoakRecord;
use crate::study::interval_rates;
use crate::svg::{Plot, Scale, escape};

/// The soak and the event of a search; empty without them.
pub fn over_time(search: &SearchRecord, runs: &[RunRecord]) -> String {
    let soak = search.soak.as_ref().and_then(|soak| Some(self::soak(soak, runs.get(soak.run)?)));
    soak.unwrap_or_default() + &search.event.as_ref().map(event).unwrap_or_default()
}

fn soak(soak: &SoakRecord, run: &RunRecord) -> String {
    let rates: Vec<(f64, f64)> = run
        .intervals
        .iter()
        .map(|interval| interval.until_ns as f64 / 1e9)
        .zip(interval_rates(run))
        .collect();
    let x = Scale::linear(rates.iter().map(|(at, _)| *at));
    let y = Scale::linear(rates.iter().map(|(_, rate)| *rate).chain(run.rate));
    let mut plot = Plot::new(260.0, (x, "seconds"), (y, "answers a second"), true);
    plot.line(0, &rates);
    let mut data = Data::new("Answers by interval of the soak", &["until, s", "answers/s"]);
    rates.iter().for_each(|(at, rate)| data.row([format!("{at:.1}"), format!("{rate:.0}")]));
    let about = "Answers a second of each interval. The table of memory has all samples.";
    let title = "Soak: answers over time";
    let drawing = plot.finish("soak", title, about);
    let mut memory = Data::new("Memory during the soak", &["at, s", "bytes"]);
    let samples = soak.memory.iter();
    samples.for_each(|s| memory.row([format!("{:.1}", s.at_s), s.bytes.to_string()]));
    let memory =
        format!("<details>\n<summary>Data: memory</summary>\n{}</details>\n", memory.table());
    let sentence = format!("<p>{}.</p>\n", escape(&soak.sentence(run)));
    sentence + &figure((title, about), &drawing, &data) + &memory
}

fn event(event: &EventRecord) -> String {
    let mut begin_s = 0.0;
    let (mut answered, mut failed) = (Vec::new(), Vec::new());
    let head = ["until, s", "answers", "failed"];
    let mut data = Data::new("Intervals of the event", &head);
    for interval in &event.intervals {
        let length = (interval.until_s - begin_s).max(1e-9);
        begin_s = interval.until_s;
        answered.push((interval.until_s, interval.answered as f64 / length));
        failed.push((interval.until_s, interval.failed as f64 / length));
        let counts = [interval.answered, interval.failed].map(|count| count.to_string());
        data.row([format!("{:.2}", interval.until_s)].into_iter().chain(counts));
    }
    let x = Scale::linear(answered.iter().map(|(at, _)| *at));
    let y = Scale::linear(answered.iter().chain(&failed).map(|(_, rate)| *rate));
    let mut plot = Plot::new(260.0, (x, "seconds"), (y, "a second"), true);
    let (from, to) = (plot.spot(event.at_s, 0.0), plot.spot(event.at_s + event.took_s, 0.0));
    let top = plot.spot(0.0, f64::MAX).y;
    plot.add(format_args!(
        "<rect class=\"band\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
        from.x,
        (to.x - from.x).max(2.0),
        from.y - top
    ));
    plot.line(0, &answered);
    plot.line(1, &failed);
    let about = "Answers and failed queries a second. Shaded: while the command ran. A query fails \
                 when its timeout is over, not when it was sent.";
    let title = format!("Event: {}", event.name);
    let drawing = plot.finish("event", &title, about) + &legend(["answers", "failed queries"]);
    let sentence = format!(
        "<p>{}. The command: <code>{}</code></p>\n",
        escape(&event.sentence()),
        escape(&event.command)
    );
    sentence + &figure((&title, about), &drawing, &data)
}
