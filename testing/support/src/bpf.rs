//! Whether the committed objects of programs in the kernel are what their sources make.

use crate::skip;
use std::path::Path;
use std::process::Command;

/// Compiles a program and compares it with its committed object. `folder` has both.
///
/// # Panics
/// They differ.
pub fn expect_object(folder: &Path, source: &str, object: &str, flags: &[&str]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/kernel/bpf/bpf/build");
    let built = std::env::temp_dir().join(format!("dunlin-{}-{object}", std::process::id()));
    let mut build = Command::new(script);
    match build.arg(folder.join(source)).arg(&built).args(flags).output() {
        Ok(output) if output.status.success() => {
            let [made, committed] = [built.clone(), folder.join(object)].map(std::fs::read);
            let _ = std::fs::remove_file(&built);
            assert!(
                made.expect("it was built") == committed.expect("it is committed"),
                "{object} is not what {source} makes: run `make bpf`"
            );
        }
        other => skip::skip(&format!("no clang and llvm-strip (Debian: clang, llvm): {other:?}")),
    }
}
