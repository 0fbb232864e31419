//! The systemd unit: how much it exposes, and that the server still does everything under it.
mod served;

use rustix::process::Signal;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use served::{HEAD, NOERROR, PATIENCE, Served, binary, holds, query, rcode, zone};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io;
use std::net::UdpSocket;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const UNIT: &str = include_str!("../../../packaging/systemd/dunlin.service");
/// The most that `systemd-analyze security` may say, in tenths: 2.0 is "OK", 10 "unsafe".
const EXPOSURE_MAX: u32 = 20;

/// Standard output of a command; nothing, and a loud word, where there is no such command.
fn output(command: &mut Command) -> Option<String> {
    match command.output() {
        Ok(output) => {
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{command:?}: {told}");
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Err(error) => {
            let strict = std::env::var_os("DUNLIN_REQUIRE_ALL").is_some();
            assert!(!strict, "{command:?}: {error}");
            eprintln!("SKIPPED: {command:?}: {error}");
            None
        }
    }
}

/// The values of a key of the unit, in their order.
fn values(key: &str) -> impl Iterator<Item = &str> {
    UNIT.lines().filter_map(move |line| line.strip_prefix(key)?.strip_prefix('='))
}

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd")
}

#[test]
fn the_unit_exposes_little() {
    let unit = packaging().join("dunlin.service");
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    // It fails where the exposure is more.
    let arguments = ["security", "--offline=true", "--no-pager", &threshold];
    let Some(told) = output(Command::new("systemd-analyze").args(arguments).arg(unit)) else {
        return;
    };
    println!("{}", told.lines().last().unwrap_or_default());
}

/// Every line of the units is one that systemd knows, and every command one that dunlin knows.
#[test]
fn the_units_are_in_order() {
    for key in ["ExecStart", "ExecReload"] {
        let line = values(key).next().expect("a command");
        let Some(line) = line.strip_prefix("/usr/bin/dunlin ") else { continue };
        let mut words = line.split(' ');
        let subcommand = words.next().expect("a subcommand");
        let help = output(binary().args([subcommand, "--help"])).expect("our own binary");
        for option in words.filter(|word| word.starts_with('-')) {
            assert!(help.contains(option), "{line}: {help}");
        }
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("units");
    fs::create_dir_all(&folder).expect("a folder");
    let service = UNIT.replace("/usr/bin/dunlin", env!("CARGO_BIN_EXE_dunlin"));
    fs::write(folder.join("dunlin.service"), service).expect("a file");
    fs::copy(packaging().join("dunlin.socket"), folder.join("dunlin.socket")).expect("a file");
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=false"]).arg(folder.join("dunlin.service"));
    verify.arg(folder.join("dunlin.socket"));
    // It warns of what it does not know, and goes on.
    let Ok(told) = verify.output() else { return drop(output(&mut verify)) };
    let told = String::from_utf8_lossy(&told.stderr);
    let ours: Vec<&str> = told.lines().filter(|line| line.contains("dunlin")).collect();
    assert!(ours.is_empty(), "{ours:#?}");
}

/// The system calls of a group of systemd's, such as `@file-system`.
fn group(name: &str, calls: &mut BTreeSet<String>) -> Option<()> {
    let told = output(Command::new("systemd-analyze").args(["syscall-filter", name]))?;
    for word in told.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if word.starts_with('@') && word != name {
            group(word, calls)?;
        } else if !word.starts_with('@') {
            calls.insert(word.to_owned());
        }
    }
    Some(())
}

/// What `SystemCallFilter=` of the unit lets through, as systemd.exec(5) reads it.
fn allowed() -> Option<BTreeSet<String>> {
    let mut allowed = BTreeSet::new();
    group("@default", &mut allowed)?;
    for value in values("SystemCallFilter") {
        let (remove, names) = value.strip_prefix('~').map_or((false, value), |names| (true, names));
        let mut calls = BTreeSet::new();
        for name in names.split(' ') {
            if name.starts_with('@') {
                group(name, &mut calls)?;
            } else {
                calls.insert(name.to_owned());
            }
        }
        if remove {
            allowed.retain(|call| !calls.contains(call));
        } else {
            allowed.extend(calls);
        }
    }
    Some(allowed)
}

/// The number of each system call of this machine, as the kernel's headers tell the C compiler.
fn numbers() -> HashMap<String, i64> {
    let mut cc = Command::new("cc");
    cc.args(["-E", "-dM", "-include", "sys/syscall.h", "-x", "c", "-"]).stdin(Stdio::null());
    let told = output(&mut cc).expect("a C compiler, as the linker of Rust");
    let macros: HashMap<&str, &str> =
        told.lines().filter_map(|line| line.strip_prefix("#define ")?.split_once(' ')).collect();
    let mut numbers = HashMap::new();
    for (name, mut value) in macros.iter().map(|(name, value)| (name, *value)) {
        let Some(name) = name.strip_prefix("__NR_") else { continue };
        // Some are named after another.
        while let Some(other) = macros.get(value) {
            value = other;
        }
        if let Ok(number) = value.parse() {
            numbers.insert(name.to_owned(), number);
        }
    }
    numbers
}

fn when(argument: u8, op: SeccompCmpOp, value: i32) -> SeccompCondition {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, value as u64).expect("a condition")
}

