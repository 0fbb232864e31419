//! What commands that write bundles share: the header, and the output file.
use crate::compare::machine;
use crate::manifest::software;
use lab_host::machine::Machine;
use lab_host::manifest::{Difference, Manifest, ManifestOptions, diff};
use lab_report::bundle::{Body, Bundle, Header};
use std::path::Path;

/// The words of this command, wherever its program is.
pub fn command() -> Vec<String> {
    ["dunlin-lab".to_owned()].into_iter().chain(std::env::args().skip(1)).collect()
}

/// The header of a bundle whose first run has not begun.
///
/// # Errors
/// The machine cannot be read.
pub fn header(title: &str, data: Vec<String>, seed: u64) -> Result<Header, String> {
    let manifest = Manifest::take(&Machine::this(), &ManifestOptions::default(), software())?;
    let mut remarks = Vec::new();
    if manifest.software.profile != "release" {
        remarks.push("Built without optimization: rates show that it works, nothing more".into());
    }
    Ok(Header {
        title: title.into(),
        date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        commands: vec![command()],
        data,
        seed,
        machine: machine(&manifest),
        manifest,
        changes: Vec::new(),
        remarks,
    })
}

/// Adds what has changed on the machine since the header was made.
///
/// # Errors
/// The machine cannot be read.
pub fn list_changes(header: &mut Header) -> Result<(), String> {
    let after = Manifest::take(&Machine::this(), &ManifestOptions::default(), software())?;
    let changed = diff(&header.manifest, &after);
    let matters = changed.iter().filter(|change| change.matters);
    header.changes = matters.map(change).collect();
    Ok(())
}

fn change(change: &Difference) -> String {
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "absent".into());
    format!("{}: {} became {}", change.path, value(&change.a), value(&change.b))
}

/// Writes a bundle, and its report beside it (`.html`). Says where.
///
/// # Errors
/// A file cannot be written.
pub fn write(
    path: &Path,
    header: Header,
    runs: Vec<lab::record::RunRecord>,
    body: Body,
) -> Result<(), String> {
    let text = Bundle::new(header, runs, body).to_text();
    // Read again: numbers in the report are those of the file.
    let bundle = Bundle::parse(&text)?;
    bundle.write(path)?;
    let page = path.with_extension("html");
    lab_report::bundle::write_file(&page, &lab_report::report(&bundle))?;
    println!("bundle {}, report {}", path.display(), page.display());
    Ok(())
}
