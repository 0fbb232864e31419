//! The container image: for each architecture one static program and a config, on no base.
use super::archive::{Entry, Tree, add, add_file, gzip, tar};
use super::oci::{CONFIG, INDEX, LAYER, Layout, MANIFEST, sha256};
use super::{About, Arch};
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

/// User and group: numbers, which Kubernetes can check (`runAsNonRoot`).
const USER: u32 = 65_532;
/// Where the config lies; the manifests mount theirs over its folder.
const CONFIG_FILE: &str = "etc/dunlin/dunlin.toml";
/// The sockets, and the state. runc gives a tmpfs the mode of the folder it is mounted on, so that
/// everyone may write there.
const OWN_FOLDERS: [&str; 2] = ["run/dunlin", "var/lib/dunlin"];

/// A finished image.
pub struct Image {
    /// An archive of its layout.
    pub archive: Vec<u8>,
    /// What names it in a registry: `sha256:…`.
    pub digest: String,
}

/// Makes the image of programs, one for each architecture. `config` is its default config.
///
/// # Errors
/// A program is for another architecture; it needs libraries, and `with_libraries` is not set.
pub fn make(
    about: &About,
    config: &[u8],
    programs: &[(Arch, &Path)],
    with_libraries: bool,
) -> io::Result<Image> {
    let mut layout = Layout::default();
    let mut manifests = Vec::new();
    for (arch, path) in programs {
        let mut root = root(config);
        let told = |error: io::Error| io::Error::other(format!("{}: {error}", path.display()));
        let program = fs::read(path).map_err(told)?;
        check_program(&program, *arch, with_libraries).map_err(told)?;
        add_file(&mut root, "usr/bin/dunlin", 0o755, program);
        if with_libraries {
            add_libraries(&mut root, path)?;
        }
        manifests.push(add_platform(&mut layout, about, *arch, &root)?);
    }
    let index = json!({
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": manifests,
        "annotations": about.annotations(),
    });
    let index = layout.add_json(INDEX, &index);
    let archive = layout.archive(&index, &about.reference(), about.time)?;
    Ok(Image { archive, digest: index["digest"].as_str().unwrap_or_default().to_owned() })
}

/// The files beside the program.
fn root(config: &[u8]) -> Tree {
    let mut root = Tree::new();
    add_file(&mut root, CONFIG_FILE, 0o644, config.to_vec());
    for path in OWN_FOLDERS {
        add(&mut root, path, Entry { mode: 0o1777, owner: USER, content: None });
    }
    root
}

/// Adds the manifest of one architecture; returns its descriptor.
fn add_platform(layout: &mut Layout, about: &About, arch: Arch, root: &Tree) -> io::Result<Value> {
    let files = tar(root, about.time)?;
    let diff_id = format!("sha256:{}", sha256(&files));
    let layer = layout.add(LAYER, gzip(&files)?);
    let mut config = arch.platform();
    config["created"] = about.created().into();
    config["rootfs"] = json!({ "type": "layers", "diff_ids": [diff_id] });
    config["history"] = json!([{ "created": about.created(), "created_by": "cargo xtask image" }]);
    config["config"] = json!({
        "User": format!("{USER}:{USER}"),
        "WorkingDir": "/",
        "Entrypoint": ["/usr/bin/dunlin"],
        "Cmd": ["serve", "-c", format!("/{CONFIG_FILE}")],
        "ExposedPorts": { "53/udp": {}, "53/tcp": {}, "9153/tcp": {} },
        "Labels": about.annotations(),
    });
    let config = layout.add_json(CONFIG, &config);
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config,
        "layers": [layer],
        "annotations": about.annotations(),
    });
    let mut descriptor = layout.add_json(MANIFEST, &manifest);
    descriptor["platform"] = arch.platform();
    Ok(descriptor)
}

/// A program is of this architecture (ELF `e_machine`), and has no interpreter (`PT_INTERP`)
/// unless libraries come with it.
fn check_program(program: &[u8], arch: Arch, with_libraries: bool) -> io::Result<()> {
    let number = |at: usize, len: usize| {
        let bytes = program.get(at..at + len)?;
        Some(bytes.iter().rev().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte)))
    };
    let refuse = |why: String| Err(io::Error::other(why));
    // 64 bits, little endian
    if !program.starts_with(b"\x7fELF\x02\x01") {
        return refuse("expected a program of Linux (ELF, 64 bits)".into());
    }
    if number(18, 2) != Some(arch.elf_machine()) {
        return refuse(format!("this program is not for {}", arch.name()));
    }
    let (Some(headers), Some(size), Some(count)) = (number(32, 8), number(54, 2), number(56, 2))
    else {
        return refuse("the program is cut off".into());
    };
    let is_dynamic = (0..count).any(|n| number(headers + n * size, 4) == Some(3));
    match is_dynamic && !with_libraries {
        true => {
            refuse("it needs libraries, which the image does not have: build it for musl".into())
        }
        false => Ok(()),
    }
}

