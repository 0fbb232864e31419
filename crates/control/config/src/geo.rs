//! `[networks]`: where clients are, by files of MaxMind's form, and their autonomous systems.
//!
//! A file has a tree of prefixes. What is read of it is the addresses at which the location
//! changes, so neighbors with one location are one entry.
use crate::diagnostic::Diagnostic;
use crate::limits::{GEO_BOUNDS_MAX, GEO_FILE_LEN_MAX, GEO_LOCATIONS_MAX, NETWORK_PREFIXES_MAX};
use crate::section::Section;
use crate::values::{self, Wrong};
use image::Location;
use limit::Prefix;
use maxminddb::{LookupResult, Reader};
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use toml::de::DeValue;

/// `[networks]`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GeoNetworks {
    /// The file with locations.
    pub maxmind: Option<PathBuf>,
    /// The file with autonomous systems.
    pub maxmind_as: Option<PathBuf>,
    /// Locations by address, of the first file.
    pub locations: Option<Arc<GeoTable>>,
    /// What the second has of the systems that networks name.
    pub systems: Arc<Vec<(Prefix, u32)>>,
}

/// Locations by address.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct GeoTable {
    /// Ranges of IPv4.
    pub v4: GeoRanges<u32>,
    /// Ranges of IPv6.
    pub v6: GeoRanges<u128>,
    /// The paths of the locations; a number counts them from 1.
    pub paths: Vec<Box<str>>,
}

/// Where the location changes, in one family.
#[derive(Debug, PartialEq, Eq)]
pub struct GeoRanges<B> {
    /// The addresses, ascending.
    pub bounds: Vec<B>,
    /// The number of the location before the first of them, and from each of them on. 0: none.
    pub numbers: Vec<u16>,
}

impl<B> Default for GeoRanges<B> {
    fn default() -> Self {
        Self { bounds: Vec::new(), numbers: vec![0] }
    }
}

impl<B: Copy + Ord> GeoRanges<B> {
    /// From this address on.
    fn put(&mut self, bound: B, number: u16) {
        // The end of a range is often the begin of the next one.
        if self.bounds.last() == Some(&bound) {
            self.bounds.pop();
            self.numbers.pop();
        }
        if self.numbers.last() != Some(&number) {
            self.bounds.push(bound);
            self.numbers.push(number);
        }
    }
}

/// The location in a record of a file.
#[derive(Deserialize)]
struct Place {
    continent: Option<Continent>,
    country: Option<Area>,
    #[serde(default)]
    subdivisions: Vec<Area>,
}

#[derive(Deserialize)]
struct Continent {
    code: Option<String>,
}

#[derive(Deserialize)]
struct Area {
    iso_code: Option<String>,
}

#[derive(Deserialize)]
struct System {
    autonomous_system_number: Option<u32>,
}

impl Place {
    /// `eu/de/by`
    fn path(self) -> Option<String> {
        let continent = self.continent?.code?;
        let country = self.country.and_then(|country| country.iso_code);
        let region = self.subdivisions.into_iter().next().and_then(|region| region.iso_code);
        let below = country.into_iter().flat_map(|country| [Some(country), region.clone()]);
        let levels = [continent].into_iter().chain(below.flatten());
        Some(levels.collect::<Vec<_>>().join("/").to_ascii_lowercase())
    }
}

impl GeoNetworks {
    /// Reads the section and its files. `wanted`: the systems that networks name.
    pub(super) fn read(mut section: Section<'_, '_>, config: &Path, wanted: &HashSet<u32>) -> Self {
        let folder = config.parent().unwrap_or(Path::new(""));
        let mut file = |key| {
            let value = section.take(key)?;
            match values::file(value.get_ref()) {
                Ok(file) => Some(folder.join(file)),
                Err(wrong) => {
                    section.add(value, wrong);
                    None
                }
            }
        };
        let (maxmind, maxmind_as) = (file("maxmind"), file("maxmind_as"));
        let named = Self { maxmind, maxmind_as, ..Self::default() };
        if !wanted.is_empty() && named.maxmind_as.is_none() {
            let what = "has no file that says which addresses the `as` of a [[network]] has";
            section.add_all(vec![Diagnostic {
                help: Some("name one: [networks] maxmind_as = \"GeoLite2-ASN.mmdb\"".to_owned()),
                ..Diagnostic::of_file(config, format!("[networks] {what}"))
            }]);
        }
        let read = named.read_files(wanted).unwrap_or_else(|wrong| {
            section.add_all(vec![wrong]);
            named
        });
        section.close();
        read
    }

    /// The same with what the files have now.
    ///
    /// # Errors
    /// The file that cannot be used, and why.
    pub fn read_files(&self, wanted: &HashSet<u32>) -> Result<Self, Diagnostic> {
        let of = |file: &Path, why: String| Diagnostic {
            help: Some("put a whole file in its place by a rename".to_owned()),
            ..Diagnostic::of_file(file, why)
        };
        let mut new = self.clone();
        if let Some(file) = &self.maxmind {
            let table = read_locations(file).map_err(|why| of(file, why))?;
            new.locations = Some(Arc::new(table));
        }
        if let Some(file) = &self.maxmind_as {
            let systems = read_systems(file, wanted).map_err(|why| of(file, why))?;
            new.systems = Arc::new(systems);
        }
        Ok(new)
    }

    /// The files.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.maxmind.iter().chain(&self.maxmind_as)
    }
}

