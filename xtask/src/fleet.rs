//! The anchor fleet: what is measured is measured on these names.
//!
//! Service N is `svc-N.ns-M.svc.cluster.local A`, with M = N mod 100, and its address is 10.0.0.0
//! plus N. So any count gives the same names in the same places, and 10 M fit into 10/8.
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

/// A query line for each service, in a shuffled order that is always the same.
///
/// # Errors
/// More than [`SERVICES_MAX`], or what `out` fails with.
pub fn write_names(out: &mut dyn Write, count: u32) -> io::Result<()> {
    check(count)?;
    let mut order: Vec<u32> = (0..count).collect();
    let mut state: u64 = 1;
    for last in (1..order.len()).rev() {
        // Knuth's MMIX generator; its upper half is random enough to shuffle by.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(last, (state >> 32) as usize % (last + 1));
    }
    for n in order {
        writeln!(out, "svc-{n}.ns-{}.svc.cluster.local A", n % NAMESPACES)?;
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
    use std::collections::HashSet;

    fn text(count: u32, write: impl Fn(&mut dyn Write, u32) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out, count).expect("a Vec takes all");
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn a_service_is_where_its_number_says() {
        let zone = text(70_000, write_zone);
        assert!(zone.contains("\nsvc-66051.ns-51.svc A 10.1.2.3\n"), "66051 is 0x010203");
        assert_eq!(zone.lines().count(), 70_000 + 5);
    }

    #[test]
    fn every_name_is_asked_once() {
        let names = text(1_000, write_names);
        let names: HashSet<&str> = names.lines().collect();
        assert_eq!(names.len(), 1_000);
        assert!(names.contains("svc-999.ns-99.svc.cluster.local A"));
    }

    #[test]
    fn too_many_are_refused() {
        assert!(write_zone(&mut Vec::new(), SERVICES_MAX + 1).is_err());
    }
}
