//! The data folder: one server uses it at a time, and files of other users are not trusted.
use crate::operated::http;
use crate::served::{HEAD, NOERROR, Process, Served, binary, rcode, short_socket, text, zone};
use durable::lock::DataLock;
use std::fs;
use std::io::Read;
use std::net::Ipv4Addr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use test_support::folder::Folder;
use test_support::ports::free_address;
use test_support::wait;

/// A data folder for one test; it does not exist yet.
fn data(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}_data"));
    let _ = fs::remove_dir_all(&folder);
    folder
}

/// The begin of a config: `[server]`, and an admin socket with a short path.
fn config(test: &str, data: &Path, more: &str) -> String {
    let socket = short_socket(test);
    format!(
        "data_dir = \"{}\"\ndrain = \"0s\"\n[admin]\nsocket = \"{}\"\n{more}",
        data.display(),
        socket.display()
    )
}

/// Writes the config of a second server beside the running one.
fn write_config(test: &str, text: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("dunlin.toml");
    fs::write(&file, text).expect("a config");
    file
}

fn serve(args: &[&str], config: &Path) -> Process {
    let mut command = binary();
    command.arg("serve").args(args).arg("-c").arg(config);
    Process(command.stderr(Stdio::piped()).spawn().expect("it runs"))
}

/// Waits for a process to refuse to serve; returns its error.
fn refusal(mut server: Process) -> String {
    let status = wait::until_exit("a server that may not serve", &mut server.0);
    let mut told = String::new();
    let read = server.0.stderr.take().expect("a pipe").read_to_string(&mut told);
    read.expect("UTF-8");
    assert_eq!(status.code(), Some(1), "{told}");
    told
}

/// The process ID in the lock file.
fn holder(data: &Path) -> u32 {
    let text = fs::read_to_string(data.join("lock")).unwrap_or_default();
    text.trim().parse().unwrap_or_default()
}

/// Whether a process has a file open.
fn has_open(pid: u32, file: &Path) -> bool {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    links.filter_map(|link| fs::read_link(link.path()).ok()).any(|target| target == file)
}

#[test]
fn second_server_with_the_same_folder_is_refused_and_removes_nothing() {
    let data = data("data_second");
    let first = config("first", &data, &zone("good.test"));
    let mut served = Served::start("data_first", &first, &[("good.test.zone", HEAD)]);
    let copy = data.join("zones/good.test.zone");
    wait::until_true("it is saved", || copy.exists());
    let text = format!("[server]\nlisten = [\"127.0.0.1:0\"]\n{}", config("second", &data, ""));
    let second = write_config("data_second", &text);
    let told = refusal(serve(&[], &second));
    let expected = format!("data_dir {}: process {} uses it", data.display(), served.child.id());
    assert!(told.contains(&expected) && told.contains("its own data_dir"), "{told}");
    assert!(copy.exists());
    assert_eq!(rcode(&served.ask("ns.good.test")), NOERROR);
    served.end();
    let lock = DataLock::take(&data, None).expect("it is free once the first has ended");
    assert!(lock.is_some());
}

#[test]
fn lock_passes_in_a_hot_restart_and_returns_if_it_fails() {
    let data = data("data_pass");
    let text = config("pass", &data, &zone("good.test"));
    let mut served = Served::start("data_pass", &text, &[("good.test.zone", HEAD)]);
    let file = served.folder.join("dunlin.toml");
    let good = fs::read_to_string(&file).expect("a config");
    let old = served.child.id();
    assert_eq!(holder(&data), old);

    // The new process shares the lock while it loads, and is killed before it serves.
    let large = format!("{HEAD}$GENERATE 1-500000 h$ A 192.0.2.2\n");
    fs::write(served.folder.join("large.test.zone"), large).expect("a zone");
    let slow = served.folder.join("slow.toml");
    fs::write(&slow, format!("{good}{}", zone("large.test"))).expect("a config");
    let failed = serve(&["--hot-restart"], &slow);
    wait::until_true("it shares the lock", || has_open(failed.0.id(), &data.join("lock")));
    drop(failed);
    served.expect_line("going on alone", "WARN");
    DataLock::take(&data, None).expect_err("the old process has it");
    assert_eq!(holder(&data), old);

    let new = serve(&["--hot-restart"], &file);
    served.expect_line("handed over", "INFO");
    assert_eq!(served.status(), Some(0));
    let told = DataLock::take(&data, None).expect_err("the new process has it");
    assert!(told.contains(&format!("process {} uses it", new.0.id())), "{told}");
    assert_eq!(rcode(&served.ask("ns.good.test")), NOERROR);
    drop(new);
    assert!(DataLock::take(&data, None).expect("it is free").is_some());
}

