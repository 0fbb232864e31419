//! Every seed and every former finding of the fuzz target `zone`, once more.
use std::fs;
use std::path::Path;

#[path = "../../../fuzz/checks/zone.rs"]
mod check;

#[test]
fn the_fuzz_corpus_has_no_finding() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/zone");
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        check::check(&fs::read(&path).unwrap());
        seen += 1;
    }
    assert!(seen > 10, "the corpus is missing");
}
