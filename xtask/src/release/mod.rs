//! What a release consists of: `make release`. Docs: `docs/release.md`.
mod archive;
mod build;
mod chart;
mod image;
mod oci;
#[cfg(test)]
mod registry;
mod sbom;
mod sums;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The programs of a release; the image has the first.
const PROGRAMS: [&str; 2] = ["dunlin", "dunlin-lab"];

/// An architecture that releases are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arch {
    Amd64,
    Arm64,
}

impl Arch {
    const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// Its name in Debian and in OCI images.
    const fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Its name in Linux and in Rust.
    const fn machine(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    fn target(self) -> String {
        format!("{}-unknown-linux-musl", self.machine())
    }

    /// The number of the architecture in a program (ELF `e_machine`).
    const fn elf_machine(self) -> usize {
        match self {
            Self::Amd64 => 62,
            Self::Arm64 => 183,
        }
    }

    /// A platform of the OCI image specification.
    fn platform(self) -> Value {
        match self {
            Self::Amd64 => json!({ "architecture": self.name(), "os": "linux" }),
            Self::Arm64 => json!({ "architecture": self.name(), "os": "linux", "variant": "v8" }),
        }
    }

    /// Whether it is that of this machine.
    fn is_here(self) -> bool {
        self.machine() == env::consts::ARCH
    }

    fn read(name: &str) -> io::Result<Self> {
        Self::ALL.into_iter().find(|arch| arch.name() == name).ok_or_else(|| {
            io::Error::other(format!("expected the architecture amd64 or arm64, not `{name}`"))
        })
    }
}

/// What all parts of a release say about themselves.
struct About {
    version: String,
    /// What was built, by `git describe`.
    commit: String,
    /// When it was committed, in seconds since 1970: the time of all files.
    time: u64,
    /// The image's name without a tag.
    repository: String,
}

impl About {
    /// Reads the name of the image from the chart, and what `make` sets: `DUNLIN_COMMIT`,
    /// `SOURCE_DATE_EPOCH`, and another name in `DUNLIN_IMAGE`.
    fn read(root: &Path) -> io::Result<Self> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let values = fs::read_to_string(root.join("packaging/kubernetes/values.yaml"))?;
        let image = values.lines().find_map(|line| line.strip_prefix("image: "));
        let repository = image.and_then(|image| image.strip_suffix(&format!(":{version}")));
        // Empty in a source archive.
        let read = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let repository =
            read("DUNLIN_IMAGE").or(repository.map(str::to_owned)).ok_or_else(|| {
                io::Error::other(format!("values.yaml: expected `image: …:{version}`"))
            })?;
        let time = read("SOURCE_DATE_EPOCH").unwrap_or_else(|| "0".into());
        let time = time.parse().map_err(|_| {
            io::Error::other(format!("SOURCE_DATE_EPOCH: expected seconds, not `{time}`"))
        })?;
        let commit = read("DUNLIN_COMMIT").unwrap_or_else(|| "unknown".into());
        Ok(Self { version, commit, time, repository })
    }

    fn reference(&self) -> String {
        format!("{}:{}", self.repository, self.version)
    }

    /// `registry.example/org/charts/dunlin` for the image `registry.example/org/dunlin`.
    fn chart_repository(&self) -> String {
        let (above, name) = self.repository.rsplit_once('/').unwrap_or(("", &self.repository));
        format!("{above}/charts/{name}")
    }

    /// The time by RFC 3339.
    fn created(&self) -> String {
        let time = i64::try_from(self.time).ok().map(jiff::Timestamp::from_second);
        time.and_then(Result::ok).unwrap_or_default().to_string()
    }

    /// The annotations of the OCI image specification.
    fn annotations(&self) -> Value {
        json!({
            "org.opencontainers.image.title": "dunlin",
            "org.opencontainers.image.description": "DNS server for container fleets",
            "org.opencontainers.image.version": self.version,
            "org.opencontainers.image.revision": self.commit,
            "org.opencontainers.image.created": self.created(),
            "org.opencontainers.image.licenses": "Apache-2.0",
        })
    }
}

