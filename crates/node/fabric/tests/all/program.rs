//! The object of the programs is what its source makes.
use std::path::Path;

#[test]
fn the_committed_object_is_what_clang_makes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    test_support::bpf::expect_object(&folder, "fabric.c", "fabric.o", &[]);
}
