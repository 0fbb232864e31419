//! The Kubernetes manifest: every object is valid, and they match each other.
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::process::Command;

const MANIFEST: &str = include_str!("../../../../packaging/kubernetes/dunlin.yaml");

const SCALE: &str = include_str!("../../../../packaging/kubernetes/dunlin-scale.yaml");

/// The objects of a manifest.
fn objects(manifest: &str) -> Vec<Value> {
    let objects = manifest.split("\n---\n").map(serde_saphyr::from_str);
    objects.collect::<Result<_, _>>().expect("YAML")
}

/// The object of this kind, if it has only known fields: unknown ones are lost in a round trip
/// through the types.
fn check<T: DeserializeOwned + Serialize>(api: &str, kind: &str) -> T {
    check_in(MANIFEST, api, kind)
}

fn check_in<T: DeserializeOwned + Serialize>(manifest: &str, api: &str, kind: &str) -> T {
    let mut objects = objects(manifest);
    objects
        .retain(|object| (&object["apiVersion"], &object["kind"]) == (&api.into(), &kind.into()));
    let [object] = &objects[..] else { panic!("one {kind} of {api}") };
    let typed: T = serde_json::from_value(object.clone()).expect("a valid object");
    assert_eq!(&serde_json::to_value(&typed).expect("JSON"), object, "unknown to Kubernetes");
    typed
}

#[test]
fn manifest_has_only_objects_that_kubernetes_knows() {
    let map: ConfigMap = check("v1", "ConfigMap");
    let deployment: Deployment = check("apps/v1", "Deployment");
    let service: Service = check("v1", "Service");
    let budget: PodDisruptionBudget = check("policy/v1", "PodDisruptionBudget");
    assert_eq!(objects(MANIFEST).len(), 4, "each is checked");

    let spec = deployment.spec.expect("a specification");
    let labels = spec.template.metadata.and_then(|metadata| metadata.labels).expect("labels");
    let selectors = [
        spec.selector.match_labels,
        service.spec.as_ref().and_then(|spec| spec.selector.clone()),
        budget.spec.and_then(|spec| spec.selector?.match_labels),
    ];
    for selector in selectors {
        assert_eq!(selector.as_ref(), Some(&labels), "each means the pods of the deployment");
    }
    let pod = spec.template.spec.expect("a pod");
    let [container] = &pod.containers[..] else { panic!("one container") };
    let ports = container.ports.as_ref().expect("ports");
    for port in service.spec.and_then(|spec| spec.ports).expect("ports") {
        let named = serde_json::to_value(port.target_port).expect("JSON");
        let target = ports.iter().find(|port| port.name.as_deref() == named.as_str());
        let target = target.expect("a port of the container");
        assert_eq!((target.container_port, &target.protocol), (port.port, &port.protocol));
    }
    let volumes = pod.volumes.expect("volumes");
    for mount in container.volume_mounts.as_ref().expect("mounts") {
        assert!(volumes.iter().any(|volume| volume.name == mount.name), "{}", mount.name);
    }
    let named = volumes.iter().find_map(|volume| volume.config_map.as_ref());
    assert_eq!(named.map(|map| &map.name), map.metadata.name.as_ref(), "the config is mounted");
}

