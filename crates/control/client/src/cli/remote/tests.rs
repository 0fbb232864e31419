//! Times and lifetimes on the command line.
use crate::cli::values::{read_lifetime, read_seconds};

#[test]
fn lifetime_has_a_unit() {
    assert_eq!(read_lifetime("90d"), Ok(90 * 86_400));
    let error = read_lifetime("90").expect_err("no unit");
    assert!(error.contains("90d"), "{error}");
    for wrong in ["d", "5y", "0s", "0d"] {
        let error = read_lifetime(wrong).expect_err(wrong);
        assert!(error.contains("90d"), "{error}");
    }
}

#[test]
fn ttl_has_a_unit_or_none() {
    assert_eq!(read_seconds("0"), Ok(0));
    assert_eq!(read_seconds("90s"), Ok(90));
    assert_eq!(read_seconds("1h"), Ok(3_600));
    assert_eq!(read_seconds("2147483647"), Ok(2_147_483_647));
    for wrong in ["", "h", "-1", "1.5h", "1H", "2147483648", "4000w", "1 h"] {
        assert!(read_seconds(wrong).is_err(), "{wrong}");
    }
}
