use super::*;
use crate::machine::tests::Tree;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

const NET: &str = "sys/class/net/eth0";
const POLICY: &str = "sys/devices/system/cpu/cpufreq/policy0";
/// Says to the test that is run again that it is the victim: the tree, and when it ends.
const VICTIM: &str = "LAB_HOST_TEST_VICTIM";

fn tree(test: &str) -> Tree {
    let tree = Tree::new(
        test,
        &[
            ("proc/sys/net/core/rmem_max", "212992\n"),
            ("proc/sys/net/core/wmem_max", "33554432\n"),
            ("proc/sys/net/core/netdev_max_backlog", "1000\n"),
            ("proc/sys/net/core/netdev_budget", "300\n"),
            ("proc/sys/net/core/busy_poll", "0\n"),
            ("proc/sys/net/core/busy_read", "50\n"),
            ("proc/interrupts", "40: 0 x eth0-tx.1\n41: 0 x eth0-rx.1\n42: 0 x eth0-rx.0\n"),
            ("proc/irq/40/smp_affinity_list", "0-7\n"),
            ("proc/irq/41/smp_affinity_list", "3\n"),
            ("proc/irq/42/smp_affinity_list", "2\n"),
        ],
    );
    let files = [
        ("queues/rx-0/rps_cpus", "00000000,00000000\n"),
        ("queues/rx-1/rps_cpus", "00000000,00000004\n"),
        ("queues/tx-0/xps_cpus", "4\n"),
        ("queues/tx-1/xps_cpus", "8\n"),
        ("device/msi_irqs/40", "msix\n"),
        ("device/msi_irqs/41", "msix\n"),
        ("device/msi_irqs/42", "msix\n"),
        ("threaded", "0\n"),
    ];
    files.iter().for_each(|(file, text)| tree.write(&format!("{NET}/{file}"), text));
    tree.write(&format!("{POLICY}/scaling_governor"), "powersave\n");
    tree.write(&format!("{POLICY}/scaling_available_governors"), "performance powersave\n");
    tree
}

fn options(cpus: &str) -> Options {
    Options {
        device: Some(("eth0".into(), cpus.parse().unwrap())),
        busy_poll_us: Some(50),
        ..Options::default()
    }
}

