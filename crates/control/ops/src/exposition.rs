//! Metrics as text in Prometheus' format or OpenMetrics 1.0.
//!
//! They differ in the names of counters, in infos, and in the end. Values come from a status, so
//! there is no registry, only a writer.
use server_status::StatusHistogram;
use std::fmt::{self, Display, Write};

/// The format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text format, version 0.0.4.
    Text,
    /// OpenMetrics, version 1.0.0.
    OpenMetrics,
}

impl Format {
    /// Its media type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The format by the `Accept` field (RFC 9110 §12.5.1): OpenMetrics if preferred, otherwise the
    /// text format.
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

/// The kind of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows; its name ends in `_total`.
    Counter,
    /// It can go up and down.
    Gauge,
    /// Always 1 with informative labels; its name ends in `_info`.
    Info,
    /// A histogram of durations.
    Histogram,
}

/// A sample's labels: our names, and any values.
pub type Labels<'a> = &'a [(&'static str, &'a str)];

/// Text in the making.
pub struct Exposition {
    format: Format,
    text: String,
}

impl Exposition {
    /// Begins the text.
    pub const fn new(format: Format) -> Self {
        Self { format, text: String::new() }
    }

    /// Begins a family. `name` is without the suffix of its kind; `help` is one line.
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &'static str) -> Family<'_> {
        let (suffix, word) = match kind {
            Kind::Counter => ("_total", "counter"),
            Kind::Gauge => ("", "gauge"),
            Kind::Info if self.format == Format::Text => ("_info", "gauge"),
            Kind::Info => ("_info", "info"),
            Kind::Histogram => ("", "histogram"),
        };
        // OpenMetrics omits the suffix in the name of a family.
        let told = if self.format == Format::Text { suffix } else { "" };
        self.line(format_args!("# HELP {name}{told} {help}\n# TYPE {name}{told} {word}\n"));
        Family { out: self, name, suffix }
    }

    /// The complete text.
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

/// Adds samples to a family.
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
    pub fn histogram(&mut self, labels: Labels<'_>, histogram: &StatusHistogram) {
        let name = self.name;
        let mut count = 0;
        for (index, more) in histogram.counts.iter().enumerate() {
            count += more;
            let bound = histogram.bounds_seconds.get(index);
            // Both formats write whole numbers with a fraction.
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

/// Formats labels: escapes values, and writes nothing without labels.
struct Braced<'a>(Labels<'a>);

impl Display for Braced<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.0.iter().enumerate() {
            let open = if index == 0 { '{' } else { ',' };
            write!(f, "{open}{name}=\"")?;
            for character in value.chars() {
                match character {
                    '\\' => f.write_str("\\\\")?,
                    '"' => f.write_str("\\\"")?,
                    '\n' => f.write_str("\\n")?,
                    _ => f.write_char(character)?,
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
        let histogram = StatusHistogram {
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
    fn prometheus_text_is_written() {
        let expected = "\
            # HELP d_build_info The build.\n# TYPE d_build_info gauge\n\
            d_build_info{version=\"1\"} 1\n\
            # HELP d_things_total Things.\n# TYPE d_things_total counter\n\
            d_things_total{a=\"b\",c=\"d\"} 7\n\
            # HELP d_seconds How long.\n# TYPE d_seconds histogram\n";
        assert_eq!(written(Format::Text), expected.to_owned() + SAMPLES);
    }

    #[test]
    fn openmetrics_text_is_written() {
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
    fn client_preference_selects_the_format() {
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
