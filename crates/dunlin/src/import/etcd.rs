//! `dunlin import etcd`: the keys of other servers in etcd become record sets.
use crate::cli::{EtcdLayout, ImportEtcd};
use import_etcd::{Layout, Source, fetch, import};
use std::error::Error;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

/// Writes the sets to standard output, and what is lost to standard error.
///
/// # Errors
/// The zone is no name, etcd cannot be read, or the output not be written.
pub fn run(command: &ImportEtcd) -> Result<ExitCode, Box<dyn Error>> {
    let layout = match command.layout {
        EtcdLayout::Skydns => Layout::SkyDns,
        EtcdLayout::Containerdns => Layout::ContainerDns,
        EtcdLayout::Kdns => Layout::Kdns,
    };
    let zone = zonefile::read_name(&command.zone)
        .map_err(|why| format!("--zone {:?} {why}", command.zone))?;
    let prefix = command.prefix.as_deref().unwrap_or(layout.prefix());
    let source = Source {
        endpoints: command.endpoints.clone(),
        ca: command.ca.clone(),
        identity: command.cert.clone().zip(command.key.clone()),
        user: command.user.clone().zip(command.password_file.clone()),
    };
    let entries = fetch(&source, prefix)?;
    let imported = import(&entries, layout, prefix, zone.as_name());
    let mut out = BufWriter::new(io::stdout().lock());
    for set in &imported.sets {
        serde_json::to_writer(&mut out, set)?;
        out.write_all(b"\n")?;
    }
    out.flush()?;
    let mut log = io::stderr().lock();
    for note in &imported.notes {
        writeln!(log, "{note}")?;
    }
    let lost = imported.notes.iter().filter(|note| note.is_lost).count();
    let (keys, sets, elsewhere) = (entries.len(), imported.sets.len(), imported.elsewhere);
    writeln!(
        log,
        "{keys} keys: {sets} record sets of {zone}; {elsewhere} keys of other zones, {lost} lost"
    )?;
    Ok(if lost == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
