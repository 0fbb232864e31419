use super::*;
use crate::limits::DIAGNOSTICS_MAX;

/// The result of a config: `ok`, or its errors as printed, without `dunlin.toml`.
pub(crate) fn check(text: &str, expected: &str) {
    let told = match Config::parse(Path::new("etc/dunlin.toml"), text) {
        Ok(_) => "ok".to_owned(),
        Err(wrong) => wrong.iter().map(|line| format!("{line}\n")).collect(),
    };
    let told = told.replace("etc/dunlin.toml:", "");
    let trim = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    assert_eq!(trim(told.trim()), trim(expected.trim()), "of\n{text}");
}

#[test]
fn empty_file_is_a_config() {
    let config = Config::load(None).expect("the defaults hold");
    assert_eq!(config.server.listen.len(), 2);
    assert_eq!(config.server.udp_size_max, 1232);
    assert_eq!(config.server.workers, Workers::Auto);
    assert!(config.server.cookies.enabled && config.server.local_zones);
}

#[test]
fn all_errors_are_reported_at_once_with_their_places() {
    check(
        r#"
[server]
listn = ["127.0.0.1"]
workers = 0
port = "dpkd"
udp_size_max = 100
pin = "yes"
steering = "hsah"

[[zone]]
name = "a..b"

[logs]
"#,
        r#"
3:1: unknown key `listn` in [server] (did you mean `listen`?)
4:11: expected "auto", "cores", a number from 1 to 256, or CPUs such as "2-5,8", found the number 0
5:8: expected "socket", "xdp" or "dpdk", found the text "dpkd"
6:16: expected a number from 512 to 4096, found the number 100
7:7: expected true or false, found the text "yes"
8:12: expected "auto", "cpu" or "hash", found the text "hsah"
10:1: [[zone]] needs the key `file`
11:8: "a..b" is not a name: a label is empty
13:2: unknown section `logs` (did you mean `log`?)
"#,
    );
}

#[test]
fn holder_of_sockets_is_refused_for_ports_that_are_none() {
    check("server.hold_sockets = true", "ok");
    check(
        "[server]\nhold_sockets = true\nport = \"xdp\"\n[xdp]\ninterface = \"eth0\"",
        "2:16: `hold_sockets` holds sockets, and no queues of a network card, which end with the \
         server (take it out, or set port = \"socket\")",
    );
}

#[test]
fn each_invalid_element_of_a_list_is_reported() {
    check(
        "server.listen = [\"127.0.0.1:53\", 5, \"::1\", \"localhost\"]",
        "1:34: expected an address and port, found the number 5
         1:44: expected an address such as \"192.0.2.1:53\" or \"[2001:db8::1]:53\", \
         found the text \"localhost\" (names are not looked up here: \"127.0.0.1:53\")",
    );
    check("server.listen = []", "1:17: `listen` needs one at least");
    check(
        "server.listen = 53",
        "1:17: expected an array, found the number 53 (put it in brackets: listen = [\"…\"])",
    );
    check(
        "zone = 1\nserver = 2",
        "1:8: expected sections [[zone]], found the number 1
         2:10: expected the section [server], found the number 2",
    );
}

#[test]
fn workers_are_counted_or_placed() {
    let workers = |text: &str| {
        let text = format!("server.workers = {text}");
        Config::parse(Path::new("f"), &text).map(|config| config.server.workers).ok()
    };
    assert_eq!(workers("4"), Some(Workers::Count(4)));
    assert_eq!(workers("\"cores\""), Some(Workers::Cores));
    assert_eq!(workers("\"2-3\""), Some(Workers::Cpus([2, 3].into_iter().collect())));
    for wrong in ["-1", "257", "1.5", "\"many\"", "\"5-2\"", "\"0-300\""] {
        assert_eq!(workers(wrong), None, "{wrong}");
    }
}

#[test]
fn stream_threads_have_room_for_their_buffers() {
    let told = |text: &str| {
        let errors = Config::parse(Path::new("f"), text).map(drop).err().unwrap_or_default();
        errors.iter().map(ToString::to_string).collect::<String>()
    };
    let most = crate::limits::STREAM_THREADS_MAX;
    assert_eq!(told(&format!("streams.threads = {most}")), "", "the default is enough for all");
    let text = told(&format!("streams.threads = {most}\nstreams.memory = \"1MiB\""));
    assert!(text.contains("f:2:") && text.contains("is too little"), "{text}");
    let enough = text.split('"').nth(1).expect("how much would be enough");
    assert_eq!(told(&format!("streams.threads = {most}\nstreams.memory = \"{enough}\"")), "");
}

