//! Runs the fuzz target `zonefile` on its corpus.
use std::fs;
use std::path::Path;

#[path = "../../../../../testing/fuzz/checks/zonefile.rs"]
mod check;

#[test]
fn fuzz_corpus_passes() {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../testing/fuzz/corpus/zonefile");
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        check::check(&fs::read(&path).unwrap());
        seen += 1;
    }
    assert!(seen > 10, "the corpus is missing");
}