/// Adds the libraries that a program of this machine is linked with, so that tests run the program
/// that they have.
fn add_libraries(root: &mut Tree, program: &Path) -> io::Result<()> {
    let output = Command::new("ldd").arg(program).output()?;
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    for path in listed.split_whitespace().filter(|word| word.starts_with('/')) {
        add_file(root, path.trim_start_matches('/'), 0o755, fs::read(path)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{about, program};
    use super::*;
    use std::path::PathBuf;

    /// Programs of both architectures, in a folder that is removed with the value.
    fn programs(test: &str) -> (PathBuf, [(Arch, PathBuf); 2]) {
        let folder = std::env::temp_dir().join(format!("dunlin-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let files = [Arch::Amd64, Arch::Arm64].map(|arch| {
            let file = folder.join(arch.name());
            fs::write(&file, program(arch, false)).expect("a file");
            (arch, file)
        });
        (folder, files)
    }

    #[test]
    fn image_made_twice_is_equal_and_depends_on_its_input() {
        let (folder, files) = programs("image-twice");
        let files: Vec<_> = files.iter().map(|(arch, path)| (*arch, path.as_path())).collect();
        let make = |about: &About| make(about, b"[server]\n", &files, false).expect("an image");
        let (first, second) = (make(&about()), make(&about()));
        assert_eq!((&first.digest, &first.archive), (&second.digest, &second.archive));
        let later = make(&About { time: about().time + 1, ..about() });
        assert_ne!(first.digest, later.digest);
        fs::remove_dir_all(folder).expect("a folder of ours");
    }

    #[test]
    fn platform_has_user_command_and_one_layer_with_the_program() {
        let mut layout = Layout::default();
        let mut files = root(b"[server]\n");
        add_file(&mut files, "usr/bin/dunlin", 0o755, program(Arch::Arm64, false));
        let descriptor = add_platform(&mut layout, &about(), Arch::Arm64, &files).expect("fits");
        let platform = json!({ "architecture": "arm64", "os": "linux", "variant": "v8" });
        assert_eq!(
            (&descriptor["mediaType"], &descriptor["platform"]),
            (&json!(MANIFEST), &platform)
        );
        let read = |descriptor: &Value| -> Value {
            serde_json::from_slice(layout.read(descriptor)).expect("JSON")
        };
        let manifest = read(&descriptor);
        assert_eq!(manifest["layers"].as_array().map(Vec::len), Some(1));
        assert_eq!(manifest["layers"][0]["mediaType"], LAYER);
        assert_eq!(manifest["config"]["mediaType"], CONFIG);
        let config = read(&manifest["config"]);
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["config"]["Entrypoint"], json!(["/usr/bin/dunlin"]));
        let diff_id = format!("sha256:{}", sha256(&tar(&files, about().time).expect("fits")));
        assert_eq!(config["rootfs"]["diff_ids"], json!([diff_id]));
        assert_eq!(config["config"]["Labels"]["org.opencontainers.image.revision"], "0123456789ab");
    }

    #[test]
    fn program_of_another_architecture_or_with_libraries_is_refused() {
        let check = |bytes: &[u8], arch, with_libraries| {
            check_program(bytes, arch, with_libraries).map_err(|error| error.to_string())
        };
        let amd64 = program(Arch::Amd64, false);
        assert_eq!(check(&amd64, Arch::Amd64, false), Ok(()));
        assert_eq!(check(&amd64, Arch::Arm64, false), Err("this program is not for arm64".into()));
        let dynamic = program(Arch::Amd64, true);
        let error = check(&dynamic, Arch::Amd64, false).expect_err("it is dynamic");
        assert!(error.starts_with("it needs libraries"), "{error}");
        assert_eq!(check(&dynamic, Arch::Amd64, true), Ok(()));
        for cut in [&b"#!/bin/sh"[..], &amd64[..20], b""] {
            assert!(check(cut, Arch::Amd64, false).is_err(), "{cut:?}");
        }
    }
}