#[test]
fn text_that_is_not_toml_is_one_error() {
    check("[server\nid = \"x\"\n", "1:8: unclosed table, expected `]`");
    let twice = "is there twice (remove one of them, or put both into one)";
    check(
        "[server]\nid = \"x\"\nid = \"y\"\n[server]\n",
        &format!("3:1: the key or section `id` {twice}\n4:2: the key or section `server` {twice}"),
    );
    // One missing bracket makes everything after it invalid.
    check(
        "[server]\nlisten = [\"::1\"\nworkers = 1\n[log]\nlevel = \"info\"\n",
        "3:1: missing comma between array elements, expected `,` \
         (is a bracket or a quote missing before it? check again then)",
    );
}

#[test]
fn text_that_is_not_utf8_is_reported_with_its_place() {
    let file = std::env::temp_dir().join(format!("dunlin-latin-{}.toml", std::process::id()));
    std::fs::write(&file, b"[server]\nid = \"caf\xe9\"\n").expect("a file");
    let told = Config::load(Some(&file)).expect_err("it is not UTF-8");
    std::fs::remove_file(&file).expect("it was there");
    assert_eq!((told[0].line, told[0].column), (2, 10), "{told:?}");
    assert!(told[0].to_string().contains("save it as UTF-8"), "{told:?}");
    let told = Config::load(Some(Path::new("/"))).expect_err("a folder");
    assert!(told[0].to_string().contains("such as /dunlin.toml"), "{told:?}");
}

#[test]
fn address_is_listed_once() {
    check(
        "server.listen = [\"127.0.0.1:53\", \"127.0.0.1\"]",
        "1:17: `listen` names 127.0.0.1:53 twice (remove one of them)",
    );
    check(
        "server.listen = [\"192.0.2.1:53\", \"0.0.0.0:53\", \"[::]:53\"]",
        "1:17: `listen` names 192.0.2.1:53 beside 0.0.0.0:53, which is all of them \
         (remove one of them)",
    );
    check("server.listen = [\"127.0.0.1:0\", \"127.0.0.1:0\", \"0.0.0.0:1\", \"[::1]:1\"]", "ok");
}

#[test]
fn control_characters_in_a_key_are_escaped() {
    let told = format!("`\u{fffd}[2J{}…`", "x".repeat(60));
    check(
        &format!("[log]\n\"\\u001b[2J{}\" = 1\n", "x".repeat(1_000)),
        &format!(
            "2:1: unknown key {told} in [log] (expected one of level, format, levels, queries)"
        ),
    );
}

#[test]
fn section_without_its_brackets_is_an_error() {
    check(
        "[zone]\nname = \"a\"\n[[server]]\n",
        "1:1: expected sections [[zone]], found a value of type table \
         (two pairs of brackets: [[zone]])
         3:1: expected the section [server], found a value of type array \
         (one pair of brackets: [server])",
    );
}

#[test]
fn errors_above_the_maximum_are_counted() {
    let text = "[[zone]]\nname = \"a.\"\nfile = \"\"\n".repeat(1_000);
    let told = Config::parse(Path::new("f"), &text).expect_err("no file has a name");
    assert_eq!(told.len(), DIAGNOSTICS_MAX + 1);
    assert_eq!(told[DIAGNOSTICS_MAX].to_string(), "f: has 1,899 errors more");
}

#[test]
fn zone_is_named_once() {
    check(
        "[[zone]]\nname = \"example.org\"\nfile = \"a\"\n\n\
         [[zone]]\nname = \"Example.ORG.\"\nfile = \"b\"\n",
        "6:8: this zone is already named in line 2 (remove one of them)",
    );
}

#[test]
fn relative_paths_start_at_the_config() {
    let text = "[[zone]]\nname = \"org\"\nfile = \"org.zone\"\n\
                [[zone]]\nname = \"net\"\nfile = \"/srv/net.zone\"\n";
    let config = Config::parse(Path::new("etc/dunlin.toml"), text).expect("a config");
    let files: Vec<_> = config.zones.iter().map(|zone| zone.file.clone()).collect();
    assert_eq!(files, [Path::new("etc/org.zone"), Path::new("/srv/net.zone")]);
}

