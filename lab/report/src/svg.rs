//! A few shapes in SVG: plots with two axes, lines, points, boxes, cells.

use std::fmt::Write;

/// Width of every drawing, in its own units; the page scales it.
pub const WIDTH: f64 = 520.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 46.0;

/// Text for XML and HTML.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c if c.is_control() && c != '\n' => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

/// A number for people: `1.2 M`, `48 k`, `0.35`.
pub fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, " G"),
        v if v >= 1e6 => (value / 1e6, " M"),
        v if v >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{scaled:.digits$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    };
    format!("{text}{unit}")
}

/// A scale of an axis.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    min: f64,
    max: f64,
    is_log: bool,
}

impl Scale {
    /// From 0, or the lowest value below it, to a little above the highest.
    pub fn linear(values: impl Iterator<Item = f64>) -> Self {
        let (min, max) = values.fold((0.0f64, 0.0f64), |(a, b), v| (a.min(v), b.max(v)));
        Self { min, max: if max > min { max * 1.06 } else { min + 1.0 }, is_log: false }
    }

    /// From the lowest to the highest value, in logarithms; values are above 0.
    pub fn log(values: impl Iterator<Item = f64>) -> Self {
        let start = (f64::INFINITY, 0.0f64);
        let (min, max) = values.filter(|v| *v > 0.0).fold(start, |(a, b), v| (a.min(v), b.max(v)));
        match min.is_finite() {
            true => Self { min: min * 0.9, max: max * 1.1, is_log: true },
            false => Self { min: 1.0, max: 10.0, is_log: true },
        }
    }

    /// These bounds.
    pub fn from_to(min: f64, max: f64) -> Self {
        Self { min, max, is_log: false }
    }

    fn share(&self, value: f64) -> f64 {
        let share = match self.is_log {
            true => (value.max(self.min) / self.min).ln() / (self.max / self.min).ln(),
            false => (value - self.min) / (self.max - self.min),
        };
        share.clamp(0.0, 1.0)
    }

    fn ticks(&self) -> Vec<f64> {
        if self.is_log {
            let first = self.min.log10().floor() as i32;
            let last = self.max.log10().ceil() as i32;
            let steps: &[f64] = if last - first > 3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
            let all = (first..=last).flat_map(|e| steps.iter().map(move |s| s * 10f64.powi(e)));
            return all.filter(|v| *v >= self.min && *v <= self.max).collect();
        }
        let rough = (self.max - self.min) / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|s| s * power).into_iter().find(|s| *s >= rough);
        let step = step.unwrap_or(power * 10.0);
        let first = (self.min / step).ceil() as i64;
        let last = (self.max / step).floor() as i64;
        (first..=last.min(first + 20)).map(|n| n as f64 * step).collect()
    }
}

/// A drawing with two axes.
pub struct Plot {
    text: String,
    height: f64,
    x: Scale,
    y: Scale,
}

/// A place on a drawing.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    /// From the left.
    pub x: f64,
    /// From the top.
    pub y: f64,
}

impl Plot {
    /// Axes with names and ticks. Without `x_ticks` the caller names places on the x axis.
    pub fn new(
        height: f64,
        (x, x_name): (Scale, &str),
        (y, y_name): (Scale, &str),
        x_ticks: bool,
    ) -> Self {
        let mut plot = Self { text: String::new(), height, x, y };
        for tick in y.ticks() {
            let at = plot.spot(x.min, tick).y;
            plot.add(format_args!(
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                at + 4.0,
                short(tick)
            ));
        }
        for tick in x.ticks().into_iter().filter(|_| x_ticks) {
            let at = plot.spot(tick, y.min).x;
            plot.label(at, &short(tick));
        }
        plot.add(format_args!(
            "<text class=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <text class=\"middle\" transform=\"translate(14 {:.1}) rotate(-90)\">{}</text>",
            f64::midpoint(LEFT, WIDTH - RIGHT),
            height - 8.0,
            escape(x_name),
            f64::midpoint(TOP, height - BOTTOM),
            escape(y_name)
        ));
        plot
    }

    /// A label below the x axis.
    pub fn label(&mut self, x: f64, text: &str) {
        let y = self.height - BOTTOM + 16.0;
        let text = escape(text);
        self.add(format_args!("<text class=\"middle\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>"));
    }

    /// Where a value is drawn.
    pub fn spot(&self, x: f64, y: f64) -> Spot {
        Spot {
            x: LEFT + self.x.share(x) * (WIDTH - LEFT - RIGHT),
            y: self.height - BOTTOM - self.y.share(y) * (self.height - TOP - BOTTOM),
        }
    }

    /// Raw markup.
    pub fn add(&mut self, markup: std::fmt::Arguments<'_>) {
        self.text.write_fmt(markup).expect("a String takes all");
    }

    /// A line through values, in the color of a series, with its own dashes.
    pub fn line(&mut self, series: usize, points: &[(f64, f64)]) {
        let spots = points.iter().map(|(x, y)| self.spot(*x, *y));
        let path: Vec<String> = spots.map(|spot| format!("{:.1},{:.1}", spot.x, spot.y)).collect();
        let (series, path) = (series % 7, path.join(" "));
        self.add(format_args!("<polyline class=\"line s{series} d{series}\" points=\"{path}\"/>"));
    }

