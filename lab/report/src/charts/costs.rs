//! What an answer costs at each point of a sweep.

use std::fmt::Write;

use super::{Data, figure, settings};
use crate::costs::Costs;
use crate::svg::{WIDTH, escape, svg};
use crate::sweep::Sweep;

/// Bars of the chart.
const BARS_MAX: usize = 24;

/// CPU time by what it is spent on, and all counts in a table; empty where nothing was counted.
pub fn costs(sweep: &Sweep) -> String {
    let point = |point: &crate::sweep::Point| {
        Some((settings(&point.settings), point.costs.as_ref()?.costs()?))
    };
    let all: Vec<(String, Costs)> = sweep.points.iter().filter_map(point).collect();
    let Some((_, first)) = all.first() else { return String::new() };
    let names: Vec<&str> = first.parts_ns.iter().map(|(name, _)| *name).collect();
    let mut head = vec!["point", "CPU, ns"];
    head.extend(&names);
    head.extend(["system calls", "context switches", "instructions", "cache misses", "memory, B"]);
    let title = "Cost of an answer";
    let mut data = Data::new("Costs of an answer by point", &head);
    for (name, costs) in &all {
        let times = [costs.cpu_ns].into_iter().chain(costs.parts_ns.iter().map(|(_, ns)| *ns));
        let counts = [
            costs.syscalls,
            costs.switches,
            costs.instructions,
            costs.cache_misses,
            costs.memory_bytes,
        ];
        let count = |count: Option<f64>| count.map_or("not counted".into(), |n| format!("{n:.3}"));
        let row = times.map(|ns| format!("{ns:.0}")).chain(counts.map(count));
        data.row([name.clone()].into_iter().chain(row));
    }
    let about = "CPU time of the server's processes for an answer, of one more run of each point, \
                 by samples of the CPU clock. Softirqs: the network stack of the receiving host, \
                 which on a veth pair runs inside the sender's calls. Time of other threads of the \
                 kernel is not in it.";
    figure((title, about), &drawing(title, about, &all[..all.len().min(BARS_MAX)]), &data)
}

fn drawing(title: &str, about: &str, all: &[(String, Costs)]) -> String {
    let most = all.iter().map(|(_, costs)| costs.cpu_ns).fold(1.0, f64::max);
    let (left, row) = (34.0, 24.0);
    let mut body = String::new();
    for (number, (_, costs)) in all.iter().enumerate() {
        let y = 6.0 + row * number as f64;
        let mut x = left;
        let _ = write!(
            body,
            "<text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            left - 6.0,
            y + 13.0,
            number + 1
        );
        for (part, (_, ns)) in costs.parts_ns.iter().enumerate() {
            let width = ns / most * (WIDTH - left - 70.0);
            let _ = write!(
                body,
                "<rect class=\"f{part}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" \
                 height=\"18\"/>",
                (width - 1.0).max(0.0)
            );
            x += width;
        }
        let _ = write!(
            body,
            "<text x=\"{:.1}\" y=\"{:.1}\">{:.0} ns</text>",
            x + 6.0,
            y + 13.0,
            costs.cpu_ns
        );
    }
    let mut text = svg("costs", title, about, 12.0 + row * all.len() as f64, &body);
    text.push_str("<ul class=\"legend\">");
    let parts = all.first().map_or(&[][..], |(_, costs)| &costs.parts_ns);
    for (part, (name, _)) in parts.iter().enumerate() {
        let _ = write!(
            text,
            "<li><svg class=\"key\" viewBox=\"0 0 30 8\" aria-hidden=\"true\"><rect \
             class=\"f{part}\" width=\"30\" height=\"8\"/></svg> {}</li>",
            escape(name)
        );
    }
    let items = all.iter().map(|(name, _)| format!("<li>{}</li>", escape(name)));
    let _ = writeln!(text, "</ul><ol class=\"legend\">{}</ol>", items.collect::<String>());
    text
}
