//! Every seed and every former finding of the fuzz targets `answer`, `forwarded`, `zone` and
//! `proxy`, once more.
use crate::{answered, forwarded, zones};

#[path = "../../../../../testing/fuzz/checks/proxy.rs"]
mod proxied;
#[path = "../../../../../testing/fuzz/checks/corpus.rs"]
mod seeds;

#[test]
fn fuzz_corpus_passes() {
    seeds::replay("answer", answered::check);
}

#[test]
fn fuzz_corpus_of_forwarded_names_passes() {
    seeds::replay("forwarded", forwarded::check);
}

#[test]
fn fuzz_corpus_of_zones_passes() {
    seeds::replay("zone", zones::check);
}

#[test]
fn mutated_responses_break_no_reply() {
    seeds::search("forwarded", forwarded::check);
}

#[test]
fn fuzz_corpus_of_proxy_headers_passes() {
    seeds::replay("proxy", proxied::check);
    seeds::search("proxy", proxied::check);
}
