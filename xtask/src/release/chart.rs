//! The Helm chart, as a file and as an OCI artifact.
use super::About;
use super::archive::{Tree, add_file, gzip, tar};
use super::oci::{Layout, MANIFEST};
use serde_json::{Map, Value, json};
use std::fs;
use std::io;
use std::path::Path;

const CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const CONTENT: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// A finished chart.
pub struct Chart {
    /// The file that `helm install` takes.
    pub package: Vec<u8>,
    /// An archive of a layout with the same as an artifact.
    pub archive: Vec<u8>,
    /// What names it in a registry: `sha256:…`.
    pub digest: String,
}

/// Makes the chart of a folder, without what its `.helmignore` names. Its image has a digest.
///
/// # Errors
/// A file cannot be read; the chart has another version than the programs.
pub fn make(about: &About, folder: &Path, image_digest: &str) -> io::Result<Chart> {
    let read = |file: &str| {
        let path = folder.join(file);
        fs::read_to_string(&path)
            .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))
    };
    let about_chart = flat_yaml(&read("Chart.yaml")?);
    for key in ["version", "appVersion"] {
        if about_chart.get(key).and_then(Value::as_str) != Some(&about.version) {
            let file = folder.join("Chart.yaml");
            let (file, version) = (file.display(), &about.version);
            return Err(io::Error::other(format!("{file}: `{key}` is not {version}")));
        }
    }
    let ignored = read(".helmignore")?;
    let mut files = Tree::new();
    collect(folder, "", &ignored, &mut files)?;
    let by_digest = format!("image: {}@{image_digest}", about.reference());
    let values = read("values.yaml")?;
    let lines = values.lines().map(|line| match line.starts_with("image: ") {
        true => format!("{by_digest}\n"),
        false => format!("{line}\n"),
    });
    add_file(&mut files, "dunlin/values.yaml", 0o644, lines.collect::<String>().into_bytes());
    let package = gzip(&tar(&files, about.time)?)?;

    let mut layout = Layout::default();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": layout.add_json(CONFIG, &Value::Object(about_chart)),
        "layers": [layout.add(CONTENT, package.clone())],
        "annotations": about.annotations(),
    });
    let manifest = layout.add_json(MANIFEST, &manifest);
    let name = format!("{}:{}", about.chart_repository(), about.version);
    let archive = layout.archive(&manifest, &name, about.time)?;
    let digest = manifest["digest"].as_str().unwrap_or_default().to_owned();
    Ok(Chart { package, archive, digest })
}

/// Adds the files below `folder/path` that no line of `ignored` is: a file, or a folder with a
/// slash.
fn collect(folder: &Path, path: &str, ignored: &str, files: &mut Tree) -> io::Result<()> {
    for entry in fs::read_dir(folder.join(path))? {
        let entry = entry?;
        let is_folder = entry.file_type()?.is_dir();
        let slash = if is_folder { "/" } else { "" };
        let name = format!("{path}{}{slash}", entry.file_name().to_string_lossy());
        if ignored.lines().any(|line| line == name) {
            continue;
        }
        match is_folder {
            true => collect(folder, &name, ignored, files)?,
            false => add_file(files, &format!("dunlin/{name}"), 0o644, fs::read(entry.path())?),
        }
    }
    Ok(())
}

/// The keys of `Chart.yaml`, which has one on each line.
fn flat_yaml(text: &str) -> Map<String, Value> {
    let pairs = text.lines().filter_map(|line| line.split_once(": "));
    pairs.map(|(key, value)| (key.into(), value.trim_matches('"').into())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::about;
    use super::*;

    fn folder() -> std::path::PathBuf {
        crate::root().join("packaging/kubernetes")
    }

    #[test]
    fn chart_made_twice_is_equal_and_names_the_image_by_digest() {
        let about = || About { repository: "registry.example/dns/dunlin".into(), ..about() };
        let make = || make(&about(), &folder(), "sha256:0123").expect("a chart");
        let (first, second) = (make(), make());
        assert_eq!(first.package, second.package);
        assert_eq!((&first.digest, &first.archive), (&second.digest, &second.archive));
        let package = std::env::temp_dir().join(format!("dunlin-chart-{}", std::process::id()));
        fs::write(&package, first.package).expect("a file");
        let mut read = std::process::Command::new("tar");
        read.args(["--to-stdout", "-xzf"]).arg(&package).arg("dunlin/values.yaml");
        let values = read.output().expect("tar").stdout;
        let names = std::process::Command::new("tar").arg("-tf").arg(&package).output();
        fs::remove_file(&package).expect("a file of ours");
        let expected = format!("\nimage: {}@sha256:0123\n", about().reference());
        assert!(String::from_utf8_lossy(&values).contains(&expected), "{values:?}");
        let names = String::from_utf8_lossy(&names.expect("tar").stdout).into_owned();
        for name in ["Chart.yaml", "values.schema.json", "templates/all.yaml", "dunlin-scale.yaml"]
        {
            assert!(names.lines().any(|line| line == format!("dunlin/{name}")), "{name}: {names}");
        }
        assert!(!names.contains("fleet") && !names.contains("overlays"), "{names}");
    }

    #[test]
    fn chart_of_another_version_is_refused() {
        let other = About { version: "9.9.9".into(), ..about() };
        let error = make(&other, &folder(), "sha256:0123").err().expect("refused").to_string();
        assert!(error.ends_with("Chart.yaml: `version` is not 9.9.9"), "{error}");
    }

    /// One name, so that one change moves all to another registry.
    #[test]
    fn every_manifest_names_the_image_of_the_release() {
        let mut files = Tree::new();
        collect(&folder(), "", "templates/\n", &mut files).expect("files");
        let mut count = 0;
        for (path, entry) in &files {
            let text = String::from_utf8_lossy(entry.content.as_deref().unwrap_or_default());
            for line in text.lines().filter_map(|line| line.trim_start().strip_prefix("image: ")) {
                if line.contains("dunlin") {
                    assert_eq!(line, about().reference(), "{path}");
                    count += 1;
                }
            }
        }
        assert_eq!(count, 8, "manifests with an image of Dunlin, and values.yaml");
    }
}