/// The old process holds no lock, like versions before there was one.
#[test]
fn hot_restart_from_a_server_without_a_lock_takes_it() {
    let data = data("data_unlocked");
    let text = config("unlocked", Path::new(""), &zone("good.test"));
    let mut served = Served::start("data_unlocked", &text, &[("good.test.zone", HEAD)]);
    let file = served.folder.join("dunlin.toml");
    let without = fs::read_to_string(&file).expect("a config");
    let with = without.replace("data_dir = \"\"", &format!("data_dir = \"{}\"", data.display()));
    fs::write(&file, with).expect("a config");
    let new = serve(&["--hot-restart"], &file);
    served.expect_line("handed over", "INFO");
    assert_eq!(served.status(), Some(0));
    wait::until_true("it signs", || holder(&data) == new.0.id());
    DataLock::take(&data, None).expect_err("the new process has it");
}

#[test]
fn unwritable_folder_is_reported_and_dns_is_served() {
    // A file in place of the folder: even root cannot create a folder there.
    let data = data("data_readonly");
    fs::write(&data, "no folder").expect("a file");
    let text = config("readonly", &data.join("below"), &zone("good.test"));
    let served = Served::start("data_readonly", &text, &[("good.test.zone", HEAD)]);
    let told = |line: &String| line.contains("cannot be used") && line.contains("is not a folder");
    assert!(served.start.iter().any(told), "{:?}", served.start);
    assert_eq!(rcode(&served.ask("ns.good.test")), NOERROR);
    fs::remove_file(data).expect("ours");
}

fn ask(served: &Served, args: &[&str]) -> Output {
    let mut command = binary();
    command.args(args).arg("--socket").arg(served.socket().expect("a path"));
    command.output().expect("it runs")
}

/// The status of the response to a request of the API without a token.
fn api_status(served: &Served) -> u16 {
    http(served, "", "GET", "/v1/zones", "").0
}

/// The API admits no client then; DNS is served.
#[test]
fn planted_credentials_admit_no_client_and_dns_is_served() {
    let data = data("data_planted");
    fs::create_dir_all(&data).expect("a folder");
    let file = data.join("credentials.json");
    fs::write(&file, r#"{"format":1,"credentials":[]}"#).expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).expect("ours");
    let more =
        format!("[store]\nkind = \"redb\"\n[api]\nlisten = \"127.0.0.1:0\"\n{}", zone("good.test"));
    let text_of = config("planted", &data, &more);
    let served = Served::start("data_planted", &text_of, &[("good.test.zone", HEAD)]);
    assert_eq!(rcode(&served.ask("ns.good.test")), NOERROR);
    assert_eq!(api_status(&served), 503);
    let why = "credentials.json: cannot be read: everyone may write to it (mode 666)";
    for args in [&["token", "list"][..], &["token", "create", "a", "--grant", "read *"]] {
        let output = ask(&served, args);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(text(&output.stderr).contains(why), "{output:?}");
    }
    let status = ask(&served, &["status"]);
    let shown = text(&status.stdout);
    assert!(shown.contains("accepts no clients") && shown.contains(why), "{shown}");
    assert_eq!(status.status.code(), Some(1), "it is a fault");

    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("ours");
    assert_eq!(ask(&served, &["reload"]).status.code(), Some(0));
    assert_eq!(api_status(&served), 401, "who has no credential");
    assert_eq!(ask(&served, &["status"]).status.code(), Some(0), "nothing is wrong any more");
}

/// The checks and states of endpoints that clients of the API have set.
#[test]
fn damaged_checks_and_endpoints_are_faults() {
    let data = data("damaged_documents");
    fs::create_dir_all(&data).expect("a folder");
    fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).expect("ours");
    for file in ["health.checks", "health.endpoints"] {
        fs::write(data.join(file), "damaged").expect("a file");
        let test = "damaged_documents";
        let served = Served::start(test, &config(test, &data, ""), &[]);
        let status = ask(&served, &["status"]);
        let shown = text(&status.stdout);
        assert_eq!(status.status.code(), Some(1), "{shown}");
        assert!(shown.contains("documents_damaged: ") && shown.contains(file), "{shown}");
        drop(served);
        fs::remove_file(data.join(file)).expect("ours");
    }
}

