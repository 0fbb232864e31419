//! The objects of the programs are what their sources make.
use test_support::skip;

use std::path::Path;
use std::process::Command;

/// A source, an object of it, and what that is built with.
const OBJECTS: [(&str, &str, &[&str]); 5] = [
    ("filter.c", "filter.o", &[]),
    ("dispatcher.c", "dispatcher-2.o", &["-DPROTOCOL=2"]),
    ("dispatcher.c", "dispatcher-2-frags.o", &["-DPROTOCOL=2", "-DFRAGS"]),
    ("dispatcher.c", "dispatcher-3.o", &["-DPROTOCOL=3"]),
    ("dispatcher.c", "dispatcher-3-frags.o", &["-DPROTOCOL=3", "-DFRAGS"]),
];

#[test]
fn the_committed_objects_are_what_clang_makes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    for (source, object, flags) in OBJECTS {
        let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join(object);
        let mut build = Command::new(folder.join("build"));
        match build.arg(folder.join(source)).arg(&built).args(flags).output() {
            Ok(output) if output.status.success() => {
                let [built, committed] = [built, folder.join(object)].map(std::fs::read);
                assert!(
                    built.expect("it was built") == committed.expect("it is committed"),
                    "bpf/{object} is not what bpf/{source} makes: run `make bpf`"
                );
            }
            other => {
                skip::skip(&format!("no clang and llvm-strip (Debian: clang, llvm): {other:?}"));
            }
        }
    }
}
