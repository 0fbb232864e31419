//! The Helm chart: its values, what they lead to, and an install beside a Service `kube-dns`.
use super::packaging;
use cluster::{Cluster, objects};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use test_support::{skip, tools};

/// The resolvers of most installs; others have those of the node.
const UPSTREAMS: &str = "upstreams={198.51.100.1,198.51.100.2}";

/// The address of a Service for clients outside.
const PUBLIC: &str = "loadBalancer.annotations.metallb\\.io/loadBalancerIPs=192.0.2.54";

/// A network of Pods; Helm reads a comma as the end of a value.
const NETWORKS: &str = "networks=[[network]]\nname = \"payment\"\nnamespaces = [\"pci-*\"]\n";

/// Values of the chart beside the resolvers, and how many objects they lead to.
const VALUES: [(&[&str], usize); 10] = [
    (&[], 7),
    (&[NETWORKS, "nodeLocations=true"], 7),
    (&["cpus.enabled=true", "cpus.policy=none"], 12),
    (&["loadBalancer.enabled=true", PUBLIC], 8),
    (&["anycast.enabled=true", "anycast.addresses={192.0.2.54,2001:db8::54}"], 10),
    (
        &[
            "multiclusterZones={clusterset.local}",
            "exports=true",
            "shared=svc.example",
            "recordsFrom={dns_endpoints,gateways}",
            "recordZones.shop\\.example={shop}",
            "recordZones.apps\\.example={*}",
        ],
        7,
    ),
    (&["joinKubeDns=true", "replicas=3", "image=registry.example/dunlin:1"], 7),
    (&["service.name=kube-dns", "service.clusterIP=10.96.0.10", "nodeLocal.enabled=true"], 10),
    (
        &[
            "nodeLocal.enabled=true",
            "nodeLocal.clusterDNS=10.96.0.10",
            "scale.enabled=true",
            "scale.linear.max=9",
            "imagePullSecrets={registry}",
            "nodeSelector.pool=system",
            "tolerations[0].key=dedicated",
            "tolerations[0].operator=Exists",
            "nodeLocal.resources.limits.memory=96Mi",
            "affinity.podAntiAffinity.\
             requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey=zone",
        ],
        18,
    ),
    (
        &[
            "pods=verified",
            "ttl=30s",
            "negativeTtl=10s",
            "zones={cluster.local,other.local}",
            "multiclusterZones={clusterset.local}",
            "stubDomains.corp\\.example={192.0.2.10}",
            "nodeLocal.enabled=true",
            "nodeLocal.clusterDNS=10.96.0.10",
            "nodeLocal.address=169.254.25.10",
        ],
        10,
    ),
];

/// Values that the chart refuses, and what it says.
const REFUSED: [(&[&str], &str); 6] = [
    (&[UPSTREAMS, "clusterIP=10.96.0.10"], "additional properties 'clusterIP' not allowed"),
    (&[UPSTREAMS, "service.create=false"], "additional properties 'create' not allowed"),
    (&[UPSTREAMS, "scale.max=9"], "additional properties 'max' not allowed"),
    (&[UPSTREAMS, "pods=some"], "value must be one of 'disabled', 'verified', 'insecure'"),
    (
        &[UPSTREAMS, "recordsFrom={pods}"],
        "value must be one of 'dns_endpoints', 'ingresses', 'gateways'",
    ),
    (&[UPSTREAMS, "nodeLocal.enabled=true"], "nodeLocal.clusterDNS: name the address"),
];

/// Helm with a folder of its own.
pub fn helm(folder: &Path) -> Result<Command, String> {
    let mut command = Command::new(tools::go("helm", "HELM")?);
    command.env("HOME", folder);
    Ok(command)
}

/// The objects of a set of values, as text.
fn template(values: &[&str], folder: &Path) -> String {
    let mut command = helm(folder).expect("it is there");
    command.args(["template", "dunlin"]).arg(packaging()).args(["--set", UPSTREAMS]);
    for value in values {
        command.args(["--set", value]);
    }
    let output = command.output().expect("helm runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{values:?}: {told}");
    String::from_utf8(output.stdout).expect("text")
}