fn compile(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> BpfProgram {
    let architecture = std::env::consts::ARCH.try_into().expect("seccompiler knows it");
    let filter = SeccompFilter::new(rules, otherwise, matched, architecture).expect("a filter");
    filter.try_into().expect("a program")
}

/// `SystemCallFilter=`, but for one call: what is not on the list ends the process.
fn calls_filter(without: Option<&str>) -> Option<BpfProgram> {
    let (numbers, allowed) = (numbers(), allowed()?);
    let calls = allowed.iter().filter(|call| Some(call.as_str()) != without);
    let rules: BTreeMap<_, _> =
        calls.filter_map(|call| Some((*numbers.get(call)?, Vec::new()))).collect();
    assert!(rules.len() > 100, "most calls have a number: {}", rules.len());
    Some(compile(rules, SeccompAction::KillProcess, SeccompAction::Allow))
}

/// `RestrictAddressFamilies=`, `MemoryDenyWriteExecute=` and `RestrictNamespaces=`; where systemd
/// has the call fail, it ends the process, so that nothing of it is overlooked.
fn arguments_filter() -> BpfProgram {
    let numbers = numbers();
    let families = values("RestrictAddressFamilies").next().expect("families").split(' ');
    let others = families.map(|family| {
        let family = match family {
            "AF_UNIX" => libc::AF_UNIX,
            "AF_INET" => libc::AF_INET,
            "AF_INET6" => libc::AF_INET6,
            other => panic!("{other} is new to this test"),
        };
        when(0, SeccompCmpOp::Ne, family)
    });
    let all = |conditions| vec![SeccompRule::new(conditions).expect("a rule")];
    let has = |argument, bits: i32| {
        let bits_64 = bits as u64;
        all(vec![when(argument, SeccompCmpOp::MaskedEq(bits_64), bits)])
    };
    assert_eq!(values("MemoryDenyWriteExecute").next(), Some("yes"));
    let mut rules = BTreeMap::from([
        (numbers["socket"], all(others.collect())),
        (numbers["mmap"], has(2, libc::PROT_WRITE | libc::PROT_EXEC)),
        (numbers["mprotect"], has(2, libc::PROT_EXEC)),
        (numbers["pkey_mprotect"], has(2, libc::PROT_EXEC)),
    ]);
    assert_eq!(values("RestrictNamespaces").next(), Some("yes"));
    for call in ["unshare", "setns"] {
        rules.insert(numbers[call], Vec::new());
    }
    compile(rules, SeccompAction::Allow, SeccompAction::KillProcess)
}

/// The server, to be started under the filters of the unit.
fn confined(without: Option<&str>) -> Option<Command> {
    let filters = [arguments_filter(), calls_filter(without)?];
    let mut command = binary();
    let confine = move || {
        let failed = |error| io::Error::other(format!("{error}"));
        filters.iter().try_for_each(|filter| seccompiler::apply_filter(filter).map_err(failed))
    };
    // SAFETY: between fork and exec it calls the kernel only; an error, which would allocate, ends
    // the child.
    unsafe { command.pre_exec(confine) };
    Some(command)
}

/// A thing the server does.
type Exercise = (&'static str, fn(&Served));

/// Everything it does while it runs. Each must leave it running.
const EXERCISES: &[Exercise] = &[
    ("answers over UDP", |served| {
        assert!(holds(&served.ask("ns.a.test"), &[192, 0, 2, 1]));
    }),
    ("answers over TCP", |served| {
        assert!(holds(&served.ask_over_tcp("ns.a.test"), &[192, 0, 2, 1]));
    }),
    ("loads a zone that changes", |served| {
        fs::write(served.folder.join("a.test.zone"), format!("{HEAD}new A 192.0.2.2\n"))
            .expect("a file");
        served.expect_address("new.a.test", [192, 0, 2, 2]);
    }),
    ("refuses a bad zone", |served| {
        fs::write(served.folder.join("a.test.zone"), "broken\n").expect("a file");
        served.expect_line("a.test.zone:1:", "");
        assert_eq!(rcode(&served.ask("new.a.test")), NOERROR);
    }),
    ("loads all zones on SIGHUP", |served| {
        fs::write(served.folder.join("b.test.zone"), format!("{HEAD}new A 192.0.2.3\n"))
            .expect("a file");
        served.signal(Signal::HUP);
        served.expect_address("new.b.test", [192, 0, 2, 3]);
    }),
    ("logs its counters on SIGUSR1", |served| {
        served.signal(Signal::USR1);
        served.expect_line("counters", "\"all\"");
    }),
];

fn confined_server(test: &str, without: Option<&str>) -> Option<Served> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let config = "drain = \"0s\"\npin = true\ndata_dir = \"state\"\n".to_owned()
        + &zone("a.test")
        + &zone("b.test");
    let files = [("a.test.zone", HEAD), ("b.test.zone", HEAD)];
    Some(Served::start_by(&mut confined(without)?, &folder, &config, &files))
}

#[test]
fn every_feature_works_under_the_filters_of_the_unit() {
    let Some(mut served) = confined_server("confined", None) else { return };
    let status = format!("/proc/{}/status", served.child.id());
    let status = fs::read_to_string(status).expect("it runs");
    assert!(status.lines().any(|line| line == "Seccomp_filters:\t2"), "{status}");
    for (name, exercise) in EXERCISES {
        println!("{name}");
        exercise(&served);
        assert!(served.child.try_wait().expect("a child").is_none(), "it {name}, and ends");
    }
    served.signal(Signal::TERM);
    assert_eq!(served.status(), Some(0), "it ends when told to");
}

/// A filter that lacked a call would be noticed: the process ends at the first.
#[test]
fn a_call_that_is_not_on_the_list_ends_the_server() {
    let Some(mut served) = confined_server("confined_more", Some("sendmmsg")) else { return };
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.send_to(&query("ns.a.test"), served.address).expect("sent");
    let until = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = served.child.try_wait().expect("a child") {
            break status;
        }
        assert!(Instant::now() < until, "it answers without sendmmsg");
        std::thread::sleep(PATIENCE / 1000);
    };
    assert_eq!(status.signal(), Some(libc::SIGSYS), "{status}");
}
