//! Every seed and every former finding of the fuzz targets `answer` and `zone`, once more.
use std::fs;
use std::path::Path;

#[path = "../../../fuzz/checks/answer.rs"]
mod answer_check;
#[path = "../../../fuzz/checks/zone.rs"]
mod zone_check;

fn replay(target: &str, check: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut seen = 0;
    for entry in fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        check(&fs::read(&path).unwrap());
        seen += 1;
    }
    assert!(seen > 10, "the corpus is missing");
}

#[test]
fn the_fuzz_corpus_has_no_finding() {
    replay("answer", answer_check::check);
    replay("zone", zone_check::check);
}
