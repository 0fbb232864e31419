//! Published figures: each page in `docs/benchmarks` is what its bundle in `docs/reports` gives.

use lab_report::{markdown, plots, report, verify};
use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of a bundle in the repository.
const BUNDLE_BYTES_MAX: usize = 1_000_000;

fn docs(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(folder)
}

/// Names of the files with this ending, without it.
fn names(folder: &Path, ending: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    let all = entries.map(|entry| name(entry.unwrap()));
    let mut all: Vec<String> =
        all.filter_map(|name| name.strip_suffix(ending).map(ToOwned::to_owned)).collect();
    all.sort();
    all
}

#[test]
fn every_benchmark_page_follows_from_a_bundle_in_the_repository() {
    let (pages, bundles) = (docs("benchmarks"), docs("reports"));
    let with_bundle = names(&bundles, ".json");
    assert!(!with_bundle.is_empty(), "no bundle in docs/reports");
    for name in &with_bundle {
        let text = fs::read_to_string(bundles.join(format!("{name}.json"))).unwrap();
        assert!(text.len() <= BUNDLE_BYTES_MAX, "{name}: {} bytes", text.len());
        let bundle = verify::verify(&text).unwrap_or_else(|why| panic!("{name}: {why}"));
        let is_absolute = |word: &&String| word.starts_with('/') || word.contains("=/");
        let path = bundle.header.commands.iter().flatten().find(is_absolute);
        assert_eq!(path, None, "{name}: a path of the machine that measured");
        let page = fs::read_to_string(pages.join(format!("{name}.md"))).unwrap_or_default();
        let remedy = format!(
            "dunlin-lab report docs/reports/{name}.json --out target/{name}.html --markdown \
             docs/benchmarks/{name}.md"
        );
        assert!(page == markdown(&bundle), "docs/benchmarks/{name}.md differs: `{remedy}`");
        for (file, plot) in plots(&bundle) {
            let drawn = fs::read_to_string(pages.join(&file)).unwrap_or_default();
            assert!(drawn == plot, "docs/benchmarks/{file} differs: `{remedy}`");
        }
        let html = report(&bundle);
        verify::verify(&html).unwrap_or_else(|why| panic!("report of {name}: {why}"));
    }
    let mut all = names(&pages, ".md");
    all.retain(|name| name != "README");
    assert_eq!(all, with_bundle, "pages and bundles");
}

/// The list of the pages names them, and holds no figure of its own.
#[test]
fn the_list_of_benchmark_pages_holds_no_figure() {
    let mut text = fs::read_to_string(docs("benchmarks/README.md")).unwrap();
    for name in names(&docs("reports"), ".json") {
        let link = format!("[{name}]({name}.md)");
        assert!(text.contains(&link), "README.md does not list {name}");
        text = text.replace(&link, "");
    }
    // Code names commands and files.
    let figure: String = text.split('`').step_by(2).collect();
    let figure = figure.split_whitespace().find(|word| word.contains(|c: char| c.is_ascii_digit()));
    assert_eq!(figure, None, "a figure in docs/benchmarks/README.md");
}
