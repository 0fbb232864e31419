//! CPUs as the kernel writes masks: words of eight hexadecimal digits, the lowest last.

use cpu::CpuList;

/// The mask of some CPUs.
pub fn write(cpus: &[usize]) -> String {
    let words = cpus.iter().max().map_or(1, |last| last / 32 + 1);
    let word = |index: usize| {
        let ours = cpus.iter().filter(|cpu| *cpu / 32 == index);
        ours.fold(0_u32, |word, cpu| word | 1 << (cpu % 32))
    };
    let mut text = format!("{:x}", word(words - 1));
    for index in (0..words - 1).rev() {
        text.push_str(&format!(",{:08x}", word(index)));
    }
    text
}

/// The CPUs of a mask. Nothing where it is none.
pub fn parse(text: &str) -> Option<CpuList> {
    let mut cpus = Vec::new();
    for (index, word) in text.trim().rsplit(',').enumerate() {
        let word = u32::from_str_radix(word, 16).ok()?;
        cpus.extend((0..32).filter(|bit| word >> bit & 1 == 1).map(|bit| index * 32 + bit));
    }
    Some(cpus.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_as_the_kernel_writes_them() {
        assert_eq!(write(&[]), "0");
        assert_eq!(write(&[0]), "1");
        assert_eq!(write(&[0, 1, 5]), "23");
        assert_eq!(write(&[31, 32]), "1,80000000");
        assert_eq!(write(&[64]), "1,00000000,00000000");
    }

    #[test]
    fn masks_are_read() {
        for cpus in [&[][..], &[0], &[0, 1, 5], &[31, 32], &[64]] {
            assert_eq!(parse(&write(cpus)).unwrap().as_slice(), cpus);
        }
        assert_eq!(parse("00000000,00000003\n").unwrap().as_slice(), [0, 1]);
        assert_eq!((parse(""), parse("x"), parse("1,,2")), (None, None, None));
    }
}
