//! What the tests of the parts share, and a release as users get it.
use super::*;

/// What a test says about its release: the name and version are those of a real one.
pub fn about() -> About {
    let of_chart = About::read(&crate::root()).expect("values.yaml names the image");
    About { commit: "0123456789ab".into(), time: 1_700_000_000, ..of_chart }
}

/// The least that is a program: a header, and a program header, of an interpreter if it is dynamic.
pub fn program(arch: Arch, is_dynamic: bool) -> Vec<u8> {
    let mut bytes = vec![0; 64 + 56];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    bytes[18] = u8::try_from(arch.elf_machine()).expect("a small number");
    bytes[32] = 64; // where program headers begin
    bytes[54] = 56; // their size
    bytes[56] = 1; // their count
    bytes[64] = if is_dynamic { 3 } else { 1 };
    bytes
}
