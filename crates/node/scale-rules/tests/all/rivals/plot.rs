//! The plot of both axes, as SVG.
use super::Entry;
use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 50.0;
/// Half of the last label of the axis is beyond it.
const RIGHT: f64 = 40.0;

/// Colors that readers with color blindness tell apart, and a shape each.
const RIVALS: [(&str, &str); 4] =
    [("linear", "#d55e00"), ("EKS", "#009e73"), ("HPA", "#0072b2"), ("load", "#000000")];

/// Decades that hold all values.
fn decades(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let logs = values.map(|value| value.max(1.0).log10());
    let (low, high) = logs.fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
    (low.floor(), high.ceil().max(low.floor() + 1.0))
}

/// Draws every policy: fewer replica-hours to the left, fewer minutes over capacity below.
pub fn draw(entries: &[Entry]) -> String {
    let (x_low, x_high) = decades(entries.iter().map(|entry| entry.sum.replica_hours));
    let (y_low, y_high) = decades(entries.iter().map(|entry| entry.sum.minutes_over));
    let x = |value: f64| {
        LEFT + (WIDTH - LEFT - RIGHT) * (value.max(1.0).log10() - x_low) / (x_high - x_low)
    };
    let y = |value: f64| {
        let share = (value.max(1.0).log10() - y_low) / (y_high - y_low);
        HEIGHT - BOTTOM - (HEIGHT - BOTTOM - 20.0) * share
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<title>Minutes over capacity and \
         replica-hours of load and of every tuning of its rivals</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n"
    );
    let mut line = |text: std::fmt::Arguments<'_>| writeln!(svg, "{text}").expect("memory");
    for decade in x_low as i32..=x_high as i32 {
        let (at, value) = (x(10f64.powi(decade)), 10f64.powi(decade));
        line(format_args!(
            "<path d=\"M{at:.1} 20V{:.1}\" stroke=\"#dddddd\"/><text x=\"{at:.1}\" y=\"{:.1}\" \
             text-anchor=\"middle\">{value}</text>",
            HEIGHT - BOTTOM,
            HEIGHT - BOTTOM + 16.0
        ));
    }
    for decade in y_low as i32..=y_high as i32 {
        let (at, value) = (y(10f64.powi(decade)), 10f64.powi(decade));
        line(format_args!(
            "<path d=\"M{LEFT} {at:.1}H{:.1}\" stroke=\"#dddddd\"/><text x=\"{:.1}\" \
             y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0
        ));
    }
    for (index, (rival, color)) in RIVALS.into_iter().enumerate() {
        for entry in entries.iter().filter(|entry| entry.rival == rival) {
            let (x, y) = (x(entry.sum.replica_hours), y(entry.sum.minutes_over));
            let tuning = &entry.tuning;
            line(format_args!(
                "<g fill=\"{color}\"><title>{rival}: {tuning}</title>{}</g>",
                mark(index, x, y)
            ));
        }
        let at = LEFT + 20.0 + 90.0 * index as f64;
        line(format_args!(
            "<g fill=\"{color}\">{}<text x=\"{:.1}\" y=\"16\">{rival}</text></g>",
            mark(index, at, 12.0),
            at + 10.0
        ));
    }
    line(format_args!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">replica-hours</text>\n\
         <text transform=\"translate(16 {:.1}) rotate(-90)\" text-anchor=\"middle\">minutes over \
         capacity</text>\n</svg>",
        WIDTH / 2.0,
        HEIGHT - 10.0,
        HEIGHT / 2.0
    ));
    svg
}

/// The shape of a rival.
fn mark(index: usize, x: f64, y: f64) -> String {
    match index {
        0 => format!("<rect x=\"{:.1}\" y=\"{:.1}\" width=\"5\" height=\"5\"/>", x - 2.5, y - 2.5),
        1 => format!("<path d=\"M{x:.1} {:.1}l3.5 6h-7z\"/>", y - 3.5),
        2 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\"/>"),
        _ => format!("<path d=\"M{x:.1} {:.1}l7 7l-7 7l-7 -7z\"/>", y - 7.0),
    }
}
