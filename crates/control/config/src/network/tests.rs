use super::*;
use crate::Config;
use crate::tests::check;
use std::fs;

fn networks(text: &str) -> Vec<Network> {
    Config::parse(Path::new("f"), text).expect("a config").networks
}

#[test]
fn network_has_prefixes_and_names() {
    let [network] = &networks(
        r#"
[[network]]
name = "tenant-a"
prefixes = ["10.0.0.0/8", "2001:db8::/32", "192.0.2.1"]
deny = ["*", "Ads.Example"]
allow = ["*.corp.example"]
deny_answer = ["192.0.2.9", "2001:db8::9"]
"#,
    )[..] else {
        panic!("one network")
    };
    assert_eq!((network.name.as_str(), network.prefixes.len()), ("tenant-a", 3));
    let all = DENY.0 | DENY.below().0;
    let names: Vec<_> =
        network.names[0].iter().map(|(verdicts, name)| (verdicts.0, name)).collect();
    let expected: [(u8, &[u8]); 3] =
        [(all, b""), (DENY.0, b"\x03ads\x07example"), (ALLOW.below().0, b"\x04corp\x07example")];
    assert_eq!(names, expected);
    assert!(matches!(&network.deny_answer, DenyAnswer::Addresses(two) if two.len() == 2));
}

const DENY: NameVerdicts = NameVerdicts::DENY;
const ALLOW: NameVerdicts = NameVerdicts::ALLOW;

#[test]
fn errors_of_networks_have_their_places() {
    check(
        r#"[[network]]
name = "a"
prefixes = ["10.0.0.0/8", "10.0.0.1/8"]
[[network]]
name = "a"
prefixes = ["10.0.0.0/8"]
allow = ["x"]
[[network]]
name = "other"
prefixes = []
deny_answer = "refused"
[[network]]
prefixes = "10.0.0.0/8"
name = "b b"
deny = ["a..b"]
deny_answer = "no"
location = "eu//a"
[[network]]
name = "c"
"#,
        r#"
3:27: host bits are set in the text "10.0.0.1/8" (did you mean "10.0.0.0/8"?)
5:8: this network is already named in line 2 (remove one of them)
6:13: this prefix is already named in line 3 (remove one of them)
7:9: `allow` allows what is not denied (name what is denied: deny = ["*"])
9:8: the name "other" has a meaning of its own in metrics
10:12: `prefixes` needs one at least
11:15: `deny_answer` answers nothing (name what is denied: deny = ["…"])
13:12: expected an array of prefixes (put it in brackets: prefixes = ["10.0.0.0/8"])
14:8: expected a name of letters, digits, `-`, `_`, `.` and `/`, found the text "b b"
15:9: "a..b" is not a name: a label is empty
16:15: expected "nxdomain", "refused", or an address such as "192.0.2.1", found the text "no"
17:12: each level of a location has 1 to 63 letters, digits, `-`, `_` and `.`, such as "eu/fra1/a"
18:1: [[network]] needs the key `prefixes`
"#,
    );
}

/// The names of a file with this content, or its errors as printed.
fn file(content: &[u8]) -> Result<usize, String> {
    let path = std::env::temp_dir().join(format!("deny-{}-{}", std::process::id(), content.len()));
    fs::write(&path, content).expect("a file");
    let text = format!(
        "[[network]]\nname = \"a\"\nprefixes = [\"::/0\"]\ndeny_file = \"{}\"\n",
        path.display()
    );
    let read = Config::parse(Path::new("f"), &text);
    fs::remove_file(&path).expect("it was there");
    read.map(|config| config.networks[0].names[0].len).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        lines.join("\n").replace(&*path.to_string_lossy(), "FILE")
    })
}

#[test]
fn file_of_denied_names_is_read_completely_or_not_at_all() {
    assert_eq!(file(b"# ads\nads.example\n\n*.ads.example # and below\n"), Ok(2));
    assert_eq!(
        file(b"good.example\nbad..example\n\xff\n").unwrap_err(),
        "FILE:2:1: \"bad..example\" is not a name: a label is empty\nFILE:3:1: is not UTF-8"
    );
    let cut = file(b"good.example\nads.exam").unwrap_err();
    assert!(cut.starts_with("FILE: does not end with a newline"), "{cut}");
    assert!(file(b"").unwrap_err().starts_with("FILE: does not end with a newline"));
    let missing = "[[network]]\nname = \"a\"\nprefixes = [\"::/0\"]\ndeny_file = \"/none/x\"\n";
    let told = Config::parse(Path::new("f"), missing).expect_err("no file");
    assert!(told[0].to_string().starts_with("/none/x: cannot be read"), "{}", told[0]);
}

#[test]
fn pods_are_clients_by_namespace_and_label() {
    let cluster = "kubernetes.zones = [\"cluster.local\"]\n[[network]]\nname = \"a\"\n";
    let selects = |keys: &str, namespace: &str, labels: &[(&str, &str)]| {
        let [network] = &networks(&format!("{cluster}{keys}"))[..] else { panic!("one network") };
        let labels = labels.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        network.pods.selects(namespace, &labels.collect::<Vec<_>>())
    };
    let named = "namespaces = [\"pci-*\", \"bank\"]";
    assert!(selects(named, "pci-eu", &[]) && selects(named, "bank", &[]));
    assert!(!selects(named, "pci", &[]) && !selects(named, "banks", &[]));
    let labeled = "pod_labels = [\"tier=front\", \"app.kubernetes.io/name=web\"]";
    let (tier, app) = (("tier", "front"), ("app.kubernetes.io/name", "web"));
    assert!(selects(labeled, "any", &[app, tier]));
    assert!(!selects(labeled, "any", &[tier]) && !selects(labeled, "any", &[app, ("tier", "x")]));
    let both = format!("{named}\n{labeled}");
    assert!(selects(&both, "bank", &[app, tier]) && !selects(&both, "shop", &[app, tier]));
    assert!(!selects("prefixes = [\"10.0.0.0/8\"]", "bank", &[tier]));
}

#[test]
fn errors_of_pods_as_clients_say_what_to_write() {
    let wrong = |text: &str, expected: &str| {
        let told = Config::parse(Path::new("f"), text).expect_err(text);
        assert!(told.iter().any(|one| one.to_string().contains(expected)), "{told:#?}");
    };
    let cluster = "kubernetes.zones = [\"cluster.local\"]\n[[network]]\nname = \"a\"\n";
    wrong("[[network]]\nname = \"a\"\nnamespaces = [\"b\"]", "`namespaces` needs a cluster");
    wrong("[[network]]\nname = \"a\"\npod_labels = [\"b=c\"]", "`pod_labels` needs a cluster");
    wrong(&format!("{cluster}namespaces = [\"p*i\"]"), "is not the name of a namespace");
    wrong(&format!("{cluster}namespaces = [\"\"]"), "is not the name of a namespace");
    wrong(&format!("{cluster}pod_labels = [\"tier\"]"), "is not a label and its value");
    wrong(&format!("{cluster}pod_labels = [\"=x\"]"), "is not a label and its value");
}
