//! `dunlin-lab fabric` and `reproduce heretic-2019`.

use crate::common::{hold_settings, lab, said, to_its_end};
use std::fs;
use std::process::Command;
use test_support::folder::Folder;
use test_support::skip;

/// All classes and ways, for a moment each.
#[test]
fn fabric_measures_each_way_and_its_report_verifies() {
    if !rustix::process::geteuid().is_root() {
        return skip::skip("network namespaces need root");
    }
    let _settings = hold_settings();
    let folder = Folder::new("fabric");
    let (bundle, page) = (folder.join("fabric.json"), folder.join("fabric.md"));
    let mut command = lab(&["reproduce", "heretic-2019", "--quick", "-l", "100ms"]);
    command.arg("--bundle").arg(&bundle).arg("--markdown").arg(&page);
    let output = to_its_end(command);
    assert!(output.status.success(), "{}", said(&output));
    let text = fs::read_to_string(&page).unwrap();
    for what in ["same CPU", "other socket", "| 16 |", "134,184,962", "same process", "namespace"] {
        assert!(text.contains(what), "{what}: {text}");
    }
    let value: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&bundle).unwrap()).unwrap();
    let study = &value["body"]["fabric"];
    let classes = study["classes"].as_array().unwrap();
    let present = classes.iter().filter(|class| !class["cpus"].is_null()).count();
    assert_eq!(classes.len(), 6);
    assert_eq!(study["cells"].as_array().unwrap().len(), present * 6);
    for cell in study["cells"].as_array().unwrap() {
        let times = cell["runs"][0]["pages"].as_array().unwrap();
        let packets = cell["runs"][0]["packets"]["units"].as_u64();
        assert!(!times.is_empty() && packets > Some(0), "{cell}");
    }
    let verified =
        lab(&["verify"]).arg(&bundle).arg(bundle.with_extension("html")).output().unwrap();
    assert!(verified.status.success(), "{}", said(&verified));
    let spaces = Command::new("ip").args(["netns", "list"]).output().unwrap();
    assert!(!said(&spaces).contains("dunlin-fabric-"), "{}", said(&spaces));
}

#[test]
fn fewer_replicas_than_survive_a_fault_are_refused() {
    let output = lab(&["fabric", "--replicas", "3"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("4 are the fewest"), "{}", said(&output));
}
