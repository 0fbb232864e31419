//! `dunlin-lab reproduce` on the two-host bench.

use crate::common::{change_settings, lab, missing, said, to_its_end};
use std::fs;
use test_support::folder::Folder;
use test_support::skip;

/// The shortest reproduction, with both CPUs for the servers, so that no step is left out for them.
#[test]
fn a_reproduction_restores_settings_and_its_report_verifies() {
    if let Some(missing) = missing() {
        return skip::skip(&missing);
    }
    let _settings = change_settings();
    let folder = Folder::new("reproduce");
    let (bundle, page) = (folder.join("isc.json"), folder.join("isc.md"));
    let buffers = || fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap();
    let before = buffers();
    let mut command = lab(&["reproduce", "isc-2015", "--quick", "-l", "100ms", "--runs", "1"]);
    command.args(["--server-cpus", "0-1", "--client-cpus", "1"]);
    command.arg("--bundle").arg(&bundle).arg("--markdown").arg(&page);
    let output = to_its_end(command);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(buffers(), before);

    let value: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&bundle).unwrap()).unwrap();
    let study = &value["body"]["study"];
    let keys: Vec<_> =
        study["steps"].as_array().unwrap().iter().map(|step| step["key"].clone()).collect();
    let order = [
        "default-client",
        "shared-socket",
        "client-search",
        "tuned-client",
        "one-receive-core",
        "each-core",
        "pairs",
        "larger-sets",
        "models",
    ];
    assert_eq!(keys, order);
    let findings = study["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 8);
    let text = fs::read_to_string(&page).unwrap();
    for finding in findings {
        assert!(!finding["because"].as_str().unwrap().is_empty(), "{finding}");
        assert!(text.contains(finding["claim"].as_str().unwrap()), "{finding}");
    }
    let verified =
        lab(&["verify"]).arg(&bundle).arg(bundle.with_extension("html")).output().unwrap();
    assert!(verified.status.success(), "{}", said(&verified));
}

#[test]
fn an_unknown_study_is_refused_with_the_known_names() {
    let output = lab(&["reproduce", "isc-2016"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("isc-2015, bind-2008, kdns, heretic-2019"), "{}", said(&output));
}
