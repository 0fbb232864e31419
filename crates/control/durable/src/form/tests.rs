use super::*;
use crate::old::OldSum;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use test_support::folder::Folder as Scratch;

const CONTENT: &[u8] = b"content\n";

fn form() -> FileForm {
    FileForm { what: "copy", owner: "a.test.".into(), form: 2, len_max: 1 << 20, old: old_forms() }
}

/// How a file begins, its kind of checksum, its content and its checksum.
type Old = (&'static [u8], OldSum, &'static [u8], &'static [u8]);

/// Files of older versions, byte by byte as these wrote them.
const OLD: [Old; 4] = [
    (
        b"{\"dunlin_health_state\":1}\n",
        OldSum::Json,
        b"{\"Target\":[\"web\",\"10.0.0.1\",\"up\",true,1700000000000,1700000000000]}\n",
        b"{\"lines\":2,\"checksum\":\"55636de5da1861ad\"}\n",
    ),
    (
        b"; Dunlin's copy of a.test., form 1: edit the file it was loaded from instead\n",
        OldSum::Comment,
        b"a.test. 5 SOA \\# 0\n",
        b"; checksum 0f2960dcefcf2d8e\n",
    ),
    (
        b"{\"dunlin_kubernetes_state\":2,\"zones\":[\"cluster.local.\"]}\n",
        OldSum::Number,
        b"\x03\0\0\0abc\0\0\0\0\x01\0\0\0\0\0\0\0",
        b"h\xcb\x9af)\x08Jp",
    ),
    (
        b"dunlin-cpus 1 m ",
        OldSum::Sha256,
        b"{\"assigned\":{}}",
        b"15 6f68534c533d312cee9c3f5b43e25e8454d1eb16c2523685421bce4c79777f47\n",
    ),
];

fn old_forms() -> Vec<OldForm> {
    OLD.iter().map(|(begin, sum, ..)| OldForm { begin: begin.to_vec(), sum: *sum }).collect()
}

/// All forms of a file with their content, the newest first.
fn files() -> Vec<(Vec<u8>, Vec<u8>)> {
    let new = form().bytes(|out| out.write_all(CONTENT)).unwrap();
    let old = OLD.iter().map(|(begin, sum, content, tail)| {
        let parts = match sum {
            OldSum::Sha256 => [*begin, *tail, *content],
            _ => [*begin, *content, *tail],
        };
        (parts.concat(), content.to_vec())
    });
    std::iter::once((new, CONTENT.to_vec())).chain(old).collect()
}

fn read(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    form().verify(Cursor::new(bytes))?.read_to_end(&mut content).expect("memory");
    Ok(content)
}

#[test]
fn files_of_all_forms_are_read_and_the_new_one_is_as_documented() {
    for (file, content) in files() {
        assert_eq!(read(&file).unwrap(), content);
    }
    let text = "; Dunlin's copy of a.test., form 2, 00000000000000000008 bytes, checksum \
                2b82f692b8c11e4a\ncontent\n";
    assert_eq!(String::from_utf8(files()[0].0.clone()).unwrap(), text);
    assert_eq!(form().content_at(), (text.len() - CONTENT.len()) as u64);
    let owner = "a\nb".to_owned();
    let controls = FileForm { owner, ..form() };
    let bytes = controls.bytes(|_| Ok(())).unwrap();
    assert_eq!(controls.verify(Cursor::new(bytes)).unwrap().limit(), 0);
}

/// No cut, no flipped bit and no byte more is taken for content.
#[test]
fn file_with_any_damage_is_refused() {
    for (file, _) in files() {
        for len in 0..file.len() {
            read(&file[..len]).expect_err("cut off");
        }
        for bit in 0..file.len() * 8 {
            let mut wrong = file.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            read(&wrong).expect_err("flipped");
        }
        read(&[&file[..], b"x"].concat()).expect_err("longer");
        read(&[&file[..], b"\n"].concat()).expect_err("longer");
    }
}

#[test]
fn other_files_are_named_and_say_what_they_are() {
    let scratch = Scratch::new("form");
    let path = scratch.join("file");
    assert!(form().open(&path).unwrap().is_none(), "there is none");
    let of = |what, owner: &str, form| FileForm { what, owner: owner.into(), form, ..self::form() };
    let bytes = |form: FileForm| form.bytes(|out| out.write_all(CONTENT)).unwrap();
    let long = FileForm { len_max: 7, ..form() };
    let cases = [
        (bytes(of("list", "a.test.", 2)), form(), "does not begin like Dunlin's copy"),
        (bytes(of("copy", "b.test.", 2)), form(), "belongs to another one: b.test."),
        (bytes(of("copy", "a.test.", 3)), form(), "has form 3, and this version reads 2: use the"),
        (bytes(form()), long, "has 8 bytes, and 7 are the most"),
        (b"a letter".to_vec(), form(), "does not begin like Dunlin's copy"),
        (Vec::new(), form(), "is cut off or damaged"),
    ];
    for (bytes, form, why) in cases {
        fs::write(&path, &bytes).unwrap();
        let fault = form.open(&path).map(drop).expect_err(why);
        assert!(fault.starts_with(&format!("{}: ", path.display())), "{fault}");
        assert!(fault.contains(why), "{fault}");
        assert_eq!(fs::read(&path).unwrap(), bytes, "it stays");
    }
}

#[test]
fn equal_content_is_recognized() {
    let (file, _) = files().remove(0);
    let holds = |file: &[u8], text: &[u8]| form().holds(file, |out| out.write_all(text));
    assert!(holds(&file, CONTENT));
    assert!(!holds(&file, b"content") && !holds(&file, b"content\nmore") && !holds(&file, b""));
    for bit in 0..file.len() * 8 {
        let mut wrong = file.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        assert!(!holds(&wrong, CONTENT), "bit {bit}");
    }
}

/// A write that fails at any step, or a process that is killed there, leaves the old file.
#[test]
fn failed_or_killed_write_leaves_the_old_file() {
    let scratch = Scratch::new("replaced");
    let (path, new) = (scratch.join("file"), scratch.join("file.new"));
    let save = |content: &[u8]| form().replace(&path, 0o640, |out| out.write_all(content));
    let content = || {
        let mut content = String::new();
        form().open(&path).unwrap().unwrap().read_to_string(&mut content).unwrap();
        content
    };
    save(b"old").unwrap();
    let full = form().replace(&path, 0o640, |out| {
        out.write_all(CONTENT)?;
        Err(io::ErrorKind::StorageFull.into())
    });
    assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!((content(), new.exists()), ("old".into(), false), "nothing half-written stays");
    let (whole, _) = files().remove(0);
    for len in 0..=whole.len() {
        // As a killed process leaves it, perhaps of another mode.
        fs::write(&new, &whole[..len]).unwrap();
        assert_eq!(content(), "old", "{len}");
    }
    save(b"newer").unwrap();
    assert_eq!((content(), new.exists()), ("newer".into(), false));
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
    fs::create_dir(&new).unwrap();
    save(b"newest").expect_err("the name is taken");
    assert_eq!(content(), "newer");
}

/// Every write to this device fails as on a full disk, also that of the last bytes.
#[test]
fn full_disk_is_reported() {
    for len in [0, 1, BUFFER_LEN, 2 * BUFFER_LEN] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let written = form().write(full, |out| out.write_all(&vec![b'x'; len]));
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::StorageFull, "{len} bytes");
    }
}