    /// A point in the color of a series; hollow ones are not limited by the server.
    pub fn point(&mut self, series: usize, x: f64, y: f64, is_hollow: bool) {
        let (spot, series) = (self.spot(x, y), series % 7);
        let hollow = if is_hollow { " hollow" } else { "" };
        self.add(format_args!(
            "<circle class=\"point s{series}{hollow}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"/>",
            spot.x, spot.y
        ));
    }

    /// The drawing with its title and description.
    pub fn finish(self, id: &str, title: &str, about: &str) -> String {
        svg(id, title, about, self.height, &self.text)
    }
}

/// A drawing of this height with title and description.
pub fn svg(id: &str, title: &str, about: &str, height: f64, body: &str) -> String {
    format!(
        "<svg role=\"img\" viewBox=\"0 0 {WIDTH} {height}\" aria-labelledby=\"{id}-t {id}-d\">\
         <title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>{body}</svg>\n",
        escape(title),
        escape(about)
    )
}

/// A color between dark blue and yellow (after cividis, which color-blind readers see alike), and
/// whether text on it is dark.
pub fn heat(share: f64) -> (String, bool) {
    const STOPS: [[f64; 3]; 5] = [
        [0.0, 32.0, 77.0],
        [64.0, 77.0, 108.0],
        [124.0, 123.0, 120.0],
        [188.0, 175.0, 111.0],
        [255.0, 234.0, 70.0],
    ];
    let at = share.clamp(0.0, 1.0) * 4.0;
    let index = (at as usize).min(3);
    let part = at - index as f64;
    let mix = |c: usize| STOPS[index][c] + (STOPS[index + 1][c] - STOPS[index][c]) * part;
    let [r, g, b] = [0, 1, 2].map(|c| mix(c).round() as u8);
    (format!("#{r:02x}{g:02x}{b:02x}"), share > 0.52)
}

/// A grid of colored cells with a text each; rows and columns have names.
pub fn cells(
    id: &str,
    (title, about): (&str, &str),
    columns: &[String],
    rows: &[(String, Vec<Option<f64>>)],
    is_text: bool,
) -> String {
    let most = rows.iter().flat_map(|(_, row)| row).flatten().copied().fold(0.0, f64::max);
    let longest = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let left = (6.8 * longest as f64 + 12.0).clamp(60.0, 230.0);
    let width = (WIDTH - left - 8.0) / columns.len().max(1) as f64;
    let row_height = if is_text { 26.0 } else { 14.0 };
    let height = 30.0 + row_height * rows.len() as f64;
    let mut body = String::new();
    for (number, name) in columns.iter().enumerate() {
        // Labels that would overlap are left out; the table has them all.
        let every = (44.0 / width).ceil().max(1.0) as usize;
        if number % every == 0 {
            let x = left + width * (number as f64 + 0.5);
            let name = escape(name);
            let _ = write!(body, "<text class=\"middle\" x=\"{x:.1}\" y=\"18\">{name}</text>");
        }
    }
    for (number, (name, row)) in rows.iter().enumerate() {
        let y = 26.0 + row_height * number as f64;
        let at = y + row_height / 2.0 + 4.0;
        let name: String = name.chars().take(32).collect();
        let name = escape(&name);
        let _ =
            write!(body, "<text class=\"end\" x=\"{:.1}\" y=\"{at:.1}\">{name}</text>", left - 6.0);
        for (column, value) in row.iter().enumerate() {
            let Some(value) = value else { continue };
            let (color, is_dark) = heat(if most > 0.0 { value / most } else { 0.0 });
            let x = left + width * column as f64;
            let _ = write!(
                body,
                "<rect fill=\"{color}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" \
                 height=\"{:.1}\"/>",
                width - 1.0,
                row_height - 1.0
            );
            if is_text && width > 40.0 {
                let class = if is_dark { "on-light" } else { "on-dark" };
                let (x, text) = (x + width / 2.0, short(*value));
                let _ = write!(
                    body,
                    "<text class=\"middle {class}\" x=\"{x:.1}\" y=\"{at:.1}\">{text}</text>"
                );
            }
        }
    }
    svg(id, title, about, height, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("<a href='x'>&\"\u{7}"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot; ");
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in
            [(0.0, "0"), (0.35, "0.35"), (1_234.0, "1234"), (48_000.0, "48 k"), (1.25e6, "1.25 M")]
        {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn ticks_lie_within_their_scale() {
        for scale in [
            Scale::linear([0.0, 7.0, 93.0].into_iter()),
            Scale::log([0.004, 12.0].into_iter()),
            Scale::linear(std::iter::empty()),
            Scale::log(std::iter::empty()),
            Scale::from_to(0.0, 1e-9),
        ] {
            let ticks = scale.ticks();
            assert!(!ticks.is_empty() && ticks.len() < 30, "{scale:?} {ticks:?}");
            assert!(ticks.iter().all(|t| *t >= scale.min && *t <= scale.max), "{scale:?}");
        }
    }
}
