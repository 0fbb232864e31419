//! The zones that the config asks for, and the image before them.
use compile::Image;
use config::{Config, Forward, Mode, Secondary, Zone, ZoneCheck, ZoneView};
use image::{HASH_KEY_WORDS, HashKey};
use packet::View;
use source_file::{BuiltInZones, FilesToLoad, ViewFile, ZoneConfig, ZoneFile};
use source_transfer::{SecondarySettings, TlsFiles};
use std::collections::HashMap;
use std::sync::Arc;
use zone_manager::DefaultCheck;

/// The zone files, hosts files and built-in zones of a config. `views`: the numbers of its views.
pub fn configured(config: &Config, views: &HashMap<String, View>) -> ZoneConfig {
    let suffixes = |is_local: bool| {
        let is_it = move |rule: &&Forward| (rule.mode == Mode::Local) == is_local;
        config.forwards.iter().filter(is_it).map(|rule| rule.suffix.clone()).collect()
    };
    let file = |zone: &Zone| {
        let of_view =
            |of: &ZoneView| Some(ViewFile { view: *views.get(&of.view)?, file: of.file.clone() });
        let views = zone.views.iter().filter_map(of_view).collect();
        ZoneFile { origin: zone.name.clone(), file: zone.file.clone(), views }
    };
    let zones = config.zones.iter().map(file).collect();
    ZoneConfig {
        files: FilesToLoad { zones, hosts: config.hosts.files.clone() },
        built_in: BuiltInZones {
            by_default: config.server.local_zones,
            own: suffixes(true),
            others: suffixes(false),
        },
        hosts_ttl: config.hosts.ttl.as_secs() as u32,
        saved_for: config.server.saved_for,
    }
}

/// The checks of zones of a config.
pub fn checks(config: &Config) -> Vec<DefaultCheck> {
    let check = |ZoneCheck { zone, check, except }: &ZoneCheck| {
        DefaultCheck::new(zone.clone(), check, except)
    };
    config.zone_checks.iter().map(check).collect()
}

/// The zones of a config that come from primaries.
pub fn secondaries(config: &Config) -> Vec<SecondarySettings> {
    let tls = TlsFiles { ca: config.upstream.ca.clone(), own: config.transfer.tls.clone() };
    let settings = |of: &Secondary| {
        let Secondary { name, primaries, key_file, max_records } = of.clone();
        let primaries = primaries.into_iter().map(|primary| primary.address).collect();
        let (tls, records_max) = (tls.clone(), max_records);
        SecondarySettings { origin: name, primaries, tls, key_file, records_max }
    };
    config.secondaries.iter().map(settings).collect()
}

/// An image without zones, with a new key.
///
/// # Errors
/// The system has no randomness.
pub fn empty_image() -> Result<Image, getrandom::Error> {
    let mut words = [0; HASH_KEY_WORDS];
    for word in &mut words {
        *word = getrandom::u64()?;
    }
    Ok(Image::new(Arc::new(HashKey::new(words))))
}
