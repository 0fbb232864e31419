use super::*;
use crate::study::FindingOutcome;

fn times(ns: u64) -> SparseHistogram {
    SparseHistogram(vec![(SparseHistogram::bucket(ns), 10)])
}

fn run(ns: u64) -> FabricRun {
    let rate = |units| Rate { units, seconds: 0.5 };
    FabricRun {
        round_trips: times(ns),
        pages: times(ns * 2),
        page_rate: rate(1_000),
        packets: rate(2_000),
        bytes: rate(1 << 30),
        memory_left: Some(0.75),
    }
}

fn cell(class: &str, way: &str, ns: u64) -> FabricCell {
    let runs = vec![run(ns), run(ns * 2), run(ns * 9)];
    let isolation = "same process".into();
    FabricCell { class: class.into(), way: way.into(), isolation, checksums: false, runs }
}

fn raw(cells: Vec<FabricCell>) -> FabricStudy {
    let class = |name: &str, cpus| FabricClass { name: name.into(), cpus, line_ns: Some(50.0) };
    let run = AgreementRun {
        decided: Rate { units: 500, seconds: 0.5 },
        times: times(9_000),
        messages: 12_000,
        view_change_ns: 3_000_000,
    };
    FabricStudy {
        is_reproduction: true,
        cpus: 2,
        classes: vec![class("same L3", Some([0, 1])), class("other socket", None)],
        cells,
        agreements: vec![FabricAgreement {
            class: "same L3".into(),
            way: "unix".into(),
            isolation: "same process".into(),
            replicas: 4,
            runs: vec![run],
        }],
        skipped: Vec::new(),
        original: Value::Null,
        findings: Vec::new(),
    }
}

#[test]
fn figures_are_medians_of_runs_and_absent_classes_are_named() {
    let study = FabricStudy::new(raw(vec![cell("same L3", "ring-threads", 1_000)])).unwrap();
    let [statements, classes, ways, agreement] = &study.tables()[..] else { panic!() };
    assert_eq!(statements.rows.len(), study.findings.len());
    assert_eq!(classes.rows[1][1], "absent");
    let row = &ways.rows[0];
    assert_eq!([&row[4], &row[6], &row[9], &row[10]], ["2.0", "20", "2,000", "4,000"]);
    assert_eq!([&row[11], &row[12]], ["17.2", "75 %"]);
    assert_eq!([&agreement.rows[0][4], &agreement.rows[0][8]], ["1,000", "3000.0"]);
    assert!(ways.rows.iter().all(|row| row.len() == ways.head.len()));
    assert!(agreement.rows.iter().all(|row| row.len() == agreement.head.len()));
}

#[test]
fn each_statement_of_the_article_has_an_outcome() {
    let cells = vec![
        cell("same CPU", "ring-threads", 100),
        cell("same L3", "ring-threads", 1_000),
        cell("same L3", "bridge", 4_000),
        cell("same L3", "switch", 1_000),
    ];
    let study = FabricStudy::new(raw(cells)).unwrap();
    let rows = study.original["rows"].as_array().unwrap().len();
    let outcome = |start: &str| {
        study.findings.iter().find(|finding| finding.claim.starts_with(start)).unwrap()
    };
    assert_eq!(rows, 7);
    assert_eq!(outcome("same core").outcome, FindingOutcome::DoesNotHold);
    assert_eq!(outcome("other socket").outcome, FindingOutcome::NotVisible);
    assert_eq!(outcome("The nearer").outcome, FindingOutcome::Holds);
    assert!(outcome("A bare switch").because.ends_with("same L3 0.25 of the bridge's"));
    let large = outcome("8,191 replicas");
    assert!(large.because.contains("2 x 8,191 x 8,191 = 134,184,962"), "{}", large.because);
    assert_eq!(outcome("4 replicas: 3 M").outcome, FindingOutcome::DoesNotHold);
}

#[test]
fn runs_without_times_are_errors() {
    let mut study = raw(vec![cell("same L3", "ring", 100)]);
    study.cells[0].runs[1].round_trips = SparseHistogram::default();
    assert!(FabricStudy::new(study.clone()).unwrap_err().contains("a run without times"));
    study.cells.clear();
    study.agreements[0].runs[0].decided.units = 0;
    assert!(FabricStudy::new(study).is_err());
}
