//! Looks for DNS where no target is named: by the label k8s-app=kube-dns, then by name.
use super::context::Context;
use super::rights::Feature;
use kube_api::ApiError;
use scale_rules::target::{Target, TargetKind};
use serde_json::Value;

/// The Deployment of DNS.
///
/// # Errors
/// There is none, several have the label, or the API server refuses.
pub async fn find_dns(context: &Context) -> Result<Target, ApiError> {
    let deployment = |name: &str| Target { kind: TargetKind::Deployment, name: name.to_owned() };
    let mut labelled = labelled(context).await?;
    labelled.sort_unstable();
    match &labelled[..] {
        [] => {}
        [name] => return Ok(deployment(name)),
        names => {
            let names: Vec<String> =
                names.iter().map(|name| deployment(name).to_string()).collect();
            return Err(ApiError::Other(format!(
                "{} have the label k8s-app=kube-dns: name with --target which of them is scaled",
                names.join(" and ")
            )));
        }
    }
    for name in ["coredns", "kube-dns"] {
        let target = deployment(name);
        match context.api.get::<Value>(&format!("{}/scale", context.path(&target))).await {
            Ok(_) => return Ok(target),
            Err(ApiError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Err(ApiError::Other(format!(
        "the namespace {} has no Deployment with the label k8s-app=kube-dns or the name coredns \
         or kube-dns",
        context.namespace
    )))
}

/// The names of the Deployments with the label; none if they may not be listed.
async fn labelled(context: &Context) -> Result<Vec<String>, ApiError> {
    if !context.rights.allow(Feature::Discovery) {
        return Ok(Vec::new());
    }
    let path = format!(
        "/apis/apps/v1/namespaces/{}/deployments?labelSelector=k8s-app%3Dkube-dns",
        context.namespace
    );
    let list = context.api.get::<Value>(&path).await;
    let list = context.rights.judge(Feature::Discovery, list, |text| context.tell(text))?;
    let items = list.as_ref().and_then(|list| list["items"].as_array());
    let names = items.into_iter().flatten().filter_map(|item| item["metadata"]["name"].as_str());
    Ok(names.map(str::to_owned).collect())
}