#[test]
fn secrets_do_not_show() {
    let secret = "000102030405060708090a0b0c0d0e0f";
    let text = format!("server.cookies.secrets = [\"{secret}\"]");
    let config = Config::parse(Path::new("f"), &text).expect("a config");
    assert_eq!(config.server.cookies.secrets[0].0[15], 15);
    let shown = format!("{config:?}");
    assert!(!shown.contains("0e0f") && !shown.contains("14, 15"), "{shown}");

    for wrong in ["5ec3e7", "5ec3e7zz0405060708090a0b0c0d0e0f"] {
        let text = format!("server.cookies.secrets = [\"{wrong}\"]\nserver.cookies.x = 1");
        let told = Config::parse(Path::new("f"), &text).expect_err("a wrong secret");
        assert_eq!(told.len(), 2);
        assert!(!format!("{told:?}").contains("5ec3e7"), "{told:?}");
    }
    let told = Config::parse(Path::new("f"), "server.cookies.secrets = \"5ec3e7\"");
    assert!(!format!("{told:?}").contains("5ec3e7"), "nor where the brackets are missing");
}

/// `examples/dunlin.toml` shows every key and its default.
#[test]
fn example_shows_every_default() {
    let example = include_str!("../../../../examples/dunlin.toml");
    let keys: String = example
        .lines()
        .take_while(|line| !line.contains("[[zone]]"))
        .map(|line| line.strip_prefix('#').filter(|l| !l.starts_with(' ')).unwrap_or(line))
        .fold(String::new(), |text, line| text + line + "\n");
    let spoken = Config::parse(Path::new(""), &keys).expect("the example is a config");
    let silent = Config::load(None).expect("the defaults hold");
    assert_eq!(format!("{spoken:?}"), format!("{silent:?}"));
    let told = keys.lines().filter(|line| line.contains(" = ") && !line.starts_with('#')).count();
    assert_eq!(told, 141, "a key more or less belongs into the example");
}

/// Uncomments each key, each example of a rule and each example of a section in turn.
#[test]
fn each_commented_example_is_valid_in_its_place() {
    let example = include_str!("../../../../examples/dunlin.toml");
    let lines: Vec<&str> = example.lines().collect();
    let uncommented = |line: &str| -> Option<String> {
        let is_rule = line.starts_with("# \"") && line.contains(" = ");
        let is_key = line.starts_with('#') && !line.starts_with("# ");
        (is_rule || is_key).then(|| line[1..].trim_start().to_owned())
    };
    let mut count = 0;
    for (index, line) in lines.iter().enumerate() {
        let Some(first) = uncommented(line) else { continue };
        let mut text: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        text[index].clone_from(&first);
        if first.starts_with("[[") {
            // A section needs all its keys.
            for (at, line) in lines.iter().enumerate().skip(index) {
                let Some(key) = uncommented(line) else { break };
                text[at] = key;
            }
        } else if lines[..index].iter().any(|line| line.starts_with("#[[")) {
            continue;
        }
        count += 1;
        if let Err(wrong) = Config::parse(Path::new(""), &text.join("\n")) {
            panic!("{first}: {wrong:#?}");
        }
    }
    assert_eq!(count, 142 + 10 + 3, "keys, rules and sections");
}

#[test]
fn access_list_without_any_allowed_client_is_an_error() {
    check(
        "[acl]\nquery = [\"!192.0.2.0/24\"]\nmetrics = [\"10.0.0.1/8\", \"localhost\"]",
        "2:9: `query` allows no client (name prefixes to allow, or begin with \"any\")
         3:12: host bits are set in the text \"10.0.0.1/8\" \
         (did you mean \"10.0.0.0/8\"?)
         3:26: expected an address or a prefix such as 192.0.2.0/24 or 2001:db8::/32, \
         found the text \"localhost\"",
    );
}

#[test]
fn values_have_units() {
    check(
        "server.drain = 5\nstreams.idle = \"10ms\"\nstreams.memory = \"32MB\"",
        r#"
1:16: expected a duration such as "250ms", "10s", "5m" or "1h", found the number 5 UNIT
2:16: expected 1s to 3600s, found the text "10ms"
3:18: expected a size from "1MiB" to "64GiB", found the text "32MB" MEANT
"#
        .replace("UNIT", "(with its unit: \"5s\")")
        .replace("MEANT", "(did you mean \"32MiB\"?)")
        .as_str(),
    );
}

