//! Whether packets reach this machine's CPUs alike.

use std::fs;
use std::path::Path;

/// Whether every network device that is up spreads what it receives over `cpus` CPUs: by as many
/// receive queues, or by RPS (a mask in each queue's `rps_cpus`). The loopback device need not: it
/// receives where the sender runs. `false` where the kernel does not tell.
pub fn receives_everywhere(cpus: usize) -> bool {
    spreads(Path::new("/sys/class/net"), cpus).unwrap_or(false)
}

fn spreads(devices: &Path, cpus: usize) -> std::io::Result<bool> {
    for device in fs::read_dir(devices)? {
        let device = device?;
        let state = fs::read_to_string(device.path().join("operstate")).unwrap_or_default();
        if device.file_name() == "lo" || state.trim() == "down" {
            continue;
        }
        let queues: Vec<_> = fs::read_dir(device.path().join("queues"))?
            .filter_map(|queue| queue.ok().map(|queue| queue.path()))
            .filter(|queue| queue.join("rps_cpus").exists())
            .collect();
        let by_rps = !queues.is_empty()
            && queues.iter().all(|queue| {
                let mask = fs::read_to_string(queue.join("rps_cpus")).unwrap_or_default();
                mask.trim().chars().any(|digit| !matches!(digit, '0' | ','))
            });
        if queues.len() < cpus && !by_rps {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree like the kernel's: devices with their state and the RPS mask of each queue.
    fn devices(test: &str, devices: &[(&str, &str, &[&str])]) -> std::path::PathBuf {
        let root = std::env::temp_dir().join(format!("receive-{test}-{}", std::process::id()));
        for (name, state, masks) in devices {
            let device = root.join(name);
            fs::create_dir_all(device.join("queues/tx-0")).unwrap();
            fs::write(device.join("operstate"), format!("{state}\n")).unwrap();
            for (queue, mask) in masks.iter().enumerate() {
                let queue = device.join(format!("queues/rx-{queue}"));
                fs::create_dir_all(&queue).unwrap();
                fs::write(queue.join("rps_cpus"), format!("{mask}\n")).unwrap();
            }
        }
        root
    }

    #[test]
    fn queues_or_rps_spread_and_one_queue_does_not() {
        for (test, list, wanted) in [
            ("loopback", vec![("lo", "unknown", &["0"][..])], true),
            ("one-queue", vec![("eth0", "up", &["00000000,00000000"][..])], false),
            ("queues", vec![("eth0", "up", &["0", "0"][..])], true),
            ("rps", vec![("eth0", "up", &["00000000,00000003"][..])], true),
            ("down", vec![("eth0", "up", &["3"][..]), ("eth1", "down", &["0"][..])], true),
            ("mixed", vec![("eth0", "up", &["3"][..]), ("eth1", "up", &["0"][..])], false),
        ] {
            let root = devices(test, &list);
            assert_eq!(spreads(&root, 2).unwrap(), wanted, "{test}");
            fs::remove_dir_all(root).unwrap();
        }
    }
}
