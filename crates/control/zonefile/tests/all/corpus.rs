//! Runs the fuzz target `zonefile` on its corpus.
#[path = "../../../../../testing/fuzz/checks/zonefile.rs"]
mod check;
#[path = "../../../../../testing/fuzz/checks/corpus.rs"]
mod seeds;

#[test]
fn fuzz_corpus_passes() {
    seeds::replay("zonefile", check::check);
    seeds::search("zonefile", check::check);
}