#[test]
fn rule_has_servers_and_a_mode() {
    let text = r#"
        [forward]
        "." = ["192.0.2.1"]
        "direct.example" = { servers = ["192.0.2.2", "::1"], mode = "direct", mix_case = false }
        "fixed.example" = { servers = ["192.0.2.3"], fixed_ports = 1, ttl_max = "1s" }
        "off.example" = { mode = "off" }
        "internal" = { mode = "local" }
    "#;
    let rules = Config::parse(Path::new("f"), text).expect("a config").forwards;
    let fixed: Vec<_> = rules.iter().filter_map(|rule| rule.fixed_ports).collect();
    assert_eq!(fixed, [1]);
    let longest: Vec<_> = rules.iter().filter_map(|rule| rule.ttl_max).collect();
    assert_eq!(longest, [std::time::Duration::from_secs(1)]);
    let told = rules.iter().map(|rule| {
        let (suffix, count) = (rule.suffix.as_name().to_string(), rule.servers.len());
        (suffix, rule.mode, count, rule.mix_case)
    });
    let mut told: Vec<_> = told.collect();
    told.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [
        (".", Mode::Cache, 1, true),
        ("direct.example.", Mode::Direct, 2, false),
        ("fixed.example.", Mode::Cache, 1, true),
        ("internal.", Mode::Local, 0, true),
        ("off.example.", Mode::Off, 0, true),
    ];
    assert_eq!(told, expected.map(|(name, mode, count, mix)| (name.into(), mode, count, mix)));
}

#[test]
fn all_rules_together_have_a_maximum_of_servers() {
    let config = |count: usize| {
        let rule = |nth| format!("\"{nth:03}.example\" = [\"192.0.2.1\"]\n");
        "[forward]\n".to_owned() + &(0..count).map(rule).collect::<String>()
    };
    check(&config(257), "\n258:17: all rules together have 256 servers at most\n");
    assert!(Config::parse(Path::new("f"), &config(256)).is_ok());
}

#[test]
fn each_bad_server_and_a_key_outside_of_a_section_are_errors() {
    check(
        "workers = 2\n[log]\nlevel = \"INFO\"\n[forward]\n\".\" = [\"a\", \"192.0.2.1\", \"b\"]\n",
        r#"
1:1: the key `workers` is outside of any section (put it below the line [server])
5:8: "a" is not a server: it needs an address such as "192.0.2.1:53"
5:26: "b" is not a server: it needs an address such as "192.0.2.1:53"
"#,
    );
}

#[test]
fn invalid_rule_is_reported_with_its_place() {
    check(
        r#"[forward]
corp.example = ["10.0.0.53"]
"a.example" = { mode = "of" }
"b.example" = { mode = "off", servers = ["10.0.0.53"] }
"c.example" = { mode = "direct" }
"d.example" = { servers = [] }
"e.example" = { servers = ["ns1"], mode = "direct", modes = 1 }
"f.example" = "10.0.0.53"
"g.Example." = { mode = "off" }
"g.example" = { mode = "off" }
"#,
        r#"
2:1: expected an array of addresses, or a table with `servers` QUOTES
3:15: a rule of [forward] needs the key `servers`
3:24: expected "cache", "direct", "off" or "local", found the text "of"
4:41: `servers` is not asked in this mode (take it out)
5:15: a rule of [forward] needs the key `servers`
6:27: 1 to 16 servers, not 0
7:28: "ns1" is not a server: it needs an address such as "192.0.2.1:53"
7:53: unknown key `modes` in a rule of [forward] (did you mean `mode`?)
8:15: expected an array of addresses, found the text "10.0.0.53" BRACKETS
10:15: names below `g.example` are already forwarded
"#
        .replace("QUOTES", "(a name with dots has quotes: \"corp.…\" = [\"…\"])")
        .replace("BRACKETS", "(put it in brackets: \"f.example\" = [\"192.0.2.1\"])")
        .as_str(),
    );
}

