//! Credentials are created, read again, rotated, revoked, and expire.
use super::*;
use documents::FileDocuments;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::PathBuf;
use test_support::folder::Folder;

/// A folder with a file of credentials.
struct CredentialFolder(Folder);

impl CredentialFolder {
    fn new(name: &str) -> Self {
        Self(Folder::new(name))
    }

    fn file(&self) -> PathBuf {
        self.0.join("credentials.json")
    }

    fn set(&self) -> Arc<FileDocuments> {
        CredentialFile::at(Some(self.file()))
    }

    fn credentials(&self) -> Credentials {
        Credentials::open(self.set())
    }
}

fn new(name: &str, grant: &str, subject: Option<&str>) -> NewCredential {
    let (grants, subject) = (vec![grant.into()], subject.map(str::to_owned));
    NewCredential { principal: name.into(), grants, subject, tsig: None, lifetime: None }
}

fn token(credentials: &Credentials, name: &str) -> String {
    credentials.create(new(name, "read *", None)).expect("created").expect("a token")
}

/// The name of the principal that a token authenticates.
fn principal(credentials: &Credentials, token: &str) -> Result<String, CredentialError> {
    credentials.of_token(token, now_seconds()).map(|principal| principal.name.clone())
}

#[test]
fn a_token_lets_in_until_it_is_revoked_and_after_a_restart() {
    let folder = CredentialFolder::new("token");
    let credentials = folder.credentials();
    let secret = token(&credentials, "ci");
    assert!(secret.starts_with(TOKEN_PREFIX) && secret.len() == TOKEN_PREFIX.len() + 64);
    assert_eq!(principal(&credentials, &secret), Ok("ci".to_owned()));
    let again = folder.credentials();
    assert_eq!(principal(&again, &secret), Ok("ci".to_owned()));
    assert_ne!(token(&again, "other"), secret);
    assert!(principal(&again, &secret[..secret.len() - 1]).is_err());
    again.revoke("ci").expect("revoked");
    assert!(principal(&again, &secret).is_err());
    let last = folder.credentials();
    assert!(principal(&last, &secret).is_err(), "and it stays so");
}

#[test]
fn the_file_holds_no_token_and_only_its_owner_reads_it() {
    let folder = CredentialFolder::new("hash");
    let credentials = folder.credentials();
    let secret = token(&credentials, "ci");
    let kept = fs::read_to_string(folder.file()).expect("kept");
    assert!(!kept.contains(&secret) && !kept.contains(&secret[TOKEN_PREFIX.len()..]), "{kept}");
    assert_eq!(fs::metadata(folder.file()).expect("kept").mode() & 0o777, 0o600);
    let all = credentials.list().expect("a good file");
    assert_eq!((all.len(), all[0].grants.as_slice()), (1, &["read * * *".to_owned()][..]));
}

#[test]
fn a_certificate_is_known_by_any_of_its_names() {
    let folder = CredentialFolder::new("subject");
    let credentials = folder.credentials();
    let request = new("ci", "read *", Some("spiffe://example.org/ci"));
    assert_eq!(credentials.create(request), Ok(None));
    let found = credentials.of_subjects(["ci.example.org", "SPIFFE://example.org/ci"], 0);
    assert_eq!(found.expect("known").name, "ci");
    assert!(credentials.of_subjects(["ci.example.org"], 0).is_err());
    let twice = credentials.create(new("cd", "read *", Some("spiffe://example.org/ci")));
    assert!(twice.expect_err("whose is it?").to_string().contains("another principal's too"));
}

/// During a hot restart both processes use the file.
#[test]
fn the_new_process_reads_what_the_old_one_changed() {
    let folder = CredentialFolder::new("restart");
    let before = folder.credentials();
    let gone = token(&before, "gone");
    let after = folder.credentials();
    before.revoke("gone").expect("revoked");
    let made = token(&before, "made");
    after.read_again().expect("the same file");
    assert!(principal(&after, &gone).is_err() && principal(&after, &made).is_ok());
    fs::write(folder.file(), "damaged").expect("written");
    assert!(after.read_again().is_err());
    assert!(principal(&after, &made).is_ok(), "those of before still hold");
}

