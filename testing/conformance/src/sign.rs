//! Signing with BIND's own tools, so that every server is handed the very same signatures.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::names::Name;
use crate::zone::Signing;

/// Signs `plain` with fresh keys; the signed file lies beside it.
pub fn sign(zone: &Name, plain: &Path, signing: Signing) -> Result<PathBuf> {
    if signing == Signing::Unsigned {
        return Ok(plain.to_owned());
    }
    let directory = plain.parent().ok_or("a zone file has a directory")?;
    let keys = directory.join(format!("keys-{zone}"));
    std::fs::create_dir_all(&keys).map_err(|e| format!("{}: {e}", keys.display()))?;
    let origin = zone.fmt_with_dot().to_string();
    for flags in [&["-f", "KSK"][..], &[]] {
        let mut keygen = Command::new("dnssec-keygen");
        keygen.args(["-q", "-a", "ECDSAP256SHA256", "-n", "ZONE", "-K"]).arg(&keys);
        run(keygen.args(flags).arg(&origin))?;
    }
    let signed = plain.with_extension("signed");
    let mut signzone = Command::new("dnssec-signzone");
    signzone.args(["-q", "-S", "-P", "-O", "full", "-s", "now-3600", "-e", "now+2592000"]);
    match signing {
        Signing::Nsec | Signing::Unsigned => {}
        Signing::Nsec3 => drop(signzone.args(["-3", "c0ffee", "-H", "3"])),
        Signing::OptOut => drop(signzone.args(["-3", "-", "-A"])),
    }
    signzone.arg("-K").arg(&keys).args(["-o", &origin, "-d"]).arg(&keys).arg("-f").arg(&signed);
    run(signzone.arg(plain))?;
    Ok(signed)
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().map_err(|e| {
        format!("{}: {e} (Debian: apt install bind9-utils)", command.get_program().display())
    })?;
    if output.status.success() {
        return Ok(());
    }
    let response = String::from_utf8_lossy(&output.stderr);
    Err(format!("{} failed: {response}", command.get_program().display()))
}
