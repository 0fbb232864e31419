//! Compiles the programs so that the same sources give the same bytes in any folder.
use super::{About, Arch, PROGRAMS, run};
use crate::repository::{cargo, target_folder};
use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What separates flags in `CARGO_ENCODED_RUSTFLAGS`.
const SEPARATOR: &str = "\u{1f}";

/// Compiles the programs for an architecture; returns their folder.
///
/// # Errors
/// Cargo fails; it has said why.
pub fn compile(root: &Path, about: &About, arch: Arch) -> io::Result<PathBuf> {
    let target = arch.target();
    let cargo_home = env::var_os("CARGO_HOME")
        .map_or_else(|| env::home_dir().unwrap_or_default().join(".cargo"), PathBuf::from);
    // Paths of this machine, as they stand in places of panics.
    let places = [(root, "/src"), (&cargo_home, "/cargo")];
    let renamed = |flag: &str| places.map(|(from, to)| format!("{flag}={}={to}", from.display()));
    let (compiler, archiver) = c_tools(arch);
    let variable = target.replace('-', "_");
    let linker = format!("CARGO_TARGET_{}_LINKER", variable.to_uppercase());
    let mut cargo = cargo();
    cargo
        .current_dir(root)
        .args(["build", "--locked", "--profile", "dist", "--target", &target])
        .args(PROGRAMS.iter().flat_map(|program| ["--package", program]))
        .env("CARGO_ENCODED_RUSTFLAGS", renamed("--remap-path-prefix").join(SEPARATOR))
        .env(format!("CC_{variable}"), &compiler)
        .env(format!("AR_{variable}"), archiver)
        .env(format!("CFLAGS_{variable}"), renamed("-ffile-prefix-map").join(" "))
        .env("SOURCE_DATE_EPOCH", about.time.to_string())
        .env("DUNLIN_COMMIT", &about.commit);
    if !arch.is_here() {
        cargo.env(linker, compiler);
    }
    run(&mut cargo)?;
    Ok(target_folder(root).join(target).join("dist"))
}

/// The C compiler and the archiver for musl (Debian: musl-tools, gcc-aarch64-linux-gnu or
/// gcc-x86-64-linux-gnu). The compiler of another architecture also links: Rust brings musl.
fn c_tools(arch: Arch) -> (String, String) {
    let other = |tool: &str| format!("{}-linux-gnu-{tool}", arch.machine());
    match arch.is_here() {
        true => ("musl-gcc".into(), "ar".into()),
        false => (other("gcc"), other("ar")),
    }
}

/// The crates of both programs, as `sbom` reads them.
///
/// # Errors
/// Cargo fails.
pub fn tree(root: &Path, arch: Arch) -> io::Result<String> {
    let mut tree = cargo();
    tree.current_dir(root)
        .args(["tree", "--locked", "--prefix", "depth", "--edges", "normal,no-proc-macro"])
        .args(["--format", super::sbom::FORMAT, "--target", &arch.target()])
        .args(PROGRAMS.iter().flat_map(|program| ["--package", program]));
    run(&mut tree)
}

/// The version of the compiler, such as `1.95.0`.
///
/// # Errors
/// There is none.
pub fn rustc_version(root: &Path) -> io::Result<String> {
    let said = run(Command::new("rustc").current_dir(root).arg("--version"))?;
    Ok(said.split(' ').nth(1).unwrap_or_default().to_owned())
}

/// Makes the Debian package of a program. `native` is the same program for this machine, which
/// writes its manual and its completions.
///
/// # Errors
/// The package cannot be made; `packaging/deb/build` has said why.
pub fn package(
    root: &Path,
    arch: Arch,
    program: &Path,
    native: &Path,
    to: &Path,
) -> io::Result<()> {
    let mut build = Command::new(root.join("packaging/deb/build"));
    run(build.arg(program).arg(to).arg(arch.machine()).arg(native)).map(drop)
}
