use super::*;
use clap::Parser;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    load: Load,
}

fn parse(words: &str) -> Result<Load, String> {
    let words = ["load"].into_iter().chain(words.split_whitespace());
    Line::try_parse_from(words).map(|line| line.load).map_err(|error| error.to_string())
}

fn options(words: &str) -> Options {
    parse(words).unwrap().options().unwrap()
}

#[test]
fn dnsperf_flags_keep_their_meaning() {
    let plain = options("--pattern a{i} -s 192.0.2.1 -p 5300");
    assert_eq!(plain.server.to_string(), "192.0.2.1:5300");
    assert_eq!(plain.when, LoadMode::Closed { outstanding: 100, rate_max: None });
    assert_eq!((plain.timeout_ns, plain.channels, plain.threads), (5_000_000_000, 1, 1));
    let all = options("--pattern a{i} -q 7 -Q 5000 -c 4 -T 2 -t 0.5 -l 3 -n 2 -S 2 -f inet6");
    assert_eq!(all.when, LoadMode::Closed { outstanding: 7, rate_max: Some(5_000.0) });
    assert_eq!((all.timeout_ns, all.channels, all.threads), (500_000_000, 4, 2));
    assert_eq!((all.length_ns, all.queries_max), (3_000_000_000, Some(20_000)));
    assert_eq!(all.interval_ns, 2_000_000_000);
    assert_eq!(all.server.to_string(), "[::1]:53");
    assert_eq!(options("--pattern a{i} -x 5000 -c 3").source_port, Some(5_000));
    let form = parse("--pattern a{i} -E 8:0001180a0000").unwrap().what.form();
    assert_eq!(form.option, Some("8:0001180a0000".parse().unwrap()));
    assert_eq!(form.tail(), 11 + 4 + 6, "EDNS is implied");
    assert_eq!(parse("--pattern a{i} -D").unwrap().what.form().tail(), 11, "here, too");
    for wrong in ["-E 8:xyz", "-E 8", "-x 0", "-x 65536", "-x 5000 --churn 1s"] {
        assert!(parse(&format!("--pattern a{{i}} {wrong}")).is_err(), "{wrong}");
    }
}

#[test]
fn a_rate_opens_the_loop() {
    let open = options("--pattern a{i} --rate ramp:1k-5k --poisson --ports 3 -c 2");
    let LoadMode::Open(arrivals) = &open.when else { panic!("{open:?}") };
    assert_eq!(arrivals.rate, Rate::Ramp(1e3, 5e3));
    assert_eq!((arrivals.spacing, open.channels), (Spacing::Poisson, 6));
    assert!(parse("--pattern a --rate 5k -q 3").is_err());
    assert!(parse("--pattern a --poisson").is_err());
}

#[test]
fn an_echo_is_a_model_or_an_address() {
    let beside = |word: &str| {
        parse(&format!("--pattern a --against-echo {word}")).map(|l| l.judged.against_echo)
    };
    assert_eq!(beside("recvmmsg"), Ok(Some(Reference::Started(Model::Recvmmsg))));
    let address = "192.0.2.1:5353".parse().unwrap();
    assert_eq!(beside("192.0.2.1:5353"), Ok(Some(Reference::At(address))));
    let wrong = beside("192.0.2.1").unwrap_err();
    assert!(wrong.contains("with its port, or a model: blocking, spin"), "{wrong}");
}

#[test]
fn a_path_is_for_udp() {
    let path = |words: &str| options(&format!("--pattern a {words}")).path;
    assert_eq!(path("--path io_uring"), Path::Uring { segments: false });
    assert_eq!(path("--path io_uring --segments"), Path::Uring { segments: true });
    assert_eq!(path("--path sockets"), Path::Udp { segments: false });
    assert_eq!(path("--path af_xdp --interface gen0"), Path::Xdp);
    let device = "--device net_memif0,role=client --server-mac 02:00:00:00:00:53 -a 10.0.0.1";
    let dpdk = options(&format!("--pattern a --path dpdk {device}"));
    let peer = dpdk.dpdk.expect("a device");
    assert_eq!((peer.server_mac[5], dpdk.path), (0x53, Path::Dpdk));
    assert_eq!(peer.device, "net_memif0,role=client");
    for wrong in [
        "--path io_uring -m tcp",
        "--path af_xdp -m tcp",
        "--path af_xdp --segments",
        "--interface gen0",
        "--path dpdk",
        "--path dpdk --device net_memif0 --server-mac 02:00:00:00:00:53",
        "--device net_memif0 --server-mac 02:00:00:00:00:53",
        "--path dpdk -m tcp",
    ] {
        assert!(parse(&format!("--pattern a {wrong}")).unwrap().options().is_err(), "{wrong}");
    }
}

#[test]
fn missing_names_and_invalid_shares_are_refused() {
    assert!(parse("-s 192.0.2.1").unwrap_err().contains("--pattern"));
    let QuerySource::Questions(what) =
        options("--pattern a{i} --hit-rate 0.75 --order zipf:1").asks
    else {
        panic!("no questions");
    };
    assert_eq!((what.unique, what.order), (0.25, Order::Zipf(1.0)));
    let wrong = parse("--pattern a{i} --unique 2").unwrap().options().unwrap_err();
    assert!(wrong.contains("0 to 1"), "{wrong}");
    let QuerySource::Lookups(lookups) = options("--pattern a{i} --names 3 --fleet").asks else {
        panic!("no lookups");
    };
    assert_eq!(lookups.len(), 3);
}
