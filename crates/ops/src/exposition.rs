//! Metrics as text: what Prometheus has always read, and OpenMetrics 1.0.
//!
//! The two differ in little: how a counter's family is named, what an info is, and the end. Numbers
//! are gathered elsewhere, at once and whole, so there is no registry here, only a writer.
use control::status::Histogram;
use std::fmt::{self, Display, Write};

/// Which of the two is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text format, version 0.0.4.
    Text,
    /// OpenMetrics, version 1.0.0.
    OpenMetrics,
}

impl Format {
    /// The media type of a response in it.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// What a client wants by its `Accept` field (RFC 9110 §12.5.1): OpenMetrics if it prefers
    /// that, or else the text that every tool reads.
    pub fn wanted(accept: &str) -> Self {
        let (mut text, mut open) = (0.0, 0.0);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default().to_ascii_lowercase();
            let (mut quality, mut version) = (1.0_f64, None);
            for (name, value) in parts.filter_map(|part| part.split_once('=')) {
                match name.trim().to_ascii_lowercase().as_str() {
                    "q" => quality = value.trim().parse().unwrap_or(0.0),
                    "version" => version = Some(value.trim().trim_matches('"')),
                    _ => {}
                }
            }
            match media.as_str() {
                "application/openmetrics-text" if matches!(version, None | Some("1.0.0")) => {
                    open = quality.max(open);
                }
                "text/plain" | "text/*" | "*/*" => text = quality.max(text),
                _ => {}
            }
        }
        if open > 0.0 && open >= text { Self::OpenMetrics } else { Self::Text }
    }
}

/// What a family of samples is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows; `_total` is appended to its name.
    Counter,
    /// It goes up and down.
    Gauge,
    /// It is always 1, and its labels tell something; `_info` is appended to its name.
    Info,
    /// How often something took how long.
    Histogram,
}

/// A sample's labels: names, which are ours, and values, which may be anything.
pub type Labels<'a> = &'a [(&'static str, &'a str)];

/// The text while it is written.
pub struct Exposition {
    format: Format,
    text: String,
}

impl Exposition {
    /// An empty one.
    pub const fn new(format: Format) -> Self {
        Self { format, text: String::new() }
    }

    /// Begins a family. `name` is without the suffix its kind gives it; `help` is one line.
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &'static str) -> Family<'_> {
        let (suffix, word) = match kind {
            Kind::Counter => ("_total", "counter"),
            Kind::Gauge => ("", "gauge"),
            Kind::Info if self.format == Format::Text => ("_info", "gauge"),
            Kind::Info => ("_info", "info"),
            Kind::Histogram => ("", "histogram"),
        };
        // OpenMetrics names a family without the suffix of its samples.
        let told = if self.format == Format::Text { suffix } else { "" };
        self.line(format_args!("# HELP {name}{told} {help}\n# TYPE {name}{told} {word}\n"));
        Family { out: self, name, suffix }
    }

    /// The whole text.
    pub fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        self.text.write_fmt(line).expect("a String takes all");
    }
}

/// A family that samples are added to.
pub struct Family<'a> {
    out: &'a mut Exposition,
    name: &'static str,
    suffix: &'static str,
}

impl Family<'_> {
    /// Adds a sample.
    pub fn sample(&mut self, labels: Labels<'_>, value: impl Display) -> &mut Self {
        let Self { name, suffix, .. } = *self;
        self.out.line(format_args!("{name}{suffix}{} {value}\n", Braced(labels)));
        self
    }

    /// Adds the samples of a histogram.
    pub fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram) {
        let name = self.name;
        let mut count = 0;
        for (index, more) in histogram.counts.iter().enumerate() {
            count += more;
            let bound = histogram.bounds_seconds.get(index);
            // The same number is written the same way in both formats: whole ones with a fraction.
            let bound = bound.map_or("+Inf".to_owned(), |bound| match bound.fract() {
                0.0 => format!("{bound:.1}"),
                _ => bound.to_string(),
            });
            let labels = [labels, &[("le", &bound)]].concat();
            self.out.line(format_args!("{name}_bucket{} {count}\n", Braced(&labels)));
        }
        let (sum, labels) = (histogram.sum_seconds, Braced(labels));
        self.out.line(format_args!("{name}_sum{labels} {sum}\n{name}_count{labels} {count}\n"));
    }
}