/// A probe that fails, or a drain that is cut short, would show only in production.
#[test]
fn drain_is_longer_than_the_probes_and_shorter_than_the_grace_period() {
    let map: ConfigMap = check("v1", "ConfigMap");
    let config = &map.data.expect("files")["dunlin.toml"];
    let drain =
        config.lines().find_map(|line| line.strip_prefix("drain = \"")?.strip_suffix("s\""));
    let drain: i64 = drain.expect("a drain").parse().expect("seconds");
    let deployment: Deployment = check("apps/v1", "Deployment");
    let pod = deployment.spec.and_then(|spec| spec.template.spec).expect("a pod");
    let grace = pod.termination_grace_period_seconds.expect("a grace period");
    assert!(drain < grace, "{drain} s of drain, {grace} s of grace");
    let container = &pod.containers[0];
    let ready = container.readiness_probe.as_ref().expect("a probe");
    let noticed =
        i64::from(ready.period_seconds.unwrap_or(10) * ready.failure_threshold.unwrap_or(3));
    assert!(noticed < drain, "noticed after {noticed} s, and gone after {drain} s");
    let ops = config.lines().find_map(|line| line.strip_prefix("listen = \"0.0.0.0:"));
    let ops = ops.and_then(|port| port.strip_suffix('"')).expect("[ops] listens");
    for probe in [&container.startup_probe, &container.readiness_probe, &container.liveness_probe] {
        let asked = probe.as_ref().and_then(|probe| probe.http_get.as_ref()).expect("HTTP");
        let port = serde_json::to_value(&asked.port).expect("JSON");
        let ports = container.ports.as_ref().expect("ports");
        let port = ports.iter().find(|known| known.name.as_deref() == port.as_str());
        assert_eq!(port.expect("a port").container_port.to_string(), ops);
        assert!(["/healthz", "/readyz"].contains(&asked.path.as_deref().expect("a page")));
    }
}

/// The autoscaler's manifest: its account has its rights, its flags are those of the command, and
/// the ConfigMap is one that it takes.
#[test]
fn manifest_of_the_autoscaler_fits_the_command() {
    let account: ServiceAccount = check_in(SCALE, "v1", "ServiceAccount");
    let name = account.metadata.name.expect("a name");
    let rbac = "rbac.authorization.k8s.io/v1";
    let _: ClusterRole = check_in(SCALE, rbac, "ClusterRole");
    let role: Role = check_in(SCALE, rbac, "Role");
    let cluster: ClusterRoleBinding = check_in(SCALE, rbac, "ClusterRoleBinding");
    let binding: RoleBinding = check_in(SCALE, rbac, "RoleBinding");
    for subjects in [cluster.subjects, binding.subjects] {
        assert_eq!(subjects.expect("subjects")[0].name, name);
    }
    let rules = role.rules.expect("rules");
    let writes = |rule: &&PolicyRule| rule.verbs.iter().any(|verb| verb == "update");
    let written = rules.iter().filter(writes).flat_map(|rule| rule.resources.iter().flatten());
    for resource in written {
        let is_known = ["configmaps", "leases"].contains(&resource.as_str());
        assert!(is_known || resource.ends_with("/scale"), "{resource} is written");
    }
    let map: ConfigMap = check_in(SCALE, "v1", "ConfigMap");
    let _: PodDisruptionBudget = check_in(SCALE, "policy/v1", "PodDisruptionBudget");
    assert_eq!(objects(SCALE).len(), 8, "each is checked");
    let data = serde_json::to_string(&map.data.expect("parameters")).expect("JSON");
    let deployment: Deployment = check_in(SCALE, "apps/v1", "Deployment");
    let pod = deployment.spec.and_then(|spec| spec.template.spec).expect("a pod");
    assert_eq!(pod.service_account_name.as_deref(), Some(name.as_str()));
    let arguments = pod.containers[0].args.clone().expect("arguments");
    let file = std::env::temp_dir().join(format!("scale-manifest-{}.json", std::process::id()));
    std::fs::write(&file, data).expect("a file");
    let dunlin = |arguments: &[&str]| {
        let run = Command::new(env!("CARGO_BIN_EXE_dunlin")).args(arguments).output();
        run.expect("dunlin runs").status.code()
    };
    assert_eq!(dunlin(&["scale", "check", "--params", &file.display().to_string()]), Some(0));
    std::fs::remove_file(&file).expect("removed");
    // Usage errors end with 2, a kubeconfig that is not there with 1.
    let flags: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let missing = ["--kubeconfig=/no/such/file", "--listen=127.0.0.1:0"];
    assert_eq!(dunlin(&[&flags[..], &missing].concat()), Some(1));
}
