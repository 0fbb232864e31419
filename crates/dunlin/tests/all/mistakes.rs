//! Frequent mistakes: `docs/error-messages.md` holds the real output of the program. `BLESS=1`
//! writes the output into the page; read the difference before you keep it.
use std::fmt::Write;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The address of an example, which is in use.
const TAKEN: &str = "127.0.0.1:5399";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The program on a machine that has served no zone: `check` compares a zone with the copy that a
/// server saved below /var/lib/dunlin, which only that server and root can read.
fn program() -> Command {
    let binary = env!("CARGO_BIN_EXE_dunlin");
    if !rustix::process::geteuid().is_root() {
        return Command::new(binary);
    }
    let mut program = Command::new("unshare");
    let hidden = "mount -t tmpfs tmpfs /var/lib && exec \"$0\" \"$@\"";
    program.args(["--mount", "sh", "-c", hidden, binary]);
    program
}

/// The output of a command of the page, run in the root of the repository.
fn answer(command: &str) -> String {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words[..] {
        ["cat", file] => fs::read_to_string(root().join(file)).expect("a file of the examples"),
        ["dunlin", ref words @ ..] => {
            let output = program().args(words).current_dir(root()).output().expect("it runs");
            // Log lines have times; the final error begins with the program's name.
            let log = String::from_utf8(output.stderr).expect("UTF-8");
            let end = log.lines().filter(|line| line.starts_with("dunlin: "));
            let end: String = end.map(|line| format!("{line}\n")).collect();
            String::from_utf8(output.stdout).expect("UTF-8") + &end
        }
        _ => panic!("{command} is not a command of this page"),
    }
}

/// The page with the current output.
fn written_again(page: &str) -> String {
    let (mut out, mut in_console) = (String::new(), false);
    for line in page.lines() {
        let fence = line.starts_with("```");
        in_console = if fence { line == "```console" } else { in_console };
        match line.strip_prefix("$ ").filter(|_| in_console) {
            Some(command) => write!(out, "{line}\n{}", answer(command)).expect("memory"),
            None if in_console && !fence => {}
            None => writeln!(out, "{line}").expect("memory"),
        }
    }
    out
}

#[test]
fn error_page_holds_the_real_output_for_each_mistake() {
    // If another process already uses it, the output is the same.
    let _streams = TcpListener::bind(TAKEN);
    let _datagrams = UdpSocket::bind(TAKEN);
    let file = root().join("docs/error-messages.md");
    let page = fs::read_to_string(&file).expect("the page");
    let now = written_again(&page);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&file, &now).expect("written");
    }
    let differ = now.lines().zip(page.lines()).find(|(now, page)| now != page);
    assert!(now == page || std::env::var_os("BLESS").is_some(), "{differ:?}");
    for entry in fs::read_dir(root().join("examples/mistakes")).expect("the examples") {
        let name = entry.expect("an example").file_name();
        let name = name.to_str().expect("UTF-8");
        assert!(page.contains(&format!("examples/mistakes/{name}/")), "{name} is not on the page");
    }
    let told =
        now.lines().filter(|line| line.contains("examples/mistakes/") && line.contains(": "));
    let told: Vec<&str> = told.filter(|line| line.contains(" [")).collect();
    assert!(told.len() > 20, "every error has its place and its rule: {told:?}");
    assert!(told.iter().all(|line| line.contains(" (")), "and a remedy: {told:#?}");
}