/// Labels as they are written: values are escaped, and nothing stands where there are none.
struct Braced<'a>(Labels<'a>);

impl Display for Braced<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.0.iter().enumerate() {
            let open = if index == 0 { '{' } else { ',' };
            write!(f, "{open}{name}=\"")?;
            for letter in value.chars() {
                match letter {
                    '\\' => f.write_str("\\\\")?,
                    '"' => f.write_str("\\\"")?,
                    '\n' => f.write_str("\\n")?,
                    _ => f.write_char(letter)?,
                }
            }
            f.write_char('"')?;
        }
        if self.0.is_empty() { Ok(()) } else { f.write_char('}') }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: Format) -> String {
        let mut out = Exposition::new(format);
        out.family("d_build", Kind::Info, "The build.").sample(&[("version", "1")], 1);
        out.family("d_things", Kind::Counter, "Things.").sample(&[("a", "b"), ("c", "d")], 7);
        let histogram = Histogram {
            bounds_seconds: vec![0.00001, 1.0],
            counts: vec![2, 0, 1],
            sum_seconds: 2.5,
        };
        out.family("d_seconds", Kind::Histogram, "How long.").histogram(&[], &histogram);
        out.finish()
    }

    const SAMPLES: &str = "\
        d_seconds_bucket{le=\"0.00001\"} 2\nd_seconds_bucket{le=\"1.0\"} 2\n\
        d_seconds_bucket{le=\"+Inf\"} 3\nd_seconds_sum 2.5\nd_seconds_count 3\n";

    #[test]
    fn the_text_of_prometheus() {
        let expected = "\
            # HELP d_build_info The build.\n# TYPE d_build_info gauge\n\
            d_build_info{version=\"1\"} 1\n\
            # HELP d_things_total Things.\n# TYPE d_things_total counter\n\
            d_things_total{a=\"b\",c=\"d\"} 7\n\
            # HELP d_seconds How long.\n# TYPE d_seconds histogram\n";
        assert_eq!(written(Format::Text), expected.to_owned() + SAMPLES);
    }

    #[test]
    fn open_metrics() {
        let expected = "\
            # HELP d_build The build.\n# TYPE d_build info\nd_build_info{version=\"1\"} 1\n\
            # HELP d_things Things.\n# TYPE d_things counter\n\
            d_things_total{a=\"b\",c=\"d\"} 7\n\
            # HELP d_seconds How long.\n# TYPE d_seconds histogram\n";
        assert_eq!(written(Format::OpenMetrics), expected.to_owned() + SAMPLES + "# EOF\n");
    }

    #[test]
    fn label_values_are_escaped() {
        let mut out = Exposition::new(Format::Text);
        out.family("d", Kind::Gauge, "").sample(&[("zone", "a\\\"b\nc.")], 1);
        assert!(out.finish().ends_with("\nd{zone=\"a\\\\\\\"b\\nc.\"} 1\n"));
    }

    #[test]
    fn the_format_is_what_the_client_prefers() {
        let prometheus = "application/openmetrics-text;version=1.0.0,\
            application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,\
            */*;q=0.1";
        for accept in
            [prometheus, "application/openmetrics-text", "Application/OpenMetrics-Text; Q=1"]
        {
            assert_eq!(Format::wanted(accept), Format::OpenMetrics, "{accept}");
        }
        for accept in [
            "",
            "*/*",
            "text/html, */*;q=0.8",
            "text/plain",
            "application/openmetrics-text;version=0.0.1",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=0.4, text/plain;q=0.5",
            "application/openmetrics-text;q=x",
            ";;=,;q",
        ] {
            assert_eq!(Format::wanted(accept), Format::Text, "{accept}");
        }
    }
}
