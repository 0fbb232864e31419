//! What Prometheus itself makes of `/metrics`, of every panel of the dashboard, and of the alerts.
use test_support::ports;
use test_support::wait;

use crate::common::{PATIENCE, Server, is_present, ops, rest, working};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

#[test]
fn promtool_accepts_the_metrics() {
    if !is_present("promtool", "prometheus") {
        return;
    }
    let server = Server::start(ops(working()));
    let (_, text) = server.get("/metrics", "");
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(output.status.success() && said.is_empty(), "{said}\n{text}");
}

fn dashboard() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/grafana/dunlin.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Every expression, with its panel's title.
fn expressions(dashboard: &Value) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let words = |value: &Value| value.as_str().unwrap().to_owned();
            all.push((words(&panel["title"]), words(&target["expr"])));
        }
    }
    all
}

#[test]
fn the_dashboard_is_one_grafana_can_load() {
    let dashboard = dashboard();
    assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 36, "since 36 sources are objects");
    assert!(dashboard["id"].is_null(), "an id would be that of one Grafana");
    for field in ["uid", "title"] {
        assert!(!dashboard[field].as_str().unwrap().is_empty(), "{field}");
    }
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let source = variables.iter().find(|variable| variable["name"] == "datasource").unwrap();
    assert_eq!((&source["type"], &source["query"]), (&"datasource".into(), &"prometheus".into()));

    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: two with one id");
        for side in ["h", "w", "x", "y"] {
            assert!(panel["gridPos"][side].is_u64(), "{title}: {side}");
        }
        let of = |side: &str| panel["gridPos"][side].as_u64().unwrap();
        assert!(of("x") + of("w") <= 24, "{title}: wider than the grid");
        if panel["type"] == "row" {
            continue;
        }
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{title}: shows nothing");
        for place in targets.iter().chain([panel]) {
            assert_eq!(place["datasource"]["uid"], "${datasource}", "{title}");
        }
    }
}

/// The kind of each metric, by its name; of a histogram, by the names of its series.
fn kinds(text: &str) -> BTreeMap<String, String> {
    let heads = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let mut kinds = BTreeMap::new();
    for (name, kind) in heads.filter_map(|head| head.split_once(' ')) {
        let ends = if kind == "histogram" { &["_bucket", "_count", "_sum"][..] } else { &[""] };
        kinds.extend(ends.iter().map(|end| (format!("{name}{end}"), kind.to_owned())));
    }
    kinds
}

/// Holds that each metric of an expression exists, and that what is taken of it suits its kind;
/// gives how many there are.
fn check_metrics(title: &str, expression: &str, kinds: &BTreeMap<String, String>) -> usize {
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let is_ours = |name: &str| ["dunlin_", "process_"].iter().any(|own| name.starts_with(own));
    let mut count = 0;
    for (at, name) in expression.match_indices(is_word).filter_map(|(at, _)| {
        let begins = !expression[..at].ends_with(is_word);
        begins
            .then(|| (at, expression[at..].split(|character| !is_word(character)).next().unwrap()))
    }) {
        if !is_ours(name) {
            continue;
        }
        let kind = kinds.get(name).unwrap_or_else(|| panic!("{title}: there is no {name}"));
        let of_counters = ["rate(", "increase("].iter().any(|f| expression[..at].ends_with(f));
        assert_eq!(of_counters, kind != "gauge", "{title}: {name} is a {kind}: {expression}");
        count += 1;
    }
    count
}

#[test]
fn every_metric_of_the_dashboard_exists() {
    let server = Server::start(ops(working()));
    let kinds = kinds(&server.get("/metrics", "").1);
    let check = |(title, expression): &(String, String)| check_metrics(title, expression, &kinds);
    let count: usize = expressions(&dashboard()).iter().map(check).sum();
    assert!(count > 30, "{count}");
}

#[test]
fn every_metric_is_in_the_dashboard() {
    let server = Server::start(ops(working()));
    let shown: String = expressions(&dashboard()).into_iter().map(|(_, e)| e + "\n").collect();
    let text = server.get("/metrics", "").1;
    let heads = text.lines().filter_map(|line| line.strip_prefix("# TYPE dunlin_"));
    let names = heads.filter_map(|head| head.split_once(' ').map(|(name, _)| name));
    let lacking: Vec<_> = names.filter(|name| !shown.contains(&format!("dunlin_{name}"))).collect();
    assert!(lacking.is_empty(), "{lacking:?}");
}

