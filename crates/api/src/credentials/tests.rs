//! Credentials as they are made, kept, known again and revoked.
use super::*;
use std::os::unix::fs::MetadataExt;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("dunlin-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("credentials.json")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn create(name: &str, grant: &str, subject: Option<&str>) -> TokenRequest {
    let subject = subject.map(str::to_owned);
    TokenRequest::Create { principal: name.into(), grants: vec![grant.into()], subject }
}

fn token(credentials: &Credentials, name: &str) -> String {
    match credentials.handle(create(name, "read *", None)) {
        Ok(TokenDone::Created { token: Some(token) }) => token,
        other => panic!("no token: {other:?}"),
    }
}

#[test]
fn a_token_is_known_until_it_is_revoked_and_after_a_restart() {
    let folder = Folder::new("token");
    let credentials = Credentials::open(Some(folder.file())).expect("none yet");
    let secret = token(&credentials, "ci");
    assert!(secret.starts_with(TOKEN_PREFIX) && secret.len() == TOKEN_PREFIX.len() + 64);
    assert_eq!(credentials.of_token(&secret).expect("known").name, "ci");
    let again = Credentials::open(Some(folder.file())).expect("kept");
    assert_eq!(again.of_token(&secret).expect("known").name, "ci");
    assert_ne!(token(&again, "other"), secret);
    assert!(again.of_token(&secret[..secret.len() - 1]).is_none());
    again.handle(TokenRequest::Revoke { principal: "ci".into() }).expect("revoked");
    assert!(again.of_token(&secret).is_none());
    let last = Credentials::open(Some(folder.file())).expect("kept");
    assert!(last.of_token(&secret).is_none(), "and it stays so");
}

#[test]
fn a_token_is_nowhere_on_the_disk_and_its_hash_is_nobody_elses_to_read() {
    let folder = Folder::new("hash");
    let credentials = Credentials::open(Some(folder.file())).expect("none yet");
    let secret = token(&credentials, "ci");
    let kept = fs::read_to_string(folder.file()).expect("kept");
    assert!(!kept.contains(&secret) && !kept.contains(&secret[TOKEN_PREFIX.len()..]), "{kept}");
    assert_eq!(fs::metadata(folder.file()).expect("kept").mode() & 0o777, 0o600);
    let Ok(TokenDone::Listed(all)) = credentials.handle(TokenRequest::List) else { panic!() };
    assert_eq!((all.len(), all[0].grants.as_slice()), (1, &["read * * *".to_owned()][..]));
}

#[test]
fn a_certificate_is_known_by_any_of_its_names() {
    let folder = Folder::new("subject");
    let credentials = Credentials::open(Some(folder.file())).expect("none yet");
    let request = create("ci", "read *", Some("spiffe://example.org/ci"));
    assert_eq!(credentials.handle(request), Ok(TokenDone::Created { token: None }));
    let found = credentials.of_subjects(["ci.example.org", "SPIFFE://example.org/ci"]);
    assert_eq!(found.expect("known").name, "ci");
    assert!(credentials.of_subjects(["ci.example.org"]).is_none());
    let twice = credentials.handle(create("cd", "read *", Some("spiffe://example.org/ci")));
    assert!(twice.expect_err("whose is it?").contains("another principal's too"));
}

/// Two processes have the file one after the other, and for a moment both.
#[test]
fn a_successor_knows_what_its_predecessor_did() {
    let folder = Folder::new("successor");
    let before = Credentials::open(Some(folder.file())).expect("none yet");
    let gone = token(&before, "gone");
    let successor = Credentials::open(Some(folder.file())).expect("one");
    before.handle(TokenRequest::Revoke { principal: "gone".into() }).expect("revoked");
    let made = token(&before, "made");
    successor.read_again().expect("the same file");
    assert!(successor.of_token(&gone).is_none() && successor.of_token(&made).is_some());
    fs::write(folder.file(), "damaged").expect("written");
    assert!(successor.read_again().is_err());
    assert!(successor.of_token(&made).is_some(), "those of before still hold");
}

/// What was left by whoever, others cannot read what is written there.
#[test]
fn a_file_that_was_left_open_to_others_does_not_stay_so() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("mode");
    let beside = folder.file().with_extension("new");
    fs::write(&beside, "").expect("written");
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o666)).expect("ours");
    token(&Credentials::open(Some(folder.file())).expect("none yet"), "ci");
    let mode = fs::metadata(folder.file()).expect("written").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn what_cannot_be_made_changes_nothing() {
    let folder = Folder::new("wrong");
    let credentials = Credentials::open(Some(folder.file())).expect("none yet");
    token(&credentials, "ci");
    for (request, story) in [
        (create("ci", "read *", None), "already"),
        (create("a b", "read *", None), "no name for a principal"),
        (create("cd", "steal *", None), "not a verb"),
        (create("cd", "read *", Some("a b")), "alternative names"),
        (TokenRequest::Revoke { principal: "cd".into() }, "no principal \"cd\""),
    ] {
        let told = credentials.handle(request).expect_err(story);
        assert!(told.contains(story), "{told}");
    }
    let Ok(TokenDone::Listed(all)) = credentials.handle(TokenRequest::List) else { panic!() };
    assert_eq!(all.len(), 1);
    let nowhere = Credentials::open(None).expect("none");
    let told = nowhere.handle(create("ci", "read *", None)).expect_err("nowhere to keep it");
    assert!(told.contains("data_dir"), "{told}");
}

#[test]
fn a_file_that_is_no_good_is_refused_with_what_to_do() {
    let folder = Folder::new("file");
    for (text, story) in [
        ("", "no file of credentials"),
        (r#"{"format":2,"credentials":[]}"#, "has format 2, this version knows 1"),
        (
            r#"{"format":1,"credentials":[{"principal":"ci","grants":["read *"],
               "created_seconds":1,"token-sha256":"00"}]}"#,
            "not SHA-256",
        ),
    ] {
        fs::write(folder.file(), text).expect("written");
        let told = Credentials::open(Some(folder.file())).err().expect(story);
        assert!(told.contains(story), "{told}");
    }
}
