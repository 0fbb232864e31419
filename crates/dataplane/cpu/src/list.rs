//! CPU lists as the kernel writes them: `2-5,8`.

use crate::limits::CPUS_MAX;
use std::fmt;
use std::str::FromStr;

/// A set of CPUs, lowest first. Read and written as the kernel's cpuset files are, `2-5,8`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuList(Vec<usize>);

impl CpuList {
    /// The CPUs, lowest first, each once.
    pub fn as_slice(&self) -> &[usize] {
        &self.0
    }

    /// How many CPUs it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has no CPU.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The CPUs, lowest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = usize> + Clone + '_ {
        self.0.iter().copied()
    }

    /// Whether it has this CPU.
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.binary_search(&cpu).is_ok()
    }

    /// The CPUs of either list.
    pub fn union(&self, other: &Self) -> Self {
        self.iter().chain(other.iter()).collect()
    }

    /// The CPUs of both lists.
    pub fn intersection(&self, other: &Self) -> Self {
        Self(self.iter().filter(|&cpu| other.contains(cpu)).collect())
    }

    /// The CPUs of this list that the other one lacks.
    pub fn difference(&self, other: &Self) -> Self {
        Self(self.iter().filter(|&cpu| !other.contains(cpu)).collect())
    }

    /// Whether the other list has every CPU of this one.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.iter().all(|cpu| other.contains(cpu))
    }

    /// Reads a list from a file of the kernel, where nothing stands for no CPU.
    ///
    /// # Errors
    /// The text is not a list.
    pub fn from_kernel(text: &str) -> Result<Self, ParseCpuListError> {
        // Kernels without the option that fills `nohz_full` write this.
        match text.trim() {
            "" | "(null)" => Ok(Self::default()),
            text => text.parse(),
        }
    }
}

impl FromIterator<usize> for CpuList {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut cpus: Vec<_> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        Self(cpus)
    }
}

/// Why a text is not a CPU list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseCpuListError {
    /// This part is neither a number below [`CPUS_MAX`] nor two of them with `-` between.
    NotARange(String),
    /// The range's first CPU is above its last.
    Backwards(String),
}

impl fmt::Display for ParseCpuListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotARange(part) => {
                write!(f, "`{part}` is neither a CPU nor a range of CPUs, such as 3 or 2-5")?;
                write!(f, " (CPUs are numbered from 0 to {})", CPUS_MAX - 1)
            }
            Self::Backwards(part) => write!(f, "the range `{part}` ends before it begins"),
        }
    }
}

impl std::error::Error for ParseCpuListError {}

impl FromStr for CpuList {
    type Err = ParseCpuListError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut cpus = Vec::new();
        for part in text.split(',').map(str::trim) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range = parse_cpu(first).zip(parse_cpu(last));
            let (first, last) =
                range.ok_or_else(|| ParseCpuListError::NotARange(part.to_owned()))?;
            if first > last {
                return Err(ParseCpuListError::Backwards(part.to_owned()));
            }
            cpus.extend(first..=last);
        }
        Ok(cpus.into_iter().collect())
    }
}

/// Digits only: `parse` alone would take a sign.
fn parse_cpu(text: &str) -> Option<usize> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&cpu| digits && cpu < CPUS_MAX)
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|low, high| low + 1 == *high);
        for (index, run) in runs.enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match run {
                [only] => write!(f, "{comma}{only}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_lists() {
        for (text, cpus, written) in [
            ("0", &[0][..], "0"),
            ("2-5,8", &[2, 3, 4, 5, 8], "2-5,8"),
            ("8, 2-3 ,3-4", &[2, 3, 4, 8], "2-4,8"),
            ("1,0", &[0, 1], "0-1"),
            ("7-7", &[7], "7"),
        ] {
            let list: CpuList = text.parse().unwrap();
            assert_eq!(list.as_slice(), cpus, "{text}");
            assert_eq!(list.to_string(), written, "{text}");
        }
        assert_eq!(CpuList::default().to_string(), "");
    }

    #[test]
    fn sets_are_combined() {
        let [one, two]: [CpuList; 2] = ["0-3,8", "2-5"].map(|text| text.parse().unwrap());
        assert_eq!(one.union(&two).to_string(), "0-5,8");
        assert_eq!(one.intersection(&two).to_string(), "2-3");
        assert_eq!(one.difference(&two).to_string(), "0-1,8");
        assert!(one.contains(8) && !one.contains(4) && one.len() == 5 && !one.is_empty());
        assert!(one.intersection(&two).is_subset(&two) && !one.is_subset(&two));
    }

    #[test]
    fn the_kernel_writes_nothing_for_no_cpu() {
        for text in ["\n", "", " (null)\n"] {
            assert!(CpuList::from_kernel(text).unwrap().is_empty(), "{text:?}");
        }
        assert_eq!(CpuList::from_kernel("0-1\n").unwrap().as_slice(), [0, 1]);
        assert!(CpuList::from_kernel("x\n").is_err());
    }

    #[test]
    fn refuses_what_is_no_list() {
        for text in ["", "a", "1,", "-1", "1-", "+1", "1-2-3", "1 2", "99999999", "0-4000000000"] {
            let error = text.parse::<CpuList>().unwrap_err();
            assert!(matches!(error, ParseCpuListError::NotARange(_)), "{text}: {error}");
        }
        let error = "5-2".parse::<CpuList>().unwrap_err();
        assert_eq!(error, ParseCpuListError::Backwards("5-2".into()));
    }
}
