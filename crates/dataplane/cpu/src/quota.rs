//! The CPU time a control group grants (cgroup v2, `cpu.max`).

use std::fs;
use std::path::Path;

/// How many CPUs' worth of time this process may use, when a control group limits it. The tightest
/// limit on the way from the process' own group up to the root that it can see counts. `None`:
/// nothing limits it, or there is no cgroup v2.
pub fn quota() -> Option<f64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    tightest(Path::new("/sys/fs/cgroup"), &groups)
}

/// The tightest `cpu.max` under `root` for a process whose `/proc/self/cgroup` reads `groups`.
fn tightest(root: &Path, groups: &str) -> Option<f64> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let own = root.join(group.trim_start_matches('/'));
    let ways = own.ancestors().take_while(|path| path.starts_with(root));
    let limits = ways.filter_map(|path| fs::read_to_string(path.join("cpu.max")).ok());
    limits.filter_map(|text| parse_max(&text)).min_by(f64::total_cmp)
}

/// `"150000 100000"`: microseconds a period, and the period. `"max 100000"`: no limit.
fn parse_max(text: &str) -> Option<f64> {
    let (time, period) = text.trim().split_once(' ')?;
    let (time, period) = (time.parse::<f64>().ok()?, period.parse::<f64>().ok()?);
    (time > 0.0 && period > 0.0).then_some(time / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_cpu_max() {
        assert_eq!(parse_max("150000 100000\n"), Some(1.5));
        assert_eq!(parse_max("max 100000\n"), None);
        assert_eq!(parse_max("100000 0"), None);
        assert_eq!(parse_max(""), None);
    }

    #[test]
    fn the_tightest_group_on_the_way_up_counts() {
        let root = std::env::temp_dir().join(format!("quota-{}", std::process::id()));
        let own = root.join("pods/ours");
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("cpu.max"), "max 100000\n").unwrap();
        fs::write(root.join("pods/cpu.max"), "200000 100000\n").unwrap();
        fs::write(root.join("cpu.max"), "400000 100000\n").unwrap();
        let found = tightest(&root, "0::/pods/ours\n");
        let none = tightest(&root, "1:cpu:/old\n");
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, Some(2.0));
        assert_eq!(none, None);
    }
}