/// Another user's server may have written the file there.
#[test]
fn bad_credentials_file_is_ignored_without_api() {
    let data = data("data_without_api");
    fs::create_dir_all(&data).expect("a folder");
    fs::write(data.join("credentials.json"), "damaged").expect("a file");
    let text_of = config("without-api", &data, &zone("good.test"));
    let served = Served::start("data_without_api", &text_of, &[("good.test.zone", HEAD)]);
    assert_eq!(rcode(&served.ask("ns.good.test")), NOERROR);
    assert_eq!(ask(&served, &["reload"]).status.code(), Some(0));
    let reported = served.start.iter().any(|line| line.contains("credentials"));
    assert!(!reported, "{:?}", served.start);
    let output = ask(&served, &["token", "list"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("not a file of credentials"), "{output:?}");
}

/// Like a Kubernetes volume with `fsGroup`: root owns the folder, the group may write everything in
/// it, and the server's user is in that group.
#[test]
fn group_writable_folder_and_files_are_accepted() {
    if !rustix::process::geteuid().is_root() {
        assert!(
            std::env::var_os("DUNLIN_REQUIRE_ALL").is_none(),
            "giving a folder away needs root"
        );
        eprintln!("SKIPPED: giving a folder away needs root");
        return;
    }
    let folder = std::env::temp_dir().join(format!("dunlin-fsgroup-{}", std::process::id()));
    let data = folder.with_extension("data");
    fs::create_dir(&data).expect("a folder");
    chown(&data, Some(0), Some(65_533)).expect("root");
    fs::set_permissions(&data, fs::Permissions::from_mode(0o2777)).expect("root");
    let text = format!(
        "user = \"65534\"\ngroup = \"65533\"\n{}",
        config("fsgroup", &data, &zone("good.test"))
    );
    let mut served = Served::start_by(&mut binary(), &folder, &text, &[("good.test.zone", HEAD)]);
    wait::until_true("it is saved", || data.join("server/zones/good.test.zone").exists());
    served.end();
    drop(served);
    let given = Command::new("chmod").args(["-R", "g+rwX"]).arg(&data).status();
    assert!(given.expect("coreutils").success());
    let served = Served::start_by(&mut binary(), &folder, &text, &[]);
    assert_eq!(rcode(&served.ask("ns.good.test")), NOERROR, "from the copy");
    let warned = |line: &&String| line.contains("WARN") && line.contains("not locked");
    assert_eq!(served.start.iter().find(warned), None);
    DataLock::take(&data.join("server"), None).expect_err("it is locked");
    drop(served);
    fs::remove_dir_all(folder).expect("ours");
    fs::remove_dir_all(data).expect("ours");
}

/// The blocks of code of README after the words, in order.
fn readme_blocks(readme: &str, after: &str) -> Vec<String> {
    let (_, rest) = readme.split_once(after).expect("README has these words");
    let blocks = rest.split("```").skip(1).step_by(2);
    blocks.map(|block| block.split_once('\n').expect("a line").1.to_owned()).collect()
}

/// Whether every user can run the binary.
fn is_reachable(binary: &std::ffi::OsStr) -> bool {
    let folders = Path::new(binary).ancestors();
    folders.skip(1).all(|folder| {
        fs::metadata(folder).is_ok_and(|found| found.permissions().mode() & 0o001 != 0)
    })
}

#[test]
fn readme_server_works_for_an_ordinary_user() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = fs::read_to_string(root.join("README.md")).expect("README");
    let demo = fs::read_to_string(root.join("examples/fleet/dunlin.toml")).expect("the demo");
    let blocks = readme_blocks(&readme, "Your own server needs");
    let [config, zone_file, ..] = &blocks[..] else { panic!("{blocks:?}") };
    let listen = config.split('"').nth(1).expect("an address");
    assert!(!demo.contains(listen), "the demo may run beside it");
    let address = free_address(Ipv4Addr::LOCALHOST);
    let folder = Folder::new("readme");
    let file = folder.join("dunlin.toml");
    fs::write(&file, config.replace(listen, &address.to_string())).expect("a file");
    fs::write(folder.join("example.org.zone"), zone_file).expect("a file");
    let is_other = rustix::process::geteuid().is_root() && is_reachable(binary().get_program());
    if is_other {
        chown(&folder, Some(65_534), Some(65_534)).expect("ours");
    }
    let user = |command: &mut Command| {
        if is_other {
            command.uid(65_534).gid(65_534);
        }
    };
    let mut server = binary();
    user(server.args(["serve", "-c", "dunlin.toml"]).current_dir(&folder));
    let log = folder.join("log");
    server.stdout(Stdio::null()).stderr(fs::File::create(&log).expect("a file"));
    let server = Process(server.spawn().expect("it runs"));
    let run = |words: &[&str], socket: bool| {
        let mut command = binary();
        user(command.args(words).current_dir(&folder));
        match socket {
            true => command.env("DUNLIN_SOCKET", folder.join("dunlin.sock")),
            false => command.args(["-c", "dunlin.toml"]),
        };
        command.output().expect("it runs")
    };
    wait::until_ok("it serves", || {
        let status = run(&["status"], false);
        let log = || fs::read_to_string(&log).expect("a file");
        status.status.success().then_some(()).ok_or_else(|| format!("{status:?} {}", log()))
    });
    for words in [
        &["status"][..],
        &["reload"],
        &["cache", "flush", "--all"],
        &["upstream", "list"],
        &["checks", "list"],
        &["health"],
        &["token", "list"],
    ] {
        for socket in [false, true] {
            let output = run(words, socket);
            assert!(output.status.success(), "{words:?}: {output:?}");
        }
    }
    drop(server);
}

