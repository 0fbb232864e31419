//! The machine: interrupts by source and CPU, and its topology.

use std::collections::BTreeMap;
use std::fmt::Write;

use cpu::CpuList;
use lab_host::manifest::{Cpu, Device};

use super::{Data, figure};
use crate::bundle::Bundle;
use crate::study::Step;
use crate::svg::{cells, escape, heat, short, svg};

/// Interrupts of all runs by source and CPU, NET_RX by CPU, and queues without any.
pub fn interrupts(bundle: &Bundle) -> String {
    let mut sources: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    let mut net_rx: Vec<u64> = Vec::new();
    let add = |sum: &mut Vec<u64>, row: &[u64]| {
        sum.resize(sum.len().max(row.len()), 0);
        sum.iter_mut().zip(row).for_each(|(sum, count)| *sum = sum.saturating_add(*count));
    };
    for run in &bundle.runs {
        add(&mut net_rx, &run.interrupts.net_rx);
        for (name, row) in &run.interrupts.sources {
            add(sources.entry(name).or_default(), row);
        }
    }
    let columns: Vec<String> = (0..net_rx.len()).map(|cpu| format!("CPU {cpu}")).collect();
    let head: Vec<&str> =
        ["source"].into_iter().chain(columns.iter().map(String::as_str)).collect();
    let title = "Interrupts by source and CPU, all runs together";
    let mut data = Data::new(title, &head);
    let mut rows = Vec::new();
    for (name, row) in [("NET_RX", net_rx.clone())].into_iter().chain(sources.clone()) {
        data.row([name.to_owned()].into_iter().chain(row.iter().map(ToString::to_string)));
        // Each row has its own scale, as sources differ by orders of magnitude.
        let most = row.iter().copied().max().unwrap_or(0).max(1) as f64;
        rows.push((name.to_owned(), row.iter().map(|count| Some(*count as f64 / most)).collect()));
    }
    let idle = idle_queues(&bundle.header.manifest.devices, &sources);
    let idle_text = match idle.is_empty() {
        true => "<p>Every queue with an interrupt of its own received some.</p>\n".to_owned(),
        false => format!(
            "<p>Queues without any interrupt, of network cards of this machine: {}. The wire \
             between two hosts of one machine has no interrupts of its own.</p>\n",
            escape(&idle.join(", "))
        ),
    };
    let text = match sources.is_empty() {
        true => {
            "<p>No numbered interrupt source was active: devices of two hosts of one machine are \
             software and raise softirqs only.</p>\n"
        }
        false => &idle_text,
    };
    let about = "Bright is more, each row on its own scale. NET_RX counts how often receive work \
                 began on a CPU, for both hosts, not packets. The table has all counts.";
    let drawing = cells("interrupts-map", (title, about), &columns, &rows, false);
    figure((title, about), &drawing, &data) + text
}

fn idle_queues(
    devices: &BTreeMap<String, Device>,
    active: &BTreeMap<&str, Vec<u64>>,
) -> Vec<String> {
    let is_active = |name: &str| active.keys().any(|key| key.split(' ').nth(1) == Some(name));
    let all = devices
        .iter()
        .flat_map(|(device, about)| about.interrupts.keys().map(move |i| (device, i)));
    all.filter(|(_, name)| !is_active(name))
        .map(|(device, name)| format!("{device} {name}"))
        .collect()
}

/// The CPUs of a label such as `CPU 1+3 (2 CPUs)`.
fn cpus_of(label: &str) -> Vec<usize> {
    let list = label.strip_prefix("CPU ").unwrap_or_default();
    let list = list.split([' ', '(']).next().unwrap_or_default();
    list.split('+').filter_map(|cpu| cpu.parse().ok()).collect()
}

/// Packages, last-level caches and CPUs, colored by the best rate of a step's core sets, which are
/// labeled `CPU 1` or `CPU 1+3`.
pub fn topology(number: usize, step: &Step, cpu: &Cpu) -> String {
    let sets: Vec<(Vec<usize>, f64)> = step
        .groups
        .iter()
        .filter_map(|group| Some((cpus_of(&group.label), group.range?.mean)))
        .filter(|(cpus, _)| !cpus.is_empty())
        .collect();
    let most = sets.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let head = ["core set", "answers/s, mean"];
    let mut data = Data::new(&format!("Core sets: {}", step.title), &head);
    for (cpus, rate) in &sets {
        let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
        data.row([cpus.join("+"), format!("{rate:.0}")]);
    }
    let mut body = String::new();
    let cores = &cpu.cores;
    let side = (500.0 / cores.len().max(1) as f64).min(90.0);
    let mut place = BTreeMap::new();
    for (at, core) in cores.iter().enumerate() {
        let x = 10.0 + side * at as f64;
        place.insert(core.cpu, x + side / 2.0);
        let own = sets.iter().filter(|(cpus, _)| cpus.contains(&core.cpu)).map(|(_, rate)| *rate);
        let own = own.fold(0.0, f64::max);
        let (color, is_dark) = heat(if most > 0.0 { own / most } else { 0.0 });
        let class = if is_dark { "on-light" } else { "on-dark" };
        let _ = write!(
            body,
            "<rect fill=\"{color}\" x=\"{x:.1}\" y=\"60\" width=\"{:.1}\" height=\"46\"/>\
             <text class=\"middle {class}\" x=\"{:.1}\" y=\"80\">{}</text>\
             <text class=\"middle {class}\" x=\"{:.1}\" y=\"98\">{}</text>",
            side - 4.0,
            x + side / 2.0 - 2.0,
            core.cpu,
            x + side / 2.0 - 2.0,
            short(own)
        );
    }
    let shared = cpu.caches.iter().filter(|cache| cache.level >= 2 && cache.kind != "Instruction");
    for cache in shared.take(60) {
        let cpus: Vec<usize> =
            cache.cpus.parse::<CpuList>().map(|l| l.as_slice().to_vec()).unwrap_or_default();
        let spots: Vec<f64> = cpus.iter().filter_map(|cpu| place.get(cpu).copied()).collect();
        let (Some(first), Some(last)) = (spots.first(), spots.last()) else { continue };
        let y = 114.0 + 20.0 * (cache.level - 2) as f64;
        let (left, width) = (first - side / 2.0, last - first + side - 4.0);
        let _ = write!(
            body,
            "<rect class=\"core\" x=\"{left:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"16\"/>\
             <text class=\"middle\" x=\"{:.1}\" y=\"{:.1}\">L{} {}</text>",
            left + width / 2.0,
            y + 12.0,
            cache.level,
            escape(&cache.size)
        );
    }
    let packages: BTreeMap<i64, usize> = cores.iter().fold(BTreeMap::new(), |mut all, core| {
        *all.entry(core.package).or_default() += 1;
        all
    });
    let packages: Vec<String> =
        packages.iter().map(|(package, cpus)| format!("package {package}: {cpus} CPUs")).collect();
    let _ = write!(body, "<text x=\"10\" y=\"40\">{}</text>", escape(&packages.join(", ")));
    let title = format!("Topology, colored by the best rate of each CPU: {}", step.title);
    let about =
        "One box for each CPU with its best mean rate; below it the caches that CPUs share.";
    let drawing = svg(&format!("topology-{number}"), &title, about, 170.0, &body);
    figure((&title, about), &drawing, &data)
}