/// The contents of all files except the journal.
fn content(tree: &Tree) -> BTreeMap<PathBuf, String> {
    fn walk(folder: &Path, found: &mut BTreeMap<PathBuf, String>) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() {
                walk(&entry.path(), found);
            } else {
                let text = fs::read_to_string(entry.path()).unwrap();
                found.insert(entry.path(), text.trim().to_owned());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(&tree.0.join("proc"), &mut found);
    walk(&tree.0.join("sys"), &mut found);
    found
}

fn planned(tree: &Tree, options: &Options) -> Vec<String> {
    let changes = plan(&tree.machine(), options).unwrap();
    changes.iter().map(|c| format!("{} {} → {}", c.name(), c.before, c.after)).collect()
}

#[test]
fn the_plan_holds_only_differing_settings() {
    let tree = tree("tune-plan");
    let wanted = [
        "/proc/sys/net/core/rmem_max 212992 → 16777216",
        "/proc/sys/net/core/netdev_max_backlog 1000 → 16384",
        "/proc/sys/net/core/netdev_budget 300 → 600",
        "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor powersave → performance",
        "/proc/sys/net/core/busy_poll 0 → 50",
        "/proc/irq/40/smp_affinity_list 0-7 → 3",
        "/sys/class/net/eth0/queues/rx-1/rps_cpus 00000000,00000004 → 0",
    ];
    // Each queue has a CPU of its own: nothing is to be steered.
    let found = planned(&tree, &options("2-3"));
    assert_eq!(found, wanted);
    // Four CPUs, two queues: packets are steered.
    let found = planned(&tree, &options("2-5"));
    assert!(
        found.iter().any(|line| line.ends_with("rps_cpus 00000000,00000000 → 3c")),
        "{found:?}"
    );
    let skipping = Options {
        skip: vec![Part::Irq, Part::Governor, Part::Budget, Part::Buffers, Part::BusyPoll],
        ..options("2-3")
    };
    assert_eq!(planned(&tree, &skipping), [wanted[6]]);
    let threads = planned(&tree, &Options { threads: true, ..skipping.clone() });
    let pinned = "CPUs of the polling threads of eth0  → 2-3";
    assert_eq!(threads, ["/sys/class/net/eth0/threaded 0 → 1", pinned]);
    tree.write(&format!("{NET}/threaded"), "1\n");
    assert!(planned(&tree, &Options { threads: false, ..skipping }).is_empty(), "threads poll it");
    let no_device =
        Options { device: Some(("eth9".into(), "0".parse().unwrap())), ..Options::default() };
    assert!(plan(&tree.machine(), &no_device).unwrap_err().contains("no device eth9"));
    // A machine that has none of it needs nothing.
    assert!(planned(&Tree::new("tune-bare", &[("x", "")]), &Options::default()).is_empty());
}

#[test]
fn changed_settings_are_restored() {
    let tree = tree("tune-restore");
    let (machine, state, before) = (tree.machine(), tree.0.join("run"), content(&tree));
    let changes = plan(&machine, &options("2-3")).unwrap();
    let mut session = Session::begin(&machine, &state).unwrap();
    session.apply(&changes, &mut |_| {}).unwrap();
    assert_eq!(machine.read("proc/irq/40/smp_affinity_list").as_deref(), Some("3"));
    assert!(plan(&machine, &options("2-3")).unwrap().is_empty());
    // A live session keeps its settings and the lock.
    assert_eq!(recover(&machine, &state), Ok(None));
    assert!(Session::begin(&machine, &state).unwrap_err().contains("another"));
    assert!(restore(&machine, &state).unwrap_err().contains("still runs"));
    assert_eq!(session.end(&mut |_| {}).unwrap().changed.len(), changes.len());
    assert_eq!(content(&tree), before);
    assert_eq!(restore(&machine, &state), Ok(Restored::default()));

    // A panic restores as well.
    let mut session = Session::begin(&machine, &state).unwrap();
    session.apply(&changes, &mut |_| {}).unwrap();
    drop(session);
    assert_eq!(content(&tree), before);
}

#[test]
fn settings_stay_until_restore() {
    let tree = tree("tune-keep");
    let (machine, state, before) = (tree.machine(), tree.0.join("run"), content(&tree));
    let changes = plan(&machine, &options("2-3")).unwrap();
    let mut session = Session::begin(&machine, &state).unwrap();
    session.apply(&changes, &mut |_| {}).unwrap();
    session.keep().unwrap();
    assert_eq!(recover(&machine, &state), Ok(None));
    assert!(Session::begin(&machine, &state).unwrap_err().contains("restore"));
    assert_ne!(content(&tree), before);
    // A device that has gone meanwhile is not an error.
    fs::remove_file(machine.path("proc/irq/40/smp_affinity_list")).unwrap();
    let restored = restore(&machine, &state).unwrap();
    assert_eq!((restored.changed.len(), restored.gone), (changes.len() - 1, 1));
}

#[test]
fn a_refused_setting_undoes_the_others() {
    let tree = tree("tune-refused");
    let (machine, before) = (tree.machine(), content(&tree));
    let mut changes = plan(&machine, &options("2-3")).unwrap();
    // It is a folder: not even root can write to it.
    let setting = Setting::File("proc/irq".into());
    changes.push(Change { setting, part: Part::Irq, before: String::new(), after: "1".into() });
    let mut session = Session::begin(&machine, &tree.0.join("run")).unwrap();
    let said = session.apply(&changes, &mut |_| {}).unwrap_err();
    assert!(said.contains("cannot write 1 into") && said.contains("--skip irq"), "{said}");
    drop(session);
    let after = content(&tree);
    assert_eq!(after, before);
}

/// Tunes the given tree, and kills itself at the given step.
#[test]
fn victim() {
    let Ok(told) = std::env::var(VICTIM) else { return };
    let (step, root) = told.split_once(' ').unwrap();
    let mut left: usize = step.parse().unwrap();
    let mut count = |_| {
        left -= 1;
        if left == 0 {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
                .unwrap();
        }
    };
    let machine = Machine::at(root);
    let changes = plan(&machine, &options("2-3")).unwrap();
    let mut session = Session::begin(&machine, &Path::new(root).join("run")).unwrap();
    session.apply(&changes, &mut count).unwrap();
    session.end(&mut count).unwrap();
}

#[test]
fn all_settings_are_restored_after_a_kill_at_any_step() {
    let tree = tree("tune-killed");
    let (machine, state, before) = (tree.machine(), tree.0.join("run"), content(&tree));
    let changes = plan(&machine, &options("2-3")).unwrap().len();
    // Each is noted, changed and restored; then it is done.
    let steps = 3 * changes + 1;
    for step in 1..=steps {
        let mut victim = Command::new(std::env::current_exe().unwrap());
        let victim = victim.args(["--exact", "tune::tests::victim", "--test-threads=1"]);
        let output = victim.env(VICTIM, format!("{step} {}", tree.0.display())).output().unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
        assert_eq!(signal, Some(9), "{step}: {}", String::from_utf8_lossy(&output.stderr));
        let found = recover(&machine, &state).unwrap();
        // Noted first, then changed: from the second step on there is something to restore, until
        // the victim itself has restored it.
        assert_eq!(found.is_some(), step > 1 && step < 3 * changes, "{step}: {found:?}");
        assert_eq!(content(&tree), before, "killed at step {step} of {steps}");
        assert_eq!(recover(&machine, &state), Ok(None), "{step}");
    }
}

#[test]
fn a_truncated_journal_line_is_ignored() {
    let tree = tree("tune-torn");
    let (machine, before) = (tree.machine(), content(&tree));
    tree.write("proc/sys/net/core/rmem_max", "5\n");
    let whole = r#"{"file":"proc/sys/net/core/rmem_max","before":"212992","netns":null}"#;
    tree.write("run/tune.journal", &format!("{whole}\n{{\"file\":\"proc/sys/net/core/wm"));
    let restored = recover(&machine, &tree.0.join("run")).unwrap().unwrap();
    assert_eq!(restored.changed, ["proc/sys/net/core/rmem_max"]);
    assert_eq!(content(&tree), before);
    // Foreign content in it is an error, and nothing is guessed.
    tree.write("run/tune.journal", "what\n");
    assert!(recover(&machine, &tree.0.join("run")).unwrap_err().contains("what"));
}
