//! What a machine needs for DPDK, as far as it can be seen before the start.

use crate::{DeviceAddress, DpdkError};
use std::fs;
use std::path::Path;

const HUGE_PAGES: &str = "/sys/kernel/mm/hugepages";
const PCI: &str = "/sys/bus/pci/devices";

/// What lacks for these devices, and for so many bytes of huge pages (0: none).
pub fn check(devices: &[DeviceAddress], huge_memory: u64) -> Vec<DpdkError> {
    let on_bus = devices.iter().filter(|device| device.is_pci());
    let missing = on_bus.filter_map(|device| check_pci(Path::new(PCI), device.name()));
    missing.chain(check_huge_pages(Path::new(HUGE_PAGES), huge_memory)).collect()
}

/// Compares the free huge pages with the memory that is needed.
fn check_huge_pages(folder: &Path, needed: u64) -> Option<DpdkError> {
    let sizes = fs::read_dir(folder).into_iter().flatten().flatten();
    let free: u64 = sizes
        .filter_map(|size| {
            let name = size.file_name();
            let name = name.to_str()?;
            let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            let free = fs::read_to_string(size.path().join("free_hugepages")).ok()?;
            Some(kib * 1024 * free.trim().parse::<u64>().ok()?)
        })
        .sum();
    let (mib, pages) = (needed.div_ceil(1 << 20), needed.div_ceil(2 << 20));
    (free < needed).then(|| {
        DpdkError::Requirement(format!(
            "[dpdk] memory: {mib} MiB are needed in huge pages, and {} MiB are free: \
             `sysctl vm.nr_hugepages={pages}` makes pages of 2 MiB, and `huge_pages = false` does \
             without, which costs speed",
            free >> 20
        ))
    })
}

/// Whether a device is there, has a driver for programs, and an IOMMU.
fn check_pci(folder: &Path, name: &str) -> Option<DpdkError> {
    let device = folder.join(name);
    let wrong = |why: String| Some(DpdkError::Device(name.to_owned(), why));
    if !device.exists() {
        return wrong("there is no such device: `lspci -D` lists them".to_owned());
    }
    let linked = |link: &str| {
        let target = fs::read_link(device.join(link)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    };
    match linked("driver").as_deref() {
        // The kernel keeps the interfaces of these, and DPDK uses them beside it.
        Some("mlx4_core" | "mlx5_core") => None,
        Some("vfio-pci") if linked("iommu_group").is_none() => wrong(
            "the machine has no IOMMU for it: turn it on (BIOS; intel_iommu=on or amd_iommu=on at \
             the kernel's command line)"
                .to_owned(),
        ),
        Some("vfio-pci" | "uio_pci_generic" | "igb_uio") => None,
        driver => wrong(format!(
            "its driver is {}, and not vfio-pci: `dpdk-devbind.py -b vfio-pci {name}` (the kernel \
             then has no such interface)",
            driver.unwrap_or("none")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use test_support::folder::Folder;

    fn text(found: Option<DpdkError>) -> String {
        found.map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn huge_pages_are_named_with_the_command_that_makes_them() {
        let folder = Folder::new("hugepages");
        let none = text(check_huge_pages(&folder, 64 << 20));
        assert!(none.contains("64 MiB are needed") && none.contains("0 MiB are free"), "{none}");
        assert!(none.contains("`sysctl vm.nr_hugepages=32`"), "{none}");
        for (size, free) in [("hugepages-2048kB", "31\n"), ("hugepages-1048576kB", "0\n")] {
            fs::create_dir(folder.join(size)).expect("made");
            fs::write(folder.join(size).join("free_hugepages"), free).expect("written");
        }
        assert!(text(check_huge_pages(&folder, 64 << 20)).contains("62 MiB are free"));
        assert_eq!(check_huge_pages(&folder, 62 << 20), None);
        assert_eq!(check_huge_pages(&folder, 0), None);
    }

    #[test]
    fn device_on_the_pci_bus_needs_a_driver_for_programs_and_an_iommu() {
        let (folder, name) = (Folder::new("pci"), "0000:01:00.0");
        assert!(text(check_pci(&folder, name)).contains("no such device"));
        let device = folder.join(name);
        fs::create_dir(&device).expect("made");
        assert!(text(check_pci(&folder, name)).contains("its driver is none"));
        let drive = |driver: &str| {
            let _ = fs::remove_file(device.join("driver"));
            symlink(format!("../../drivers/{driver}"), device.join("driver")).expect("made");
        };
        drive("ixgbe");
        let why = text(check_pci(&folder, name));
        assert!(why.contains("is ixgbe") && why.contains("dpdk-devbind.py -b vfio-pci"), "{why}");
        drive("vfio-pci");
        assert!(text(check_pci(&folder, name)).contains("no IOMMU"));
        symlink("../../iommu_groups/7", device.join("iommu_group")).expect("made");
        assert_eq!(check_pci(&folder, name), None);
        drive("mlx5_core");
        assert_eq!(check_pci(&folder, name), None);
    }
}
