//! The worlds: sets of zones which one run of each server holds together.

use std::path::{Path, PathBuf};

use crate::names::name;
use crate::zone::{Signing, Zone};
use crate::{Result, sign, templates};

/// A set of zones in one directory.
#[derive(Debug)]
pub struct World {
    /// For the report.
    pub name: &'static str,
    /// All its zones.
    pub zones: Vec<Zone>,
}

use Signing::{Nsec, Nsec3, OptOut, Unsigned};

const MAIN: [(&str, &str, Signing); 32] = [
    ("plain.test", "plain", Unsigned),
    ("below.plain.test", "plain", Unsigned),
    ("flat.test", "flat", Unsigned),
    ("plain.nsec", "plain", Nsec),
    ("wild.test", "wild", Unsigned),
    ("alias.test", "alias", Unsigned),
    ("pingpong.test", "pingpong", Unsigned),
    ("dapex.test", "dapex", Unsigned),
    ("deleg.test", "deleg", Unsigned),
    ("parent.test", "parent", Unsigned),
    ("child.parent.test", "child", Unsigned),
    ("nods.parent.test", "grand", Unsigned),
    ("grand.child.parent.test", "grand", Unsigned),
    ("lost.ent.parent.test", "grand", Unsigned),
    ("types.test", "types", Unsigned),
    ("odd.test", "odd", Unsigned),
    ("big.test", "big", Unsigned),
    ("2.0.192.in-addr.arpa", "reverse", Unsigned),
    ("tree1.test", "tree", Unsigned),
    ("tree2.test", "tree", Unsigned),
    ("tree3.test", "tree", Unsigned),
    ("wild.nsec", "wild", Nsec),
    ("wild.nsec3", "wild", Nsec3),
    ("deleg.nsec", "deleg", Nsec),
    ("deleg.nsec3", "deleg", Nsec3),
    ("deleg.optout", "deleg", OptOut),
    ("alias.nsec", "alias", Nsec),
    ("alias.nsec3", "alias", Nsec3),
    ("parent.nsec", "parent", Nsec),
    ("child.parent.nsec", "child", Nsec3),
    ("tree.nsec", "tree", Nsec),
    ("tree.nsec3", "tree", OptOut),
];

const ROOT: [(&str, &str, Signing); 2] = [(".", "root", Unsigned), ("served", "served", Unsigned)];

impl World {
    /// Many zones, without the root; random ones are made from `seed`.
    pub fn main(directory: &Path, seed: u64) -> Result<Self> {
        Self::build("main", &MAIN, directory, seed)
    }

    /// A small root and one zone below it.
    pub fn root(directory: &Path, seed: u64) -> Result<Self> {
        Self::build("root", &ROOT, directory, seed)
    }

    fn build(
        world: &'static str,
        zones: &[(&str, &str, Signing)],
        directory: &Path,
        seed: u64,
    ) -> Result<Self> {
        let directory = directory.join(world);
        std::fs::create_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        let zones = zones.iter().enumerate().map(|(index, &(apex, template, signing))| {
            let plain =
                directory.join(if apex == "." { "root" } else { apex }.to_owned() + ".zone");
            let text = text(template, seed.wrapping_add(index as u64))?;
            std::fs::write(&plain, text).map_err(|e| format!("{}: {e}", plain.display()))?;
            let apex = name(apex);
            let file = sign::sign(&apex, &plain, signing)?;
            Zone::read(apex, file, signing)
        });
        Ok(Self { name: world, zones: zones.collect::<Result<_>>()? })
    }
}

fn text(template: &str, seed: u64) -> Result<String> {
    match template {
        "big" => Ok(templates::big()),
        "tree" => Ok(templates::tree(seed, 150)),
        file => {
            let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("zones");
            let path = path.join(format!("{file}.zone"));
            std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
        }
    }
}