const RULES: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/prometheus/dunlin.rules.yml");

/// Every alert of the example.
fn alerts() -> Vec<Value> {
    let rules: Value = serde_saphyr::from_str(&fs::read_to_string(RULES).unwrap()).unwrap();
    let groups = rules["groups"].as_array().unwrap().iter();
    groups.flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

#[test]
fn every_alert_uses_existing_metrics_and_gives_advice() {
    let server = Server::start(ops(working()));
    let kinds = kinds(&server.get("/metrics", "").1);
    for alert in alerts() {
        let field = |name: &str| alert.pointer(name).and_then(Value::as_str).unwrap_or_default();
        let (title, expression) = (field("/alert"), field("/expr"));
        assert!(title.starts_with("Dunlin"), "{alert}");
        let count = check_metrics(title, expression, &kinds);
        assert!(count > 0 || expression.starts_with("up{"), "{title}: {expression}");
        assert!(field("/for").ends_with(['m', 'h']), "{title}: a moment is not a trouble");
        let severity = field("/labels/severity");
        assert!(["critical", "warning", "info"].contains(&severity), "{title}: {severity}");
        let summary = field("/annotations/summary");
        assert!(summary.contains("{{ $labels.") && summary.contains(": "), "{title}: {summary}");
    }
}

/// The case beside this has one server that is well, and one with every trouble at once.
#[test]
fn every_alert_fires_only_for_its_fault() {
    if !is_present("promtool", "prometheus") {
        return;
    }
    let case = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/alerts.yml");
    let text = fs::read_to_string(case).unwrap();
    for alert in alerts() {
        let title = alert["alert"].as_str().unwrap();
        assert!(text.contains(&format!("alertname=\"{title}\"")), "{title} is not tried");
    }
    for words in [["check", "rules", RULES], ["test", "rules", case]] {
        let output = Command::new("promtool").args(words).output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{said}");
    }
}

/// A Prometheus of our own, in a folder of its own.
struct Prometheus {
    address: SocketAddr,
    process: Child,
}

impl Prometheus {
    fn start(target: SocketAddr) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("prometheus");
        // What an earlier run left.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let config = folder.join("prometheus.yml");
        let yaml = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n\
             - {{job_name: dunlin, static_configs: [{{targets: [\"{target}\"]}}]}}\n"
        );
        fs::write(&config, yaml).unwrap();
        let free = ports::free_address(Ipv4Addr::LOCALHOST);
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={free}"))
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.join("log")).unwrap())
            .spawn()
            .unwrap();
        Self { address: free.into(), process }
    }

    /// What an expression gives, or why nothing.
    fn query(&self, expression: &str) -> Result<Vec<Value>, String> {
        let query: String =
            expression.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
        let mut stream = TcpStream::connect(self.address).map_err(|why| why.to_string())?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(|why| why.to_string())?;
        let request = format!("GET /api/v1/query?query={query} HTTP/1.0\r\n\r\n");
        stream.write_all(request.as_bytes()).map_err(|why| why.to_string())?;
        let response = rest(&mut stream);
        let body = response.split_once("\r\n\r\n").ok_or("no response")?.1;
        let json: Value = serde_json::from_str(body).map_err(|_| body.to_owned())?;
        match json["data"]["result"].as_array() {
            Some(found) if !found.is_empty() => Ok(found.clone()),
            _ => Err(body.to_owned()),
        }
    }

    /// As [`Prometheus::query`], as soon as there is something.
    fn wait(&self, expression: &str) -> Vec<Value> {
        wait::until_ok(expression, || self.query(expression))
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn prometheus_fills_every_panel() {
    if !is_present("prometheus", "prometheus") {
        return;
    }
    let server = Server::start(ops(working()));
    let prometheus = Prometheus::start(server.address);
    // Two scrapes make a rate. They are read by the parser of OpenMetrics, which Prometheus
    // prefers; a line it does not understand makes `up` 0.
    prometheus.wait("up == 1 and on (instance) rate(dunlin_bursts_total[30s]) > 0");
    let odd = prometheus.wait(r#"dunlin_zone_serial{zone="od\"d\\010.test."}"#);
    assert_eq!(odd[0]["value"][1], "7", "labels come through");
    for (title, expression) in expressions(&dashboard()) {
        let expression = expression.replace("$__rate_interval", "30s").replace("$instance", ".*");
        let found = prometheus.wait(&expression);
        assert!(!found.is_empty(), "{title}: {expression}");
    }
}
