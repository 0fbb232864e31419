//! Measures how long a zone's copy takes to write, compare and read: `save FILE ORIGIN FOLDER`.
use image::HashKey;
use source_file::{load, saved};
use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use wire::{Name, NameBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [file, origin, folder] = &words[..] else { return Err("save FILE ORIGIN FOLDER".into()) };
    let origin = NameBuf::from_text(origin.as_bytes(), Name::ROOT)?;
    let key = Arc::new(HashKey::new(std::array::from_fn(|n| n as u64 * 77 + 5)));
    let folder = Path::new(folder);
    let (zone, summary) = load(Path::new(file), origin.as_name(), &key, None)?;
    let resident = || -> std::io::Result<String> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        Ok(status.lines().filter(|line| line.starts_with("VmHWM")).collect())
    };
    println!("{} records, {}", summary.records, resident()?);
    let began = Instant::now();
    let path = saved::path(folder, origin.as_name());
    let mut out = File::create(&path)?;
    saved::write(&zone, None, &mut out)?;
    out.sync_all()?;
    let bytes = path.metadata()?.len();
    println!("written: {bytes} bytes, {:?}, {}", began.elapsed(), resident()?);
    let began = Instant::now();
    println!(
        "compared: {}, {:?}, {}",
        saved::is_current(folder, &zone),
        began.elapsed(),
        resident()?
    );
    drop(zone);
    let began = Instant::now();
    let read = saved::read(folder, origin.as_name(), &key)?;
    println!("read: {:?} records, {:?}", read.map(|(_, records)| records), began.elapsed());
    Ok(())
}
