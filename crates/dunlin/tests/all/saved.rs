//! Saved copies of zones, for an operator and a client.
use crate::served::{HEAD, NOERROR, SERVFAIL, Served, rcode, zone};
use std::fs;
use std::path::Path;

#[test]
fn restart_without_the_file_answers_from_the_copy() {
    let data = Path::new(env!("CARGO_TARGET_TMPDIR")).join("restart_data");
    let _ = fs::remove_dir_all(&data);
    let config =
        format!("data_dir = \"{}\"\n{}{}", data.display(), zone("good.test"), zone("never.test"));
    let mut served = Served::start("restart", &config, &[("good.test.zone", HEAD)]);
    assert_eq!(rcode(&served.ask("ns.good.test")), NOERROR);
    served.end();
    drop(served);

    let served = Served::start("restart", &config, &[]);
    assert!(served.start.iter().any(|line| line.contains("served from the copy")));
    assert_eq!(rcode(&served.ask("ns.good.test")), NOERROR);
    assert_eq!(rcode(&served.ask("ns.never.test")), SERVFAIL, "what was never good has no copy");
    fs::write(served.folder.join("good.test.zone"), format!("{HEAD}www A 192.0.2.7\n"))
        .expect("a file");
    served.expect_address("www.good.test", [192, 0, 2, 7]);
    drop(served);

    let copy = data.join("zones/good.test.zone");
    let mut bytes = fs::read(&copy).expect("a copy");
    bytes[200] ^= 1;
    fs::write(&copy, bytes).expect("a file");
    let served = Served::start("restart", &config, &[]);
    assert!(served.start.iter().any(|line| line.contains("is cut off or damaged")));
    assert_eq!(rcode(&served.ask("ns.good.test")), SERVFAIL);
}
