use super::*;
use clap::Parser;
use lab_host::hosts::Options as HostOptions;
use lab_host::manifest::{Cache, Core, Cpu};

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    sweep: Sweep,
}

fn parse(words: &str) -> Result<Sweep, String> {
    let words = ["sweep", "--pattern", "a{i}.example", "--bundle", "b.json"]
        .into_iter()
        .chain(words.split_whitespace());
    Line::try_parse_from(words).map(|line| line.sweep).map_err(|error| error.to_string())
}

/// Four CPUs, an L2 for each pair.
fn machine() -> Cpu {
    let core = |cpu: usize| Core { cpu, siblings: cpu.to_string(), ..Core::default() };
    let cache = |cpus: &str| Cache { level: 2, cpus: cpus.into(), ..Cache::default() };
    Cpu {
        cores: (0..4).map(core).collect(),
        caches: vec![cache("0-1"), cache("2-3")],
        ..Cpu::default()
    }
}

fn points(words: &str) -> Vec<Planned> {
    let hosts = |layout, queues| {
        let name = "test".into();
        let (server_cpus, client_cpus) = ("0-3".into(), "3".into());
        Ok(HostOptions { name, layout, server_cpus, client_cpus, queues, mtu: 1_500 })
    };
    parse(words).unwrap().plan(&machine(), hosts).unwrap()
}

#[test]
fn every_combination_is_a_point_with_the_settings_that_differ() {
    let all = points("--processes 1,2,4 --model epoll,blocking --batch 1,64 --flows 1,8");
    // Blocking has a batch of its own.
    assert_eq!(all.len(), 3 * (2 + 1) * 2);
    let labels: std::collections::BTreeSet<String> = all.iter().map(label).collect();
    assert_eq!(labels.len(), all.len(), "{labels:?}");
    assert!(!all[0].settings.contains_key("layout"));
    assert_eq!(Sweep::scale(&all), "processes");
}

#[test]
fn equal_core_sets_are_measured_once_and_their_class_is_named() {
    let all = points("--cores each,pairs --layout whole");
    let members = |point: &Planned| point.class.clone().unwrap().members.join(" ");
    let found: Vec<String> = all.iter().map(members).collect();
    assert_eq!(found, ["0", "1", "2 3", "0+1", "0+2 0+3", "1+2 1+3", "2+3"]);
    assert_eq!(all[1].class.clone().unwrap().name, "1 CPU; to the receiving CPU: shared cache L2");
    // Packets that are steered to all CPUs leave no CPU special.
    assert_eq!(points("--cores each --layout steered").len(), 1);
}

#[test]
fn a_sweep_of_many_hours_names_them_and_asks() {
    let why = confirm(10_000, 6, 1_000_000_000, false).unwrap_err();
    assert!(why.contains("10000 points") && why.contains("--yes"), "{why}");
    assert!(why.contains('h'), "{why}");
    assert_eq!(confirm(10_000, 6, 1_000_000_000, true), Ok(()));
    assert_eq!(confirm(10, 6, 1_000_000_000, false), Ok(()));
}

#[test]
fn wrong_settings_are_refused() {
    for wrong in ["--cores some", "--flows 0", "--flows addresses:", "--model dpdk", "--server x"] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
    assert!(parse("--server knot").unwrap_err().contains("--zone"));
}
