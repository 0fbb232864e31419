//! Other autoscalers of a target, as the API server shows them.
use scale_rules::target::Target;
use serde_json::Value;

/// Our name as a writer of fields.
pub const MANAGER: &str = "dunlin-scale";

/// Programs other than this one that have written the scale of an object.
pub fn other_writers(object: &Value) -> Vec<String> {
    let fields = object["metadata"]["managedFields"].as_array();
    let writers = fields.into_iter().flatten().filter(|field| field["subresource"] == "scale");
    let names = writers.filter_map(|field| field["manager"].as_str());
    // A person scales by kubectl.
    names
        .filter(|name| *name != MANAGER && !name.starts_with("kubectl"))
        .map(|name| format!("{name} has written its scale"))
        .collect()
}

/// Deployments of the cluster-proportional-autoscaler that scale a target.
pub fn proportional_autoscalers(list: &Value, target: &Target) -> Vec<String> {
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let names_target = |container: &Value| {
        let words = [array(&container["command"]), array(&container["args"])].concat();
        let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
        let flags = words.join(" ").replace("--target ", "--target=").to_ascii_lowercase();
        let mut lists = flags
            .split_ascii_whitespace()
            .filter_map(|flag| flag.trim_start_matches('-').strip_prefix("target="));
        lists.any(|list| list.split(',').any(|named| named == target.to_string()))
    };
    let is_rival = |container: &Value| {
        let image = container["image"].as_str().unwrap_or_default();
        image.contains("cluster-proportional-autoscaler") && names_target(container)
    };
    let deployments = array(&list["items"]);
    let rivals = deployments.iter().filter(|deployment| {
        deployment["spec"]["replicas"] != 0
            && array(&deployment["spec"]["template"]["spec"]["containers"]).iter().any(is_rival)
    });
    let name = |deployment: &Value| {
        let name = deployment["metadata"]["name"].as_str().unwrap_or_default();
        format!("Deployment {name} of the cluster-proportional-autoscaler")
    };
    rivals.map(name).collect()
}

/// HorizontalPodAutoscalers of a target.
pub fn horizontal_autoscalers(list: &Value, target: &Target) -> Vec<String> {
    let items = list["items"].as_array();
    let is_of_target = |item: &&Value| {
        let reference = &item["spec"]["scaleTargetRef"];
        let kind = reference["kind"].as_str().unwrap_or_default();
        reference["name"] == target.name.as_str() && kind.eq_ignore_ascii_case(target.kind.name())
    };
    let name = |item: &Value| {
        format!("HorizontalPodAutoscaler {}", item["metadata"]["name"].as_str().unwrap_or_default())
    };
    items.into_iter().flatten().filter(is_of_target).map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use scale_rules::target::TargetKind;
    use serde_json::json;

    fn target() -> Target {
        Target { kind: TargetKind::Deployment, name: "dns".into() }
    }

    #[test]
    fn writers_of_the_scale_are_found() {
        let field = |manager: &str, part: &str| json!({"manager": manager, "subresource": part});
        let object = json!({"metadata": {"managedFields": [
            field("cluster-proportional-autoscaler", "scale"),
            field("kubectl", "scale"),
            field(MANAGER, "scale"),
            field("kube-controller-manager", "status"),
        ]}});
        let expected = ["cluster-proportional-autoscaler has written its scale"];
        assert_eq!(other_writers(&object), expected);
        assert!(other_writers(&json!({"metadata": 7})).is_empty());
    }

    #[test]
    fn deployments_of_the_original_are_found_by_image_and_target() {
        let deployment = |replicas: u32, image: &str, command: Value, args: Value| {
            let container = json!({"image": image, "command": command, "args": args});
            json!({"metadata": {"name": "rival"}, "spec": {"replicas": replicas,
                "template": {"spec": {"containers": [container]}}}})
        };
        let image = "registry.k8s.io/cpa/cluster-proportional-autoscaler:v1.9.0";
        let command = json!(["/cluster-proportional-autoscaler", "--target=deployment/dns"]);
        for (is_rival, deployment) in [
            (true, deployment(1, image, command.clone(), Value::Null)),
            (true, deployment(1, image, Value::Null, json!(["--target", "deployment/dns"]))),
            (true, deployment(1, image, Value::Null, json!(["--target=x/y,Deployment/dns"]))),
            (false, deployment(1, image, json!(["--target=deployment/dns-2"]), Value::Null)),
            (false, deployment(0, image, command.clone(), Value::Null)),
            (false, deployment(1, "dunlin", command, Value::Null)),
        ] {
            let list = json!({"items": [deployment]});
            let found = proportional_autoscalers(&list, &target());
            assert_eq!(!found.is_empty(), is_rival, "{list}");
        }
        assert!(proportional_autoscalers(&json!("nonsense"), &target()).is_empty());
    }
}