/// Writes an image of programs that are there, `ARCHITECTURE=PROGRAM`, to a file. With
/// `--libraries` it has the libraries of this machine: for tests of programs that are not static.
pub fn write_image(root: &Path, to: &str, words: &[&str]) -> io::Result<()> {
    let with_libraries = words.contains(&"--libraries");
    let mut programs = Vec::new();
    for word in words.iter().filter(|word| **word != "--libraries") {
        let (arch, program) = word.split_once('=').ok_or_else(|| {
            io::Error::other(format!("expected ARCHITECTURE=PROGRAM, not `{word}`"))
        })?;
        programs.push((Arch::read(arch)?, Path::new(program)));
    }
    let config = fs::read(root.join("examples/dunlin.toml"))?;
    let about = About::read(root)?;
    let image = image::make(&about, &config, &programs, with_libraries)?;
    fs::write(to, image.archive)?;
    println!("{}@{}", about.reference(), image.digest);
    Ok(())
}

/// Makes a release in a folder, for architectures such as `amd64,arm64`; signs it by a key.
pub fn make(root: &Path, to: &Path, archs: &str, key: Option<&Path>) -> io::Result<()> {
    let archs: Vec<Arch> = archs.split(',').map(Arch::read).collect::<io::Result<_>>()?;
    let native = archs.iter().position(|arch| arch.is_here()).ok_or_else(|| {
        let why = "its program writes the manual of all packages";
        io::Error::other(format!("name the architecture of this machine, too: {why}"))
    })?;
    let about = About::read(root)?;
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    let folders: Vec<PathBuf> =
        archs.iter().map(|arch| build::compile(root, &about, *arch)).collect::<io::Result<_>>()?;
    let built: Vec<(Arch, &Path)> = archs.into_iter().zip(folders.iter().map(|f| &**f)).collect();
    write_parts(root, to, &about, &built)?;
    for (arch, folder) in &built {
        write_bills(root, to, &about, *arch, folder)?;
        for program in PROGRAMS {
            let file = format!("{program}_{}-1_{}.deb", about.version, arch.name());
            let native = folders[native].join(program);
            build::package(root, *arch, &folder.join(program), &native, &to.join(file))?;
        }
    }
    sums::write(to)?;
    match key {
        Some(key) => sums::sign(to, key)?,
        None => eprintln!("not signed: name an SSH key by KEY=FILE"),
    }
    println!("{}", to.display());
    Ok(())
}

/// Writes the image and the chart of programs, and their digests.
fn write_parts(root: &Path, to: &Path, about: &About, built: &[(Arch, &Path)]) -> io::Result<()> {
    let version = &about.version;
    let programs: Vec<(Arch, PathBuf)> =
        built.iter().map(|(arch, folder)| (*arch, folder.join(PROGRAMS[0]))).collect();
    let programs: Vec<(Arch, &Path)> =
        programs.iter().map(|(arch, path)| (*arch, &**path)).collect();
    let config = fs::read(root.join("examples/dunlin.toml"))?;
    let image = image::make(about, &config, &programs, false)?;
    fs::write(to.join(format!("dunlin-{version}-image.tar")), image.archive)?;
    let chart = chart::make(about, &root.join("packaging/kubernetes"), &image.digest)?;
    fs::write(to.join(format!("dunlin-{version}.tgz")), chart.package)?;
    fs::write(to.join(format!("dunlin-{version}-chart.tar")), chart.archive)?;
    let (image_name, chart_name) = (about.reference(), about.chart_repository());
    let digests =
        format!("{image_name}@{}\n{chart_name}:{version}@{}\n", image.digest, chart.digest);
    fs::write(to.join(format!("dunlin-{version}-digests.txt")), digests)
}

/// Writes the bills of materials of the programs of an architecture.
fn write_bills(root: &Path, to: &Path, about: &About, arch: Arch, folder: &Path) -> io::Result<()> {
    let tree = build::tree(root, arch)?;
    let lock = fs::read_to_string(root.join("Cargo.lock"))?;
    let (target, rustc) = (arch.target(), build::rustc_version(root)?);
    for name in PROGRAMS {
        let bytes = fs::read(folder.join(name))?;
        let program = sbom::Program { name, target: &target, rustc: &rustc, bytes: &bytes };
        let bill = sbom::make(about, &program, &tree, &lock)?;
        let file = format!("{name}-{}-{}.cdx.json", about.version, arch.name());
        fs::write(to.join(file), format!("{bill:#}\n"))?;
    }
    Ok(())
}

/// Runs a command to its end; returns what it printed.
fn run(command: &mut Command) -> io::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| io::Error::other(format!("{name}: {error}")))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(io::Error::other(format!("{name}: {}", output.status))),
    }
}