#[test]
fn hosts_files_are_named_once_and_relative_to_the_config() {
    let text = "hosts.files = [\"hosts\", \"/etc/hosts\"]\nhosts.ttl = \"5m\"";
    let hosts = Config::parse(Path::new("etc/dunlin.toml"), text).expect("a config").hosts;
    assert_eq!(hosts.files, [Path::new("etc/hosts"), Path::new("/etc/hosts")]);
    assert_eq!(hosts.ttl.as_secs(), 300);
    check(
        "hosts.files = [\"a\", \"b\", \"a\", \"\"]\nhosts.ttl = \"30d\"",
        "1:15: `files` names a file twice (remove one of them)
         1:31: expected the path of a file, found the text \"\"
         2:13: expected a duration such as \"250ms\", \"10s\", \"5m\" or \"1h\", \
         found the text \"30d\"",
    );
}

#[test]
fn invalid_rewrite_rule_is_reported_with_its_place() {
    let text = "[[rewrite]]\nsuffix = \"Old.example\"\nto = \"new.example.\"\n\
                [[rewrite]]\nexact = \"old.example\"\nto = \"www.example\"\n";
    let rules = Config::parse(Path::new("f"), text).expect("a config").rewrites;
    let told: Vec<_> =
        rules.iter().map(|rule| (rule.to.as_name().to_string(), rule.exact)).collect();
    assert_eq!(told, [("new.example.".to_owned(), false), ("www.example.".to_owned(), true)]);
    check(
        r#"
[[rewrite]]
exact = "a.example"
suffix = "b.example"
to = "c.example"
[[rewrite]]
to = "a..b"
form = "a"
[[rewrite]]
suffix = "d.example"
[[rewrite]]
suffix = "D.example."
to = "d.example"
"#,
        r#"
4:10: `suffix` stands beside `exact` (make two rules of them)
6:1: [[rewrite]] needs the key `exact` or `suffix`
8:1: unknown key `form` in [[rewrite]] (expected one of exact, suffix, to)
9:1: [[rewrite]] needs the key `to`
12:10: this name is already named in line 10 (remove one of them)
13:6: `to` is the same name (name another, or take the rule out)
"#,
    );
}

#[test]
fn renamed_key_names_the_new_one() {
    check(
        "[log.rooms]\ntap = \"debug\"\n",
        "\n1:6: unknown key `rooms` in [log] (its name is now `levels`)\n",
    );
}

/// A crate that logs must be listed to have its own level.
#[test]
fn every_crate_that_logs_has_a_level() {
    let control = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let logs = |folder: &Path| {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        manifest.lines().any(|line| line.starts_with("tracing.") || line.starts_with("tracing ="))
    };
    let crates = std::fs::read_dir(control).expect("crates").map(|entry| entry.expect("a crate"));
    let mut names: Vec<String> = crates
        .filter(|entry| logs(&entry.path()))
        .map(|entry| entry.file_name().into_string().expect("UTF-8"))
        .collect();
    names.sort();
    assert_eq!(names, Level::PARTS);
}

#[test]
fn examples_of_a_fleet_are_valid() {
    for role in ["api", "dns", "health", "kubernetes"] {
        let file = format!("{role}.toml");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/etcd");
        let config = Config::load(Some(&folder.join(&file)));
        let config = config.unwrap_or_else(|errors| panic!("{file}: {}", errors[0]));
        assert_eq!(config.server.roles.words(), [role], "{file}");
        assert_eq!(config.store.kind, StoreKind::Etcd, "{file}");
    }
}

#[test]
fn config_of_another_server_is_named() {
    for (text, expected) in [
        ("options {\n  directory \"/var/cache/bind\";\n};\n", "named.conf"),
        ("// a comment\nzone \"example.org\" IN {\n  type primary;\n};\n", "named.conf"),
        ("# a comment\nserver:\n  interface: 0.0.0.0\n", "unbound.conf"),
        (".:53 {\n  errors\n  forward . 192.0.2.1\n}\n", "dunlin import corefile"),
        ("example.org {\n  file example.org.zone\n}\n", "dunlin import corefile"),
    ] {
        let errors = Config::parse(Path::new("f"), text).expect_err(text);
        let [error] = &errors[..] else { panic!("{errors:?}") };
        assert!(error.to_string().contains(expected), "{error}");
    }
    let errors = Config::parse(Path::new("f"), "[server\n").expect_err("a bracket is missing");
    assert!(!errors[0].to_string().contains("is a "), "{}", errors[0]);
}