/// Objects of each set of values are valid for the API server, and the chart can be installed.
pub fn check(cluster: &Cluster, folder: &Path) {
    if let Err(missing) = helm(folder) {
        return skip::skip(&missing);
    }
    for (values, count) in VALUES {
        let text = template(values, folder);
        let applied = cluster.kubectl(&["apply", "--dry-run=server", "-f", "-"], &text);
        let applied = applied.unwrap_or_else(|why| panic!("{values:?}: {why}\n{text}"));
        assert_eq!(applied.lines().count(), count, "{values:?}: {applied}");
    }
    install_beside_kube_dns(cluster, folder);
}

#[test]
#[ignore = "cluster: it runs Helm"]
fn values_stand_in_the_objects_and_lead_to_valid_configs() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubernetes-chart");
    std::fs::create_dir_all(&folder).expect("a folder");
    if let Err(missing) = helm(&folder) {
        return skip::skip(&missing);
    }
    for (values, count) in VALUES {
        let text = template(values, &folder);
        let all = super::objects(&text);
        assert_eq!(all.len(), count, "{values:?}: {text}");
        super::check_configs(&all, &folder);
        check_values(values, &text);
    }
    let text = template(&["upstreams=null"], &folder);
    assert!(text.contains("\".\" = \"resolv.conf\""), "{text}");
}

