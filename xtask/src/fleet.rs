//! The anchor fleet: what is measured is measured on these names.
//!
//! Service N is `svc-N.ns-M.svc.cluster.local A`, with M = N mod 100, and its address is 10.0.0.0
//! plus N. So any count gives the same names in the same places, and 10 M fit into 10/8.
//! The pattern `svc-{i}.ns-{i%100}.svc.cluster.local` of `dunlin-lab` asks for them.
use std::io::{self, Write};

/// Addresses are the lower 24 bits of 10.0.0.0/8.
pub const SERVICES_MAX: u32 = 1 << 24;
const NAMESPACES: u32 = 100;

/// The zone `cluster.local` with services 0 to `count` - 1, a record a line.
///
/// # Errors
/// More than [`SERVICES_MAX`], or what `out` fails with.
pub fn write_zone(out: &mut dyn Write, count: u32) -> io::Result<()> {
    check(count)?;
    out.write_all(
        b"$ORIGIN cluster.local.\n$TTL 30\n\
          @ SOA ns.dns hostmaster 1 7200 1800 86400 5\n@ NS ns.dns\nns.dns A 127.0.0.1\n",
    )?;
    for n in 0..count {
        let [_, b, c, d] = n.to_be_bytes();
        writeln!(out, "svc-{n}.ns-{}.svc A 10.{b}.{c}.{d}", n % NAMESPACES)?;
    }
    Ok(())
}

fn check(count: u32) -> io::Result<()> {
    if count > SERVICES_MAX {
        return Err(io::Error::other(format!("at most {SERVICES_MAX} services")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_where_its_number_says() {
        let mut out = Vec::new();
        write_zone(&mut out, 70_000).expect("a Vec takes all");
        let zone = String::from_utf8(out).expect("ASCII");
        assert!(zone.contains("\nsvc-66051.ns-51.svc A 10.1.2.3\n"), "66051 is 0x010203");
        assert_eq!(zone.lines().count(), 70_000 + 5);
    }

    #[test]
    fn too_many_are_refused() {
        assert!(write_zone(&mut Vec::new(), SERVICES_MAX + 1).is_err());
    }
}
