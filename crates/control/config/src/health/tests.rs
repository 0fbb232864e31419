use crate::Config;
use crate::tests::check;
use std::path::Path;
use std::time::Duration;

#[test]
fn checks_are_read_with_their_defaults() {
    let text = "[check.web]\nkind = \"https\"\nport = 443\nstatus = 204\nca = \"ca.pem\"\n\
                [check.db]\nkind = \"tcp\"\nport = 5432\ninterval = \"1s\"";
    let config = Config::parse(Path::new("/etc/dunlin/dunlin.toml"), text).expect("a config");
    let checks = format!("{:?}", config.health.checks);
    assert!(checks.contains("status: [204..=204]"), "{checks}");
    assert!(checks.contains("ca: Some(\"/etc/dunlin/ca.pem\")"), "{checks}");
    let db = config.health.checks.iter().find(|check| check.name == "db").expect("it is there");
    assert_eq!((db.timeout, db.rise, db.fall), (Duration::from_secs(1), 2, 3));
}

#[test]
fn wrong_checks_are_reported_with_their_place() {
    check(
        "[check]\n\"a b\" = { kind = \"tcp\", port = 1 }\nc = { kind = \"tcp\" }\n\
         d = { kind = \"http\", port = 0, path = \"x\" }\n\
         e = { kind = \"tcp\", port = 1, timeout = \"9s\", interval = \"3s\", path = \"/\" }",
        "2:9: \"a b\" is not a name of a check (up to 63 letters, digits, `-` and `_`)
         3:5: a check of [check] needs the key `port`
         4:29: expected a number from 1 to 65535, found the number 0
         4:39: \"x\" is not the path of a request \
         (begin with `/`, and encode spaces and other letters as %20)
         5:41: `timeout` is longer than `interval` (choose a shorter one)
         5:64: unknown key `path` in a check of [check] \
         (expected one of kind, port, interval, timeout, rise, fall, jitter)",
    );
}

#[test]
fn each_kind_of_check_has_its_keys() {
    let text = r#"
        [check]
        d = { kind = "dns", name = "WWW.example.org.", rcode = "refused" }
        g = { kind = "grpc", port = 50051, service = "pay.v1.Payments" }
        i = { kind = "icmp" }
        s = { kind = "script", command = ["/bin/check", "{address}"], user = "checker" }
        t = { kind = "grpc", port = 443, tls = true, ca = "ca.pem", expiry_warning = "1h" }
    "#;
    let config = Config::parse(Path::new("/etc/dunlin/dunlin.toml"), text).expect("a config");
    let told =
        config.health.checks.iter().map(|check| {
            format!("{} {} {:?}", check.kind_word(), check.port, check.tls().is_some())
        });
    let told: Vec<_> = told.collect();
    let expected =
        ["dns 53 false", "grpc 50051 false", "icmp 0 false", "script 0 false", "grpc 443 true"];
    assert_eq!(told, expected);
}

#[test]
fn wrong_keys_of_a_kind_are_reported_with_their_place() {
    check(
        "[check]\nd = { kind = \"dns\", type = \"AA\" }\ni = { kind = \"icmp\", port = 7 }\n\
         s = { kind = \"script\", command = [\"bin/check\"], user = \"checker\" }\n\
         u = { kind = \"script\" }\ng = { kind = \"grpc\", port = 1, sni = \"x\" }",
        "2:5: a check of [check] needs the key `name`
         2:28: expected a type of records such as \"A\" or \"SOA\", found the text \"AA\"
         3:22: unknown key `port` in a check of [check] \
         (expected one of kind, interval, timeout, rise, fall, jitter)
         4:34: `command` does not begin with the absolute path of a program \
         (there is no shell: [\"/usr/local/bin/check-web\", \"{address}\", \"{port}\"])
         5:5: a check of [check] needs the key `command`
         5:5: a check of [check] needs the key `user`
         6:32: unknown key `sni` in a check of [check] (expected one of kind, port, interval, \
         timeout, rise, fall, jitter, tls, service, host)",
    );
}

#[test]
fn keys_of_a_check_give_the_same_check() {
    let text = r#"
        [check]
        a = { kind = "tcp", port = 80, interval = "1500ms", timeout = "1s", jitter = 0 }
        b = { kind = "https", port = 443, status = [204, "300-399, 404"], sni = "x" }
        c = { kind = "grpc", port = 50051, service = "pay.v1.Payments", tls = true }
        d = { kind = "dns", name = "www.example.org", type = "SOA", rcode = "REFUSED" }
        e = { kind = "icmp", rise = 9, fall = 1 }
        f = { kind = "http", port = 80, body = "a\"\u007f\\b" }
    "#;
    let config = Config::parse(Path::new("dunlin.toml"), text).expect("a config");
    for check in &config.health.checks {
        let read = super::read_check_keys(&check.name, &check.keys());
        assert_eq!(read.as_ref(), Ok(check), "{:?}", check.keys());
    }
}

#[test]
fn check_of_the_api_cannot_name_programs_or_files() {
    for (keys, why) in [
        (r#"{"kind":"script","command":["/bin/true"],"user":"x"}"#, "in the config only"),
        (r#"{"kind":"https","port":1,"ca":"/etc/passwd"}"#, "names a file of the server"),
        (r#"{"kind":"tcp","port":1,"x":"a\ny = 1"}"#, "unknown key `x`"),
        (r#"{"kind":"tcp","port":1,"x = 1\ny":1}"#, "is not a key of a check"),
        (r#"{"kind":"tcp","port":{"a":1}}"#, "are texts, numbers"),
        (r#"{"kind":"tcp","port":70000}"#, "from 1 to 65535"),
    ] {
        let keys = serde_json::from_str(keys).expect("an object");
        let told = super::read_check_keys("web", &keys).expect_err("it is refused");
        assert!(told.contains(why), "{told}");
    }
}

#[test]
fn webhook_needs_its_secret() {
    check("health.webhook = \"http://x\"", "1:1: [health] needs the key `webhook_secret`");
    check(
        "health.webhook_secret = \"s\"",
        "1:25: `webhook_secret` has no effect without `webhook` (add the URL)",
    );
    let text = "health = { webhook = \"https://x/y\", webhook_secret = \"s\" }";
    let config = Config::parse(Path::new("/etc/dunlin.toml"), text).expect("a config");
    let webhook = config.health.webhook.expect("it is there");
    assert_eq!(webhook.secret, Path::new("/etc/s"));
}
