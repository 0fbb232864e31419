//! Results of other tools: dnsperf, resperf and kxdpgun, by the text that they print.

use crate::Result;

/// A result of another tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// `dnsperf`, `resperf` or `kxdpgun`.
    pub tool: &'static str,
    /// Queries that it sent.
    pub sent: u64,
    /// Answers that it received.
    pub answered: u64,
    /// Its figure, a second: answers, or with resperf the best half second.
    pub rate: f64,
    /// Mean time of an answer, ns, without timeouts; none where the tool measures none.
    pub mean_ns: Option<f64>,
    /// What a reader of the figure has to know.
    pub remark: &'static str,
}

/// The number behind a label, in the first line that has it.
fn number(text: &str, label: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.trim_start().strip_prefix(label))?;
    let word = rest.trim_start().split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
    word.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Reads what a tool has printed.
///
/// # Errors
/// It is of no known tool, or has no end.
pub fn import(text: &str) -> Result<Imported> {
    let found = |label: &str| {
        number(text, label).ok_or_else(|| format!("no line `{label}`: the output has no end"))
    };
    let count = |label: &str| found(label).map(|number| number as u64);
    if text.contains("Maximum throughput:") {
        return Ok(Imported {
            tool: "resperf",
            sent: count("Queries sent:")?,
            answered: count("Queries completed:")?,
            rate: found("Maximum throughput:")?,
            mean_ns: None,
            remark: "the best half second of a ramp",
        });
    }
    if text.contains("Queries per second:") {
        return Ok(Imported {
            tool: "dnsperf",
            sent: count("Queries sent:")?,
            answered: count("Queries completed:")?,
            rate: found("Queries per second:")?,
            mean_ns: number(text, "Average Latency (s):").map(|seconds| seconds * 1e9),
            remark: "a closed loop; timeouts are not in its latency",
        });
    }
    if text.contains("total replies:") {
        let answered = count("total replies:")?;
        return Ok(Imported {
            tool: "kxdpgun",
            sent: count("total queries:")?,
            answered,
            rate: answered as f64 / found("duration:")?.max(f64::EPSILON),
            mean_ns: None,
            remark: "answers are not matched with queries, and have no latency",
        });
    }
    Err("this is not an output of dnsperf, resperf or kxdpgun, or it has no end".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DNSPERF: &str = "DNS Performance Testing Tool\nVersion 2.10.0\n\nStatistics:\n\n  \
        Queries sent:         63597\n  Queries completed:    63590 (99.99%)\n  \
        Queries lost:         7 (0.01%)\n\n  Response codes:       NOERROR 63590 (100.00%)\n  \
        Run time (s):         1.004208\n  Queries per second:   63330.505234\n\n  \
        Average Latency (s):  0.001209 (min 0.000014, max 0.121919)\n";
    const RESPERF: &str = "Statistics:\n\n  Queries sent:         3998\n  \
        Queries completed:    3998\n  Queries lost:         0\n  \
        Response codes:       NOERROR 3998 (100.00%)\n  Reconnection(s):      0\n  \
        Run time (s):         3.000000\n  Maximum throughput:   2000.000000 qps\n  \
        Lost at that point:   0.00%\n";
    const KXDPGUN: &str = "using interface lab-gen, XDP threads 1, UDP, native mode\n\
        thread#00: sent 4010, received 4000\ntotal queries:     4010 (2005 pps)\n\
        total replies:     4000 (2000 pps) (99%)\naverage DNS reply size: 24 B\n\
        responded NOERROR:   4000\nduration: 2 s\n";

    #[test]
    fn figures_of_other_tools_are_read() {
        let dnsperf = import(DNSPERF).unwrap();
        assert_eq!((dnsperf.tool, dnsperf.sent, dnsperf.answered), ("dnsperf", 63_597, 63_590));
        assert!((dnsperf.rate - 63_330.505_234).abs() < 1e-6);
        assert!((dnsperf.mean_ns.unwrap() - 1_209_000.0).abs() < 1.0);
        let resperf = import(RESPERF).unwrap();
        assert_eq!((resperf.tool, resperf.rate, resperf.mean_ns), ("resperf", 2_000.0, None));
        let kxdpgun = import(KXDPGUN).unwrap();
        assert_eq!((kxdpgun.tool, kxdpgun.rate, kxdpgun.answered), ("kxdpgun", 2_000.0, 4_000));
    }

    #[test]
    fn a_cut_off_output_is_refused() {
        for (text, last) in [(DNSPERF, "Queries per"), (RESPERF, "Maximum"), (KXDPGUN, "total re")]
        {
            let cut = &text[..text.find(last).unwrap()];
            assert!(import(cut).unwrap_err().contains("has no end"), "{cut}");
        }
        let cut = &KXDPGUN[..KXDPGUN.find("duration").unwrap()];
        assert!(import(cut).unwrap_err().contains("duration"), "{cut}");
        assert!(import("").is_err());
    }
}