#[test]
fn a_leftover_file_with_a_wide_mode_is_replaced() {
    let folder = CredentialFolder::new("mode");
    let beside = folder.file().with_extension("new");
    fs::write(&beside, "").expect("written");
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o666)).expect("ours");
    token(&folder.credentials(), "ci");
    let mode = fs::metadata(folder.file()).expect("written").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_refused_request_changes_nothing() {
    let folder = CredentialFolder::new("wrong");
    let credentials = folder.credentials();
    token(&credentials, "ci");
    for (request, story) in [
        (new("ci", "read *", None), "already: `dunlin token rotate ci`"),
        (new("a b", "read *", None), "not a name for a principal"),
        (new("cd", "steal *", None), "not a verb"),
        (new("cd", "read *", Some("a b")), "alternative names"),
        (new("cd", "write example.org www.example.net", None), "can never match"),
    ] {
        let why = credentials.create(request).expect_err(story).to_string();
        assert!(why.contains(story), "{why}");
    }
    let why = credentials.revoke("cd").expect_err("unknown").to_string();
    assert!(why.contains("no principal \"cd\""), "{why}");
    assert!(credentials.rotate("cd").expect_err("unknown").to_string().contains("no principal"));
    assert_eq!(credentials.list().expect("a good file").len(), 1);
    let without_folder = Credentials::open(CredentialFile::at(None));
    let why = without_folder.create(new("ci", "read *", None)).expect_err("no file").to_string();
    assert!(why.contains("data_dir"), "{why}");
}

#[test]
fn a_damaged_file_is_refused_and_stays() {
    let folder = CredentialFolder::new("file");
    for (text, story) in [
        ("", "not a file of credentials"),
        (r#"{"format":5,"credentials":[]}"#, "has format 5, this version reads 1 to 4"),
        (
            r#"{"format":1,"credentials":[{"principal":"ci","grants":["read *"],
               "created_seconds":1,"token-sha256":"00"}]}"#,
            "not SHA-256",
        ),
    ] {
        fs::write(folder.file(), text).expect("written");
        let credentials = folder.credentials();
        let told = credentials.fault().expect(story);
        assert!(told.contains(story), "{told}");
        let told = credentials.list().expect_err(story).to_string();
        assert!(told.contains(story), "{told}");
        let left = fs::read_to_string(folder.file()).expect("it stays");
        assert_eq!(left, text, "it is not overwritten");
    }
    fs::remove_file(folder.file()).expect("ours");
}

/// A user that may write to the folder creates no principal, and overwrites no other file.
#[test]
fn planted_credentials_are_refused() {
    let folder = CredentialFolder::new("planted");
    let secret = token(&folder.credentials(), "planted");
    let expect = |story: &str| {
        let credentials = folder.credentials();
        assert!(principal(&credentials, &secret).is_err(), "{story}");
        let told = credentials.fault().expect(story);
        assert!(told.contains(story), "{told}");
        let made = credentials.create(new("ci", "read *", None));
        assert_eq!(
            made,
            Err(TokenRefused::NotSaved(told)),
            "nothing is made, and nothing overwritten"
        );
    };
    fs::set_permissions(folder.file(), fs::Permissions::from_mode(0o666)).expect("ours");
    expect("everyone may write to it");
    fs::set_permissions(folder.file(), fs::Permissions::from_mode(0o660)).expect("ours");
    let of_group = folder.credentials();
    assert!(principal(&of_group, &secret).is_ok(), "as Kubernetes makes them for fsGroup");
    let target = folder.0.join("target");
    fs::rename(folder.file(), &target).expect("ours");
    symlink(&target, folder.file()).expect("a link");
    expect("symbolic link");
    fs::rename(&target, folder.file()).expect("in place of the link");
    if is_root() {
        chown(folder.file(), Some(65_533), None).expect("root");
        expect("it belongs to user 65533");
        chown(folder.file(), Some(0), None).expect("root");
    }
    let credentials = folder.credentials();
    assert!(principal(&credentials, &secret).is_ok());
}