/// The owner, group and mode of the folder that each manifest gives, and where its files are.
#[test]
fn server_starts_on_the_folder_of_each_manifest_and_not_on_that_of_another_user() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: giving a folder away needs root");
        return;
    }
    for (what, owner, group, mode, place) in [
        ("systemd's StateDirectory, and the package", 65_532, 65_532, 0o750, Some("")),
        ("an emptyDir", 0, 0, 0o777, Some("server/")),
        ("an emptyDir with fsGroup", 0, 65_532, 0o2777, Some("server/")),
        ("a claim with fsGroup", 0, 65_532, 0o2775, Some("")),
        ("a folder of another user", 65_533, 65_532, 0o770, None),
    ] {
        let folder = std::env::temp_dir().join(format!("dunlin-manifest-{}", std::process::id()));
        let data = folder.with_extension("data");
        fs::create_dir(&data).expect("a folder");
        chown(&data, Some(owner), Some(group)).expect("root");
        fs::set_permissions(&data, fs::Permissions::from_mode(mode)).expect("root");
        let text = format!(
            "user = \"65532\"\ngroup = \"65532\"\n{}",
            config("manifest", &data, &zone("good.test"))
        );
        match place {
            Some(place) => {
                let files = [("good.test.zone", HEAD)];
                let served = Served::start_by(&mut binary(), &folder, &text, &files);
                let copy = data.join(place).join("zones/good.test.zone");
                wait::until_true(what, || copy.exists());
                let is_warned = served.start.iter().any(|line| line.contains("others may write"));
                assert_eq!(is_warned, !place.is_empty(), "{what}");
                DataLock::take(&data.join(place), None).expect_err(what);
            }
            None => {
                fs::create_dir_all(&folder).expect("a folder");
                fs::write(folder.join("good.test.zone"), HEAD).expect("a zone");
                let file = folder.join("dunlin.toml");
                let text = format!("[server]\nlisten = [\"127.0.0.1:0\"]\n{text}");
                fs::write(&file, text).expect("a config");
                let ended = binary().arg("serve").arg("-c").arg(&file).output().expect("run");
                let told = String::from_utf8_lossy(&ended.stderr);
                assert!(
                    !ended.status.success() && told.contains("belongs to user 65533"),
                    "{told}"
                );
                assert!(told.contains("chown 65532"), "{told}");
            }
        }
        let _ = fs::remove_dir_all(folder);
        fs::remove_dir_all(data).expect("ours");
    }
}