/// The number of an autonomous system.
pub(crate) fn as_number(value: &DeValue<'_>) -> Result<u32, Wrong> {
    values::number(1..=u32::MAX)(value)
}

/// Reads a file that is not written meanwhile.
fn read_file(file: &Path) -> Result<Vec<u8>, String> {
    let cannot = |error: io::Error| format!("cannot be read: {error}");
    let identity = |opened: &File| -> io::Result<(u64, SystemTime)> {
        let found = opened.metadata()?;
        Ok((found.len(), found.modified()?))
    };
    let opened = zonefile::open(file).map_err(cannot)?;
    let before = identity(&opened).map_err(cannot)?;
    let mut bytes = Vec::new();
    (&opened).take(GEO_FILE_LEN_MAX + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > GEO_FILE_LEN_MAX {
        return Err(format!("is longer than {GEO_FILE_LEN_MAX} bytes"));
    }
    match identity(&opened).map_err(cannot)? == before && bytes.len() as u64 == before.0 {
        true => Ok(bytes),
        false => Err("was written while it was read".to_owned()),
    }
}

/// Passes each prefix of a file that has a value, ascending. `value`: what a record says, which is
/// read once for all prefixes that share it.
fn walk<V: Copy>(
    file: &Path,
    mut value: impl FnMut(&LookupResult<'_, Vec<u8>>) -> Result<Option<V>, String>,
    mut each: impl FnMut(Prefix, V) -> Result<(), String>,
) -> Result<(), String> {
    let damaged =
        |why: maxminddb::MaxMindDbError| format!("is no MaxMind file, or is cut off: {why}");
    let reader = Reader::from_source(read_file(file)?).map_err(damaged)?;
    let mut known: HashMap<usize, Option<V>> = HashMap::new();
    for found in reader.networks(Default::default()).map_err(damaged)? {
        let found = found.map_err(damaged)?;
        let Some(offset) = found.offset() else { continue };
        let network = found.network().map_err(damaged)?;
        let value = match known.get(&offset) {
            Some(value) => *value,
            None => {
                let read = value(&found).map_err(|why| format!("{network}: {why}"))?;
                *known.entry(offset).or_insert(read)
            }
        };
        // IPv4 is in a part of the tree of its own.
        if let (Some(value), Ok(prefix)) = (value, Prefix::new(network.ip(), network.prefix())) {
            each(prefix, value)?;
        }
    }
    Ok(())
}

/// The locations of a file.
fn read_locations(file: &Path) -> Result<GeoTable, String> {
    let mut table = GeoTable::default();
    let (mut paths, mut numbers) = (Vec::<Box<str>>::new(), HashMap::<String, u16>::new());
    let value = |found: &LookupResult<'_, Vec<u8>>| -> Result<Option<u16>, String> {
        let place: Option<Place> = found.decode().map_err(|why| why.to_string())?;
        let Some(path) = place.and_then(Place::path) else { return Ok(None) };
        Location::parse(&path).map_err(|why| format!("{path:?} is no location: {why}"))?;
        if let Some(number) = numbers.get(&path) {
            return Ok(Some(*number));
        }
        if paths.len() >= GEO_LOCATIONS_MAX {
            return Err(format!("more than {GEO_LOCATIONS_MAX} locations"));
        }
        paths.push(Box::from(&*path));
        numbers.insert(path, paths.len() as u16);
        Ok(Some(paths.len() as u16))
    };
    let (v4, v6) = (&mut table.v4, &mut table.v6);
    walk(file, value, |prefix, number| {
        let len = u32::from(prefix.len());
        match prefix.address() {
            IpAddr::V4(first) => {
                let last = first.to_bits() | u32::MAX.checked_shr(len).unwrap_or(0);
                v4.put(first.to_bits(), number);
                last.checked_add(1).into_iter().for_each(|next| v4.put(next, 0));
            }
            IpAddr::V6(first) => {
                let last = first.to_bits() | u128::MAX.checked_shr(len).unwrap_or(0);
                v6.put(first.to_bits(), number);
                last.checked_add(1).into_iter().for_each(|next| v6.put(next, 0));
            }
        }
        match v4.bounds.len() + v6.bounds.len() > GEO_BOUNDS_MAX {
            true => Err(format!("has more than {GEO_BOUNDS_MAX} ranges of addresses")),
            false => Ok(()),
        }
    })?;
    if paths.is_empty() {
        return Err("no record has a continent: is it a file of countries or cities?".to_owned());
    }
    table.paths = paths;
    Ok(table)
}

/// The prefixes that a file has of some systems.
fn read_systems(file: &Path, wanted: &HashSet<u32>) -> Result<Vec<(Prefix, u32)>, String> {
    let (mut prefixes, mut has_any) = (Vec::new(), false);
    let value = |found: &LookupResult<'_, Vec<u8>>| -> Result<Option<u32>, String> {
        let system: Option<System> = found.decode().map_err(|why| why.to_string())?;
        let number = system.and_then(|system| system.autonomous_system_number);
        has_any |= number.is_some();
        Ok(number.filter(|number| wanted.contains(number)))
    };
    walk(file, value, |prefix, number| {
        prefixes.push((prefix, number));
        match prefixes.len() > NETWORK_PREFIXES_MAX {
            true => Err(format!("has more than {NETWORK_PREFIXES_MAX} prefixes of these systems")),
            false => Ok(()),
        }
    })?;
    match has_any {
        true => Ok(prefixes),
        false => {
            Err("no record has the number of an autonomous system: is it an ASN file?".to_owned())
        }
    }
}

#[cfg(test)]
mod tests;