/// What the values say stands in the objects.
fn check_values(values: &[&str], text: &str) {
    let wanted: &[(&str, &[&str])] = &[
        ("replicas=3", &["replicas: 3"]),
        ("image=registry.example/dunlin:1", &["image: registry.example/dunlin:1"]),
        ("joinKubeDns=true", &["        k8s-app: kube-dns\n"]),
        (
            "service.name=kube-dns",
            &["  name: kube-dns\n", "clusterIP: 10.96.0.10\n", "\"kube-system/kube-dns\""],
        ),
        ("imagePullSecrets={registry}", &["imagePullSecrets:\n      - name: registry\n"]),
        ("nodeSelector.pool=system", &["        pool: system\n"]),
        ("tolerations[0].key=dedicated", &["- key: dedicated\n"]),
        ("nodeLocal.resources.limits.memory=96Mi", &["memory: 96Mi\n", "memory: 512Mi\n"]),
        ("ttl=30s", &["ttl = \"30s\"\n    negative_ttl = \"10s\"\n"]),
        ("stubDomains.corp\\.example={192.0.2.10}", &["\"corp.example\" = [\"192.0.2.10\"]"]),
        ("scale.linear.max=9", &["\"max\":9", "--target=deployment/dunlin-dns"]),
        ("cpus.policy=none", &["policy = \"none\"", "- --events\n", "fieldPath: spec.nodeName"]),
        (
            PUBLIC,
            &[
                "  name: dunlin-dns-public\n",
                "loadBalancerIPs: 192.0.2.54\n",
                "type: LoadBalancer\n",
            ],
        ),
        (
            "anycast.enabled=true",
            &["\n    listen = [\"192.0.2.54\",\"2001:db8::54\"]", "path: /dev/net/tun\n"],
        ),
        ("pods=verified", &["- pods\n", "pods = \"verified\""]),
        (NETWORKS, &["- pods\n", "\n    namespaces = [\"pci-*\"]\n"]),
        ("nodeLocations=true", &["- nodes\n", "\n    node_locations = true\n"]),
        ("zones={cluster.local,other.local}", &["zones = [\"cluster.local\",\"other.local\"]"]),
        (
            "multiclusterZones={clusterset.local}",
            &["- serviceimports\n", "multicluster_zones = [\"clusterset.local\"]"],
        ),
        (
            "nodeLocal.clusterDNS=10.96.0.10",
            &["\"cluster.local\" = { servers = [\"10.96.0.10\"], ttl_max"],
        ),
        ("exports=true", &["- serviceexports\n", "\n    exports = true\n"]),
        ("shared=svc.example", &["\n    shared = \"svc.example\"\n"]),
        (
            "recordsFrom={dns_endpoints,gateways}",
            &[
                "records_from = [\"dns_endpoints\",\"gateways\"]",
                "{ \"apps.example\" = [\"*\"], \"shop.example\" = [\"shop\"] }",
                "- dnsendpoints/status\n",
                "- httproutes\n",
                "- events\n",
            ],
        ),
        ("nodeLocal.address=169.254.25.10", &["listen = [\"169.254.25.10:53\"]"]),
    ];
    for (_, parts) in wanted.iter().filter(|(value, _)| values.contains(value)) {
        for part in *parts {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
    assert!(!text.contains("deployment/coredns"), "{text}");
    assert!(text.contains("\".\" = [\"198.51.100.1\",\"198.51.100.2\"]"), "{text}");
}

/// The chart is installed where the Service kube-dns exists; it lets its Pods join it.
fn install_beside_kube_dns(cluster: &Cluster, folder: &Path) {
    let ip = json!({ "clusterIP": "10.96.0.10", "selector": { "k8s-app": "kube-dns" } });
    cluster.create(&objects::service("kube-system", "kube-dns", &[("dns", "UDP", 53)], ip));
    let run = |words: &[&str], values: &[&str]| {
        let mut command = helm(folder).expect("it is there");
        command.args(words).arg(packaging()).args(["--namespace", "kube-system"]);
        command.arg("--kubeconfig").arg(cluster.kubeconfig());
        for value in values {
            command.args(["--set", value]);
        }
        let output = command.output().expect("helm runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (is_done, told) = run(&["install", "dunlin"], &[UPSTREAMS]);
    assert!(is_done, "{told}");
    let label = || {
        let path = "/apis/apps/v1/namespaces/kube-system/deployments/dunlin-dns";
        let deployment = cluster.get(path).expect("the Deployment");
        deployment["spec"]["template"]["metadata"]["labels"]["k8s-app"].clone()
    };
    assert_eq!(label(), Value::Null, "no query of the Service goes to its Pods yet");
    let (is_done, told) = run(&["upgrade", "dunlin"], &[UPSTREAMS, "joinKubeDns=true"]);
    assert!(is_done, "{told}");
    assert_eq!(label(), "kube-dns");
    let own = [UPSTREAMS, "service.name=kube-dns", "service.clusterIP=10.96.0.10"];
    let (is_done, told) = run(&["upgrade", "dunlin"], &own);
    assert!(!is_done && told.contains("set joinKubeDns=true"), "{told}");
}

#[test]
#[ignore = "cluster: it runs Helm"]
fn values_that_the_chart_does_not_have_are_refused() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubernetes-values");
    std::fs::create_dir_all(&folder).expect("a folder");
    for (values, expected) in REFUSED {
        let mut command = match helm(&folder) {
            Ok(command) => command,
            Err(missing) => return skip::skip(&missing),
        };
        command.args(["template", "dunlin"]).arg(packaging());
        for value in values {
            command.args(["--set", value]);
        }
        let output = command.output().expect("helm runs");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && told.contains(expected), "{values:?}: {told}");
    }
}

/// Each value stands in the schema, and the schema has no other.
#[test]
fn schema_of_the_chart_has_its_values() {
    fn compare(place: &str, schema: &Value, values: &Value) {
        let (Some(properties), Some(values)) =
            (schema["properties"].as_object(), values.as_object())
        else {
            return;
        };
        assert_eq!(schema["additionalProperties"], false, "{place}");
        // Helm gives each chart `global`.
        let known: Vec<&String> = properties.keys().filter(|key| *key != "global").collect();
        assert_eq!(known, Vec::from_iter(values.keys()), "{place}");
        for (key, value) in values {
            compare(&format!("{place}.{key}"), &properties[key], value);
        }
    }
    let read = |file: &str| std::fs::read_to_string(packaging().join(file)).expect("a file");
    let schema: Value = serde_json::from_str(&read("values.schema.json")).expect("JSON");
    let values: Value = serde_saphyr::from_str(&read("values.yaml")).expect("YAML");
    compare("values", &schema, &values);
}
