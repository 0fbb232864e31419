//! How fast a master file is read:
//! `cargo run --release -p zonefile --example speed -- FILE ORIGIN`.
use std::error::Error;
use std::path::Path;
use std::time::Instant;

use wire::{Name, NameBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(file), Some(origin)) = (words.next(), words.next()) else {
        return Err("usage: speed FILE ORIGIN".into());
    };
    let origin = NameBuf::from_text(origin.as_bytes(), Name::ROOT)?;
    for _ in 0..5 {
        let start = Instant::now();
        let mut bytes = 0;
        let summary = zonefile::read(Path::new(&file), origin.as_name(), &mut |record| {
            bytes += record.owner.len() + record.rdata.len();
            Ok(())
        })?;
        let seconds = start.elapsed().as_secs_f64();
        let rate = summary.records as f64 / seconds / 1e6;
        println!("{} records ({bytes} bytes) in {seconds:.3} s: {rate:.2} M/s", summary.records);
    }
    Ok(())
}
