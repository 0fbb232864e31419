//! Files beside the binary: the manual, the completions, and the Debian package.
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Files of the installed package.
const INSTALLED: &[&str] = &[
    "/etc/dunlin/dunlin.toml",
    "/usr/bin/dunlin",
    "/usr/lib/systemd/system/dunlin.service",
    "/usr/lib/systemd/system/dunlin.socket",
    "/usr/lib/sysusers.d/dunlin.conf",
    "/usr/share/bash-completion/completions/dunlin",
    "/usr/share/doc/dunlin/examples/fleet/cluster.local.zone",
    "/usr/share/man/man1/dunlin-serve.1.gz",
    "/usr/share/man/man5/dunlin.toml.5.gz",
];

/// Installs, uses and purges a package on a copy of this machine in memory.
const TRY: &str = r#"
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mkdir -p "$1/root/tmp"
cp "$2" "$1/root/tmp/dunlin.deb"
cd "$1/root"
chroot . dpkg --install /tmp/dunlin.deb >&2
chroot . dunlin check /etc/dunlin/dunlin.toml >&2
chroot . id dunlin >&2
chroot . dpkg --listfiles dunlin
mkdir -p var/lib/dunlin var/log/dunlin
touch var/lib/dunlin/kept var/log/dunlin/kept
chroot . dpkg --purge dunlin >&2
for gone in etc/dunlin var/lib/dunlin var/log/dunlin usr/bin/dunlin usr/share/doc/dunlin; do
  [ ! -e "$gone" ] || { echo "$gone is left" >&2; exit 1; }
done
"#;

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {told}");
    output
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn dunlin(words: &[&OsStr]) -> Output {
    run(Command::new(env!("CARGO_BIN_EXE_dunlin")).args(words))
}

/// Whether one of these commands is missing; prints it, and panics if nothing may be skipped.
fn lacks(commands: &[&str]) -> bool {
    let missing: Vec<_> = commands
        .iter()
        .filter(|command| {
            let looked = format!("PATH=$PATH:/usr/sbin:/sbin; command -v {command}");
            !Command::new("sh").args(["-c", &looked]).output().expect("a shell").status.success()
        })
        .collect();
    if !missing.is_empty() {
        assert!(std::env::var_os("DUNLIN_REQUIRE_ALL").is_none(), "missing: {missing:?}");
        eprintln!("SKIPPED: missing: {missing:?}");
    }
    !missing.is_empty()
}

fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// The subcommands in the help.
fn subcommands() -> BTreeSet<String> {
    subcommands_of(&[])
}

/// The subcommands of a command, if any.
fn subcommands_of(words: &[&str]) -> BTreeSet<String> {
    let words: Vec<&OsStr> = words.iter().copied().chain(["--help"]).map(OsStr::new).collect();
    let help = text(&dunlin(&words));
    let listed = help.split("Commands:\n").nth(1).unwrap_or_default();
    let listed = listed.lines().take_while(|line| !line.is_empty());
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.map(|line| line.split_whitespace().next().expect("a name").to_owned());
    names.filter(|name| name != "help").collect()
}

#[test]
fn every_command_has_a_valid_manual_page() {
    let folder = folder("manual");
    dunlin(&["manual".as_ref(), folder.as_ref()]);
    let pages = ["man1", "man5"].map(|section| fs::read_dir(folder.join(section)).expect("pages"));
    let pages: Vec<PathBuf> =
        pages.into_iter().flatten().map(|p| p.expect("a page").path()).collect();
    let name = |page: &PathBuf| page.strip_prefix(&folder).expect("below").display().to_string();
    let found: BTreeSet<String> = pages.iter().map(name).collect();
    let mut wanted = BTreeSet::new();
    // The lab is a separate package.
    let own = subcommands().into_iter().filter(|name| name != "lab");
    let mut commands: Vec<Vec<String>> = own.map(|name| vec![name]).collect();
    while let Some(command) = commands.pop() {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let within = subcommands_of(&words).into_iter();
        commands.extend(within.map(|name| [&command[..], &[name]].concat()));
        wanted.insert(format!("man1/dunlin-{}.1", command.join("-")));
    }
    assert!(wanted.contains("man1/dunlin-serve.1"), "{wanted:?}");
    wanted.extend(["man1/dunlin.1".into(), "man5/dunlin.toml.5".into()]);
    assert_eq!(found, wanted);
    if lacks(&["mandoc"]) {
        return;
    }
    for page in &pages {
        run(Command::new("mandoc").args(["-Tlint", "-Werror"]).arg(page));
        let shown = text(&run(Command::new("mandoc").args(["-Tascii", "-c"]).arg(page)));
        for part in ["N\u{8}NA\u{8}AM\u{8}ME\u{8}E", "Dunlin manual", env!("CARGO_PKG_VERSION")] {
            assert!(shown.contains(part), "{part} in {page:?}: {shown}");
        }
    }
}

