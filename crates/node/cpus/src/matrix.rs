//! The matrix of times between CPUs, as text.
use command_line::{Side, align};
use cpu_topology::Relation;
use cpu_topology::measure::{Disagreement, Pair};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The time of a cache line between CPUs.
#[derive(Serialize)]
pub struct Measured {
    /// The CPUs, in the order of the matrix.
    pub cpus: Vec<usize>,
    /// Every pair, both directions.
    pub pairs: Vec<Pair>,
    /// The median of each class in nanoseconds; `null`: this machine has no such pair.
    pub classes: BTreeMap<Relation, Option<f64>>,
    /// Pairs that the measurement would put into another class.
    pub disagreements: Vec<Disagreement>,
}

/// Writes the matrix of medians, the classes, and where the measurement and the kernel disagree.
pub fn write(out: &mut impl Write, measured: &Measured) -> io::Result<()> {
    if measured.pairs.is_empty() {
        return writeln!(out, "one CPU has no pair: there is nothing to measure");
    }
    writeln!(out, "median time of a cache line, one way, in ns (row: writes, column: reads)")?;
    let times: BTreeMap<(usize, usize), f64> =
        measured.pairs.iter().map(|pair| ((pair.writer, pair.reader), pair.median_ns)).collect();
    let width = times.values().fold(3, |width, time| width.max(format!("{time:.0}").len()));
    let cell = |text: String| format!(" {text:>width$}");
    let head: String = measured.cpus.iter().map(|cpu| cell(cpu.to_string())).collect();
    writeln!(out, "{:>5}{head}", "CPU")?;
    for writer in &measured.cpus {
        let time = |reader| times.get(&(*writer, reader)).map(|time| format!("{time:.0}"));
        let row: String =
            measured.cpus.iter().map(|cpu| cell(time(*cpu).unwrap_or("-".into()))).collect();
        writeln!(out, "{writer:>5}{row}")?;
    }
    writeln!(out)?;
    let text = |row: [&str; 5]| row.map(str::to_owned);
    let mut rows = vec![text(["class", "pairs", "min ns", "median ns", "p99 ns"])];
    rows.extend(Relation::ALL.map(|class| class_row(measured, class)));
    let sides = [Side::Left, Side::Right, Side::Right, Side::Right, Side::Right];
    for line in align(sides, &rows) {
        writeln!(out, "{line}")?;
    }
    for one in &measured.disagreements {
        writeln!(
            out,
            "CPU {} to {}: the kernel says {} ({:.0} ns), the time of {:.0} ns says {}",
            one.writer, one.reader, one.told, one.class_ns, one.median_ns, one.measured
        )?;
    }
    if measured.disagreements.is_empty() {
        writeln!(out, "the measurement and the kernel agree on every pair")?;
    }
    Ok(())
}

fn class_row(measured: &Measured, class: Relation) -> [String; 5] {
    let pairs: Vec<_> = measured.pairs.iter().filter(|pair| pair.relation == class).collect();
    if pairs.is_empty() {
        return [class.to_string(), "absent".into(), "-".into(), "-".into(), "-".into()];
    }
    let least = pairs.iter().map(|pair| pair.min_ns).fold(f64::INFINITY, f64::min);
    let p99 = pairs.iter().map(|pair| pair.p99_ns).fold(0.0, f64::max);
    let median = measured.classes.get(&class).copied().flatten().unwrap_or(0.0);
    [
        class.to_string(),
        pairs.len().to_string(),
        format!("{least:.0}"),
        format!("{median:.0}"),
        format!("{p99:.0}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpu_topology::measure::{Pair, class_medians, disagreements};

    #[test]
    fn every_class_is_listed_and_absent_ones_as_absent() {
        let pair = |writer, reader, median_ns| Pair {
            writer,
            reader,
            relation: Relation::SameL3,
            samples: 3,
            min_ns: median_ns - 1.0,
            median_ns,
            p99_ns: median_ns + 10.0,
        };
        let pairs = vec![pair(0, 3, 40.0), pair(3, 0, 1_234.0)];
        let medians = class_medians(&pairs);
        let classes = Relation::ALL.map(|class| (class, medians.get(&class).copied())).into();
        let disagreements = disagreements(&pairs);
        let mut text = Vec::new();
        write(&mut text, &Measured { cpus: vec![0, 3], pairs, classes, disagreements })
            .expect("memory");
        let text = String::from_utf8(text).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1..4],
            ["  CPU    0    3", "    0    -   40", "    3 1234    -"],
            "{text}"
        );
        assert_eq!(text.matches("absent").count(), 5, "{text}");
        assert!(text.contains("agree on every pair"), "{text}");
    }
}
