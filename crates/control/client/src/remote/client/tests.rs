use super::*;

#[test]
fn token_is_one_word_or_absent() {
    let read = |text: &str| read_token(None, Some(text.into()));
    assert_eq!(read_token(None, None), Ok(None));
    assert_eq!(read("dunlin_1\n"), Ok(Some("dunlin_1".into())));
    for (wrong, why) in [("", "is empty"), (" \n", "is empty"), ("dunlin_1\nx", "one word")] {
        let error = read(wrong).expect_err(wrong);
        assert!(error.starts_with(TOKEN) && error.contains(why), "{error}");
        assert!(!error.contains("dunlin_1"), "{error}");
    }
    let missing = read_token(Some(Path::new("/does/not/exist")), None).expect_err("no file");
    assert!(missing.starts_with("/does/not/exist: cannot be read"), "{missing}");
}

#[test]
fn path_segments_have_no_separators() {
    let segments = ["www.example.org.", "*.a", "a/b?c#d", "..", ".", "\\000"].map(path_segment);
    let expected = ["www.example.org.", "%2A.a", "a%2Fb%3Fc%23d", "%2E%2E", "%2E", "%5C000"];
    assert_eq!(segments, expected);
}
