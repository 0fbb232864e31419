//! The zones of the config: the image they begin as, and what is done when one is loaded.
use crate::config::Zone;
use crate::local;
use compile::Image;
use control::Control;
use image::{HASH_KEY_WORDS, HashKey};
use source_file::ZoneFile;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use wire::NameBuf;

/// An image in which no configured zone is loaded yet: each answers SERVFAIL (invariant I10).
///
/// # Errors
/// When the system has no randomness to give.
pub fn first_image(zones: &[Zone], local_zones: bool) -> Result<Image, getrandom::Error> {
    let mut words = [0; HASH_KEY_WORDS];
    for word in &mut words {
        *word = getrandom::u64()?;
    }
    let key = Arc::new(HashKey::new(words));
    let mut image = Image::new(Arc::clone(&key));
    if local_zones {
        let configured: Vec<NameBuf> = zones.iter().map(|zone| zone.name.clone()).collect();
        local::zones(&key, &configured).into_iter().for_each(|zone| image.put_zone(zone.into()));
    }
    for zone in zones {
        let unloaded = compile::Zone::unloaded(Arc::clone(&key), zone.name.as_name());
        image.put_zone(unloaded.into());
    }
    Ok(image)
}

/// Loads a zone and waits until it is published; the old one stays when the file is bad. Returns
/// the files that had a part in it.
pub fn load(control: &Control, zone: &ZoneFile) -> Vec<PathBuf> {
    let origin = zone.origin.as_name();
    let began = Instant::now();
    let image = control.image();
    let old = image.zone(origin).filter(|old| old.facts().loaded);
    let loaded = source_file::load(&zone.file, origin, image.key(), old.map(|old| &**old));
    let had_old = old.is_some();
    // The old zone is not to be held by us as well while the new one is published.
    drop(image);
    match loaded {
        Ok((new, summary)) => {
            let (records, serial) = (summary.records, new.serial().unwrap_or_default());
            match control.put_zone(new) {
                Ok(ticket) => {
                    let generation = control.wait(ticket).unwrap_or_default();
                    let milliseconds = began.elapsed().as_millis() as u64;
                    let file = zone.file.display();
                    tracing::info!(zone = %origin, %file, records, serial, generation,
                        milliseconds, "zone loaded");
                }
                Err(error) => tracing::error!(zone = %origin, "zone not loaded: {error}"),
            }
            summary.files
        }
        Err(failure) => {
            for error in &failure.errors {
                tracing::error!(zone = %origin, "{error}");
            }
            let instead = match had_old {
                true => "the zone as it was goes on",
                false => "it answers SERVFAIL until its file is put right",
            };
            tracing::error!(zone = %origin, errors = failure.errors.len(),
                "zone file refused: {instead}");
            failure.files
        }
    }
}
