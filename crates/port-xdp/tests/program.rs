//! The object of the program is what its source makes.
#[path = "../../../tests/skip.rs"]
mod skip;

use std::path::Path;
use std::process::Command;

#[test]
fn the_committed_object_is_what_clang_makes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("filter.o");
    match Command::new(folder.join("build")).arg(folder.join("filter.c")).arg(&built).output() {
        Ok(output) if output.status.success() => {
            let [built, committed] = [built, folder.join("filter.o")].map(std::fs::read);
            assert!(
                built.expect("it was built") == committed.expect("it is committed"),
                "bpf/filter.o is not what bpf/filter.c makes: run `make bpf`"
            );
        }
        other => {
            skip::skip(&format!("no clang and llvm-strip (Debian: clang, llvm): {other:?}"));
        }
    }
}
