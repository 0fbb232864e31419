//! Every seed and every former finding of the fuzz target `zone`, once more.
use std::fs;
use std::path::Path;

#[path = "../../../../testing/fuzz/checks/asking.rs"]
#[allow(dead_code, reason = "other targets use more of it")]
mod asking;
#[path = "../../../../testing/fuzz/checks/zone.rs"]
mod check;
#[path = "../../../../testing/fuzz/checks/reply.rs"]
#[allow(dead_code, reason = "other targets use more of it")]
mod reply;

#[test]
fn fuzz_corpus_passes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../testing/fuzz/corpus/zone");
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        check::check(&fs::read(&path).unwrap());
        seen += 1;
    }
    assert!(seen > 10, "the corpus is missing");
}
