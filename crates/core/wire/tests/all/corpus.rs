//! Every seed and every former finding of the fuzz target `query`, once more.
#[path = "../../../../../testing/fuzz/checks/query.rs"]
mod check;
#[path = "../../../../../testing/fuzz/checks/corpus.rs"]
mod seeds;

#[test]
fn fuzz_corpus_passes() {
    seeds::replay("query", check::check);
    seeds::search("query", check::check);
}