#[test]
fn shells_complete_every_command() {
    let folder = folder("completions");
    let write = |shell: &str| {
        let file = folder.join(shell);
        let completions = dunlin(&["completions".as_ref(), shell.as_ref()]);
        fs::write(&file, completions.stdout).expect("a file");
        file.to_str().expect("UTF-8").to_owned()
    };
    let (bash, zsh, fish) = (write("bash"), write("zsh"), write("fish"));
    let ask = format!(
        "set -u; source {bash}; complete -p dunlin >&2; \
         COMP_WORDS=(dunlin ''); COMP_CWORD=1; _dunlin dunlin '' dunlin; echo ${{COMPREPLY[@]}}"
    );
    let offered = text(&run(Command::new("bash").args(["--norc", "-c", &ask])));
    for name in subcommands() {
        assert!(offered.split_whitespace().any(|word| word == name), "{name} in {offered}");
    }
    if lacks(&["zsh", "fish"]) {
        return;
    }
    run(Command::new("zsh").args(["-f", "-n", &zsh]));
    let ask = format!("source {fish}; complete -C 'dunlin '");
    let offered = text(&run(Command::new("fish").args(["--no-config", "-c", &ask])));
    for name in subcommands() {
        assert!(offered.lines().any(|line| line.starts_with(&name)), "{name} in {offered}");
    }
}

#[test]
#[ignore = "slow: it builds a package"]
fn package_installs_and_a_purge_leaves_nothing() {
    let root = rustix::process::geteuid().is_root();
    if lacks(&["cargo-deb", "dpkg", "lintian", "unshare"]) {
        return;
    }
    let folder = folder("deb");
    let package = folder.join("dunlin.deb");
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/deb");
    run(Command::new(packaging.join("build")).arg(env!("CARGO_BIN_EXE_dunlin")).arg(&package));
    run(Command::new("lintian").args(["--allow-root", "--fail-on", "error,warning"]).arg(&package));
    // If the socket unit restarted too, queries in its sockets would be lost.
    let script = text(&run(Command::new("dpkg-deb").arg("--info").arg(&package).arg("postinst")));
    let commands = script.lines().filter(|line| !line.starts_with('#'));
    let restarts: Vec<&str> = commands.filter(|line| line.contains("restart ")).collect();
    assert_eq!(restarts, ["  deb-systemd-invoke try-restart dunlin.service >/dev/null || true"]);
    if !root {
        assert!(std::env::var_os("DUNLIN_REQUIRE_ALL").is_none(), "installing needs root");
        eprintln!("SKIPPED: installing needs root");
        return;
    }
    let scratch = folder.join("scratch");
    fs::create_dir(&scratch).expect("a folder");
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", TRY, "sh"]).args([&scratch, &package]);
    let listed = text(&run(&mut unshare));
    for file in INSTALLED {
        assert!(listed.lines().any(|line| line == *file), "{file} in {listed}");
    }
}

#[test]
fn package_has_the_version_of_the_binary() {
    let changelog = include_str!("../../../../packaging/deb/changelog");
    let version = concat!("dunlin (", env!("CARGO_PKG_VERSION"), "-1) ");
    assert!(changelog.starts_with(version), "{changelog}");
}

/// What a build of tests says: only `make` names a commit.
#[test]
fn version_names_a_commit() {
    let said = text(&dunlin(&["--version".as_ref()]));
    let commit = option_env!("DUNLIN_COMMIT").unwrap_or("commit unknown");
    assert_eq!(said, format!("dunlin {} ({commit})\n", env!("CARGO_PKG_VERSION")));
}