#[test]
fn credentials_hold_again_once_their_file_is_good() {
    let folder = CredentialFolder::new("mended");
    let secret = token(&folder.credentials(), "ci");
    let good = fs::read(folder.file()).expect("kept");
    fs::write(folder.file(), "damaged").expect("written");
    let credentials = folder.credentials();
    assert!(credentials.mend().is_err());
    fs::write(folder.file(), good).expect("written");
    credentials.mend().expect("good again");
    assert_eq!(credentials.fault(), None);
    assert!(principal(&credentials, &secret).is_ok());
}

#[test]
fn a_rotated_token_keeps_its_grants_and_ends_the_old_one() {
    let folder = CredentialFolder::new("rotated");
    let credentials = folder.credentials();
    let old = token(&credentials, "ci");
    let grants = credentials.list().expect("a good file").remove(0).grants;
    let new_token = credentials.rotate("ci").expect("rotated");
    assert_eq!(principal(&credentials, &old), Err(CredentialError::Unknown));
    assert_eq!(principal(&credentials, &new_token), Ok("ci".to_owned()));
    assert_eq!(credentials.list().expect("a good file").remove(0).grants, grants);
    let of_certificate = new("cert", "read *", Some("ci.example.org"));
    credentials.create(of_certificate).expect("created");
    let why = credentials.rotate("cert").expect_err("it has no token").to_string();
    assert!(why.contains("ci.example.org"), "{why}");
}

#[test]
fn an_expired_token_is_refused_and_rotation_renews_its_lifetime() {
    let folder = CredentialFolder::new("expired");
    let credentials = folder.credentials();
    let hour = Duration::from_secs(3_600);
    let request = NewCredential { lifetime: Some(hour), ..new("ci", "read *", None) };
    let token = credentials.create(request).expect("created").expect("a token");
    let now = now_seconds();
    assert!(credentials.of_token(&token, now).is_ok());
    let told = credentials.of_token(&token, now + 3_600).expect_err("an hour later");
    assert!(matches!(told, CredentialError::Expired { principal, .. } if principal == "ci"));
    let read = folder.credentials();
    assert!(read.of_token(&token, now + 3_600).is_err(), "the file keeps it");
    let renewed = read.rotate("ci").expect("rotated");
    assert!(read.of_token(&renewed, now + 3_590).is_ok());
    assert!(read.of_token(&renewed, now + 3_700).is_err());
}

/// Older versions wrote no limits of what a token may hide: it may still do it, with a warning.
#[test]
fn token_of_an_older_version_hides_wildcards_with_a_warning() {
    let folder = CredentialFolder::new("older");
    let hiding = |credentials: &Credentials, token: &str| {
        let principal = credentials.of_token(token, now_seconds()).expect("a principal");
        let name = |text: &str| zonefile::read_name(text).expect("a name");
        let (zone, name) = (name("example.org"), name("_acme-challenge.a.example.org"));
        let set = records::SetKey { zone, name, rtype: wire::Rtype::TXT, view: Default::default() };
        records::WriteRights::hiding(&*principal, &set)
    };
    let limited = "write example.org _acme-challenge.*.example.org TXT";
    let credentials = folder.credentials();
    let secret = credentials.create(new("new", limited, None)).expect("created").expect("a token");
    assert_eq!(hiding(&credentials, &secret), records::Hiding::Refused);
    let text = fs::read_to_string(folder.file()).expect("kept");
    assert!(text.contains("\"format\": 3") && text.contains("\"keeps_wildcards\": true"), "{text}");
    assert!(!credentials.list().expect("known")[0].may_hide_with_warning);
    let older = text.replace("\"format\": 3", "\"format\": 1");
    let older = older.replace("\"keeps_wildcards\": true,", "");
    fs::write(folder.file(), older).expect("written");
    let credentials = folder.credentials();
    assert_eq!(hiding(&credentials, &secret), records::Hiding::Warned);
    assert!(credentials.list().expect("known")[0].may_hide_with_warning);
    let rotated = credentials.rotate("new").expect("rotated");
    assert_eq!(hiding(&credentials, &rotated), records::Hiding::Warned, "the grants stay");
    let grant = limited.replace("write", "write,hide-wildcard");
    let secret = credentials.create(new("hides", &grant, None)).expect("created").expect("a token");
    assert_eq!(hiding(&credentials, &secret), records::Hiding::Allowed);
}

