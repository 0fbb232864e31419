//! Every seed and every former finding of the fuzz target `query`, once more.
use std::fs;
use std::path::Path;

#[path = "../../../../../testing/fuzz/checks/query.rs"]
mod check;

#[test]
fn fuzz_corpus_passes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../testing/fuzz/corpus/query");
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        check::check(&fs::read(&path).unwrap());
        seen += 1;
    }
    assert!(seen > 10, "the corpus is missing");
}
