use crate::{data_text, read_data};
use wire::Rtype;

/// The text of each form as BIND 9.18 writes it, but with algorithms and protocols as numbers.
#[test]
fn text_of_rare_types_is_read_and_written() {
    for (rtype, text, written) in [
        (
            Rtype::APL,
            "1:192.168.32.0/21 !1:192.168.38.0/28 2:FF00:0:0:0:0:0:0:0/8 1:0.0.0.0/0",
            "1:192.168.32.0/21 !1:192.168.38.0/28 2:ff00::/8 1:0.0.0.0/0",
        ),
        (Rtype::AVC, "\"a:b\"", "\"a:b\""),
        (Rtype::NSAP, "0x47.0005.80.005a00", "0x47000580005A00"),
        (Rtype::NSAP_PTR, "foo.example", "foo.example."),
        (Rtype::AMTRELAY, "10 0 1 203.0.113.15", "10 0 1 203.0.113.15"),
        (Rtype::AMTRELAY, "10 1 0 .", "10 1 0 ."),
        (Rtype::AMTRELAY, "10 0 2 2001:db8::15", "10 0 2 2001:db8::15"),
        (Rtype::AMTRELAY, "128 1 3 relay.example.", "128 1 3 relay.example."),
        (Rtype::RESINFO, "qnamemin exterr=15-17", "\"qnamemin\" \"exterr=15-17\""),
        (Rtype::DSYNC, "CDS NOTIFY 5359 a.example.", "CDS 1 5359 a.example."),
        (Rtype::WALLET, "\"BTC\" \"x\"", "\"BTC\" \"x\""),
        (Rtype::X25, "311061700956", "\"311061700956\""),
        (Rtype::ISDN, "150862028003217 004", "\"150862028003217\" \"004\""),
        (Rtype::ISDN, "150862028003217", "\"150862028003217\""),
        (Rtype::GPOS, "-32.6882 116.8652 10.0", "\"-32.6882\" \"116.8652\" \"10.0\""),
        (
            Rtype::HIP,
            "2 200100107B1A74DF365639CC39F1D578 AwEAAbdxyhNuSutc rvs1.example. rvs2.example.",
            "2 200100107B1A74DF365639CC39F1D578 AwEAAbdxyhNuSutc rvs1.example. rvs2.example.",
        ),
        (Rtype::WKS, "192.0.2.1 TCP smtp domain 80", "192.0.2.1 6 25 53 80"),
        (Rtype::WKS, "192.0.2.1 17", "192.0.2.1 17"),
        (Rtype::EID, "1289 AB", "1289AB"),
        (Rtype::NIMLOC, "4321", "4321"),
        (Rtype::NINFO, "\"x\" \"y\"", "\"x\" \"y\""),
        (Rtype::RKEY, "0 255 1 AQPSKmynfzW4", "0 255 1 AQPSKmynfzW4"),
        (Rtype::TALINK, "h0.example. h1.example.", "h0.example. h1.example."),
        (Rtype::A6, "0 2001:db8::1", "0 2001:db8::1"),
        (Rtype::A6, "64 ::1 sub.example.", "64 ::1 sub.example."),
        (Rtype::A6, "61 ::1:2:3:4 sub.example.", "61 ::1:2:3:4 sub.example."),
        (Rtype::A6, "128 sub.example.", "128 sub.example."),
        (Rtype::DOA, "1 2 1 \"image/gif\" R0lGODlhKAAZ", "1 2 1 \"image/gif\" R0lGODlhKAAZ"),
        (Rtype::DOA, "0 1 2 \"\" -", "0 1 2 \"\" -"),
        (Rtype::SINK, "1 0 0 AQIDBA==", "1 0 0 AQIDBA=="),
        (Rtype::ATMA, "39.246f", "39246F"),
        (Rtype::ATMA, "+61200000000", "+61200000000"),
        (Rtype::NXT, "a.example. A NXT", "a.example. A NXT"),
        (Rtype::IPN, "18446744073709551615", "18446744073709551615"),
        (Rtype::CLA, "tcp-v4-xxx", "\"tcp-v4-xxx\""),
        (
            Rtype::NSEC,
            "a.example. TYPE65280 A APL AVC NSAP NSAP-PTR A6 X25 TALINK DOA WALLET RESINFO",
            "a.example. A X25 NSAP NSAP-PTR A6 APL TALINK AVC DOA RESINFO WALLET TYPE65280",
        ),
        (
            Rtype::NSEC3,
            "1 1 12 aabbccdd 2t7b4g4vsa5smi47k61mv5bv1a22bojr DSYNC HIP WKS AMTRELAY",
            "1 1 12 AABBCCDD 2T7B4G4VSA5SMI47K61MV5BV1A22BOJR WKS HIP DSYNC AMTRELAY",
        ),
        (Rtype::CSYNC, "66 3 GPOS EID NIMLOC NINFO", "66 3 GPOS EID NIMLOC NINFO"),
        (Rtype::AFSDB, "1 afs.example.", "1 afs.example."),
        (Rtype::CERT, "PGP 0 RSASHA1 AAAA", "3 0 5 AAAA"),
    ] {
        let data = read_data(rtype, text).expect(text);
        assert_eq!(data_text(rtype, &data), written, "{rtype}");
        assert_eq!(read_data(rtype, written), Ok(data), "{rtype} {written}");
    }
    assert_eq!(read_data(Rtype::APL, ""), Ok(Vec::new()));
}