/// A version without expiry reads the file as long as no credential expires.
#[test]
fn a_file_without_expiry_has_the_old_format() {
    let folder = CredentialFolder::new("format");
    let credentials = folder.credentials();
    let format = || {
        let text = fs::read_to_string(folder.file()).expect("written");
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON")["format"].clone()
    };
    token(&credentials, "ci");
    assert_eq!(format(), 1);
    let lifetime = Some(Duration::from_secs(60));
    let request = NewCredential { lifetime, ..new("cd", "read *", None) };
    credentials.create(request).expect("created");
    assert_eq!(format(), 2);
    credentials.revoke("cd").expect("revoked");
    assert_eq!(format(), 1);
}

#[test]
fn an_unread_file_is_read_by_the_first_request() {
    let folder = CredentialFolder::new("unread");
    let secret = token(&folder.credentials(), "ci");
    let credentials = Credentials::new(folder.set());
    assert!(principal(&credentials, &secret).is_err(), "not read yet");
    assert_eq!(credentials.list().expect("a good file").len(), 1);
    assert!(principal(&credentials, &secret).is_ok());
    fs::write(folder.file(), "damaged").expect("written");
    let damaged = Credentials::new(folder.set());
    assert!(damaged.list().expect_err("damaged").to_string().contains("not a file of credentials"));
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|found| found.uid() == 0)
}

#[test]
fn key_is_found_by_its_name_in_any_case_and_its_secret_is_only_in_the_file() {
    let folder = CredentialFolder::new("tsig");
    let credentials = folder.credentials();
    let key = |algorithm: &str| NewCredential {
        tsig: Some(algorithm.into()),
        ..new("DDNS.example", "write example.org", None)
    };
    assert!(credentials.create(key("hmac-md5")).is_err(), "MD5 is broken");
    let text = credentials.create(key("hmac-sha512")).expect("created").expect("a key");
    let begin = "key \"DDNS.example\" {\n\talgorithm hmac-sha512;\n\tsecret \"";
    assert!(text.starts_with(begin) && text.ends_with("\";\n};"), "{text}");
    let name = wire::NameBuf::from_text(b"ddns.EXAMPLE", wire::Name::ROOT).expect("a name");
    let found = folder.credentials().of_key(name.as_name()).expect("the file has it");
    assert_eq!(
        (&*found.principal.name, found.key.algorithm().word()),
        ("DDNS.example", "hmac-sha512")
    );
    assert_eq!(credentials.key_names(), std::slice::from_ref(&name));
    let listed = format!("{:?}", credentials.list().expect("known"));
    let secret = text.split('"').nth(3).expect("a secret");
    assert!(listed.contains("hmac-sha512") && !listed.contains(secret), "{listed}");
    let other = NewCredential { principal: "ddns.example".into(), ..key("hmac-sha1") };
    assert!(credentials.create(other).is_err(), "names are equal in any case");
    let rotated = credentials.rotate("DDNS.example").expect("rotated");
    assert!(rotated.starts_with(begin) && rotated != text);
    credentials.revoke("DDNS.example").expect("revoked");
    assert_eq!(credentials.of_key(name.as_name()).err(), Some(CredentialError::Unknown));
}
