//! The zone all of them serve.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use lab_load::Oracle;
use wire::{Name, NameBuf, Rtype};

use crate::Result;
use crate::limits::ADDRESSES_MAX;

/// A zone and its file.
#[derive(Clone, Debug)]
pub struct Zone {
    /// Its name, with a dot at the end.
    pub name: String,
    /// Its file, from the root of the file system.
    pub file: PathBuf,
    probe: Option<Vec<u8>>,
}

/// An address of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The name, without a dot at the end.
    pub name: String,
    /// The address.
    pub address: IpAddr,
    /// Its TTL, seconds.
    pub ttl: u32,
}

impl Zone {
    /// The zone of that name in that file.
    ///
    /// # Errors
    /// The file is not there, or is not a zone file.
    pub fn open(name: &str, file: &Path) -> Result<Self> {
        let file = file.canonicalize().map_err(|e| format!("{}: {e}", file.display()))?;
        let name = format!("{}.", name.trim_end_matches('.'));
        let mut zone = Self { name, file, probe: None };
        let mut probe = None;
        zone.read(&mut |record| {
            if record.rtype == Rtype::A && !record.owner.as_bytes().starts_with(b"\x01*") {
                probe.get_or_insert_with(|| record.owner.as_bytes().to_vec());
            }
            Ok(())
        })?;
        zone.probe = probe;
        Ok(zone)
    }

    /// A name that has an A record, in wire form.
    pub(super) fn probe(&self) -> Result<&[u8]> {
        self.probe.as_deref().ok_or_else(|| {
            format!(
                "{}: no A record to ask for, by which one sees that a server answers",
                self.file.display()
            )
        })
    }

    /// Its A and AAAA records.
    pub(super) fn addresses(&self) -> Result<Vec<Address>> {
        let mut addresses = Vec::new();
        self.read(&mut |record| {
            let address = match record.rtype {
                Rtype::A => <[u8; 4]>::try_from(record.rdata).map(IpAddr::from),
                Rtype::AAAA => <[u8; 16]>::try_from(record.rdata).map(IpAddr::from),
                _ => return Ok(()),
            };
            if addresses.len() == ADDRESSES_MAX {
                return Err(format!("more than {ADDRESSES_MAX} addresses"));
            }
            let address = address.map_err(|_| "data of another length".to_owned())?;
            let name = record.owner.to_string();
            let name = name.trim_end_matches('.').to_owned();
            addresses.push(Address { name, address, ttl: record.ttl });
            Ok(())
        })?;
        Ok(addresses)
    }

    /// The oracle for answers.
    ///
    /// # Errors
    /// The zone cannot be read, or has too many records to compare answers with.
    pub fn oracle(&self) -> Result<Oracle> {
        Oracle::read(&self.file, self.origin()?.as_name())
    }

    fn origin(&self) -> Result<NameBuf> {
        NameBuf::from_text(self.name.as_bytes(), Name::ROOT)
            .map_err(|e| format!("{:?} is not a name of a zone: {e:?}", self.name))
    }

    fn read(&self, sink: &mut dyn FnMut(zonefile::Record<'_>) -> Result<()>) -> Result<()> {
        let read = zonefile::read(&self.file, self.origin()?.as_name(), sink);
        read.map(|_| ()).map_err(|failure| failure.to_string())
    }
}