#[test]
fn invalid_data_of_rare_types_is_refused() {
    for (rtype, text, why) in [
        (Rtype::APL, "192.0.2.0/24", "not a prefix"),
        (Rtype::APL, "2:192.0.2.0/24", "not a prefix"),
        (Rtype::APL, "1:192.0.2.0/33", "not a prefix"),
        (Rtype::NSAP, "47", "not an NSAP address"),
        (Rtype::NSAP, "0x4", "odd"),
        (Rtype::AMTRELAY, "1 2 1 192.0.2.1", "0 or 1"),
        (Rtype::AMTRELAY, "1 0 4 x", "not a relay type"),
        (Rtype::AMTRELAY, "1 0 0 x", "type 0 is `.`"),
        (Rtype::GPOS, "-181 0 0", "not a longitude"),
        (Rtype::GPOS, "0 nan 0", "not a latitude"),
        (Rtype::WKS, "192.0.2.1 TCP 65536", "not a port"),
        (Rtype::WKS, "192.0.2.1 TCP nosuchservice", "not a port"),
        (Rtype::HIP, "2 20", "a public key is missing"),
        (Rtype::HIP, "2 2 AAAA", "odd"),
        (Rtype::A6, "129 ::1", "at most 128"),
        (Rtype::DOA, "0 1 2 \"\"", "missing"),
        (Rtype::ATMA, "+", "not a telephone number"),
        (Rtype::NXT, "a.example. CAA", "below 128"),
        (Rtype::NSEC, "a.example. FOO", "`FOO` is not a record type"),
        (Rtype::DSYNC, "CDS 256 1 a.", "not a scheme"),
        (Rtype::UINFO, "x", r"write it as `TYPE100 \# LENGTH HEX`"),
        (Rtype::UNSPEC, "x", r"write it as `TYPE103 \# LENGTH HEX`"),
        (Rtype(65280), "x", r"write it as `TYPE65280 \# LENGTH HEX`"),
        (Rtype::A6, r"\# 1 00", "not the data of a A6 record"),
        (Rtype::WKS, r"\# 6 c00002010600", "not the data of a WKS record"),
    ] {
        let fault = read_data(rtype, text).expect_err(text).to_string();
        assert!(fault.contains(why), "{rtype} {text}: {fault}");
    }
}
