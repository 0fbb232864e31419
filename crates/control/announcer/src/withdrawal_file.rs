//! The file with an operator's withdrawal.
use crate::limits::WITHDRAWAL_LEN_MAX as FILE_LEN_MAX;
use durable::FileForm;
use std::io::Read;
use std::path::Path;

/// The file of an operator's withdrawal in `[server] data_dir`: its reason, or nothing.
pub const FILE: &str = "anycast.state";

pub fn form() -> FileForm {
    let (what, owner) = ("withdrawal", "announced addresses".to_owned());
    FileForm { what, owner, form: 1, len_max: FILE_LEN_MAX, old: Vec::new() }
}

/// Why an operator has withdrawn the addresses. A file that cannot be used withdraws, too: the
/// operator may have had reasons.
pub fn read_reason(file: &Path) -> Option<String> {
    let unusable = |why: String| format!("{why}; `dunlin anycast announce` replaces it");
    let mut text = String::new();
    match form().open(file) {
        Err(why) => Some(unusable(why)),
        Ok(None) => None,
        Ok(Some(mut content)) => match content.read_to_string(&mut text) {
            Err(why) => Some(unusable(format!("{}: {why}", file.display()))),
            Ok(_) => Some(text).filter(|text| !text.is_empty()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn withdrawal_outlives_a_restart_and_a_damaged_file_withdraws() {
        let folder = std::env::temp_dir().join(format!("dunlin-withdrawn-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join(FILE);
        assert_eq!(read_reason(&file), None);
        for (text, expected) in [("rack 7", Some("rack 7")), ("", None)] {
            form().replace(&file, 0o640, |out| out.write_all(text.as_bytes())).expect("written");
            assert_eq!(read_reason(&file).as_deref(), expected);
        }
        std::fs::write(&file, "damaged").expect("written");
        let told = read_reason(&file).expect("withdrawn");
        assert!(told.contains(FILE) && told.contains("dunlin anycast announce"), "{told}");
        assert_eq!(std::fs::read(&file).expect("it stays"), b"damaged");
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
