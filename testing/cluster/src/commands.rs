//! The command of each process of a cluster.
use crate::node::HOST;
use crate::{Cluster, Part};

/// The versions of addresses that services get: both.
const SERVICE_RANGES: &str = "10.96.0.0/16,fd00:96::/112";

impl Cluster {
    /// The binary of a part, and its arguments.
    pub(crate) fn command_of(&self, part: Part) -> (&'static str, Vec<String>) {
        match part {
            Part::Etcd => ("etcd", self.etcd_arguments()),
            Part::ApiServer => ("kube-apiserver", self.api_server_arguments()),
            Part::Controllers => ("kube-controller-manager", self.controllers_arguments()),
            Part::Scheduler => (
                "kube-scheduler",
                vec![
                    format!("--kubeconfig={}", self.file("admin.conf")),
                    "--leader-elect=false".into(),
                    "--secure-port=0".into(),
                ],
            ),
        }
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn etcd_arguments(&self) -> Vec<String> {
        let [client, peer] = self.etcd;
        vec![
            format!("--data-dir={}", self.file("etcd")),
            format!("--listen-client-urls=http://{client}"),
            format!("--advertise-client-urls=http://{client}"),
            format!("--listen-peer-urls=http://{peer}"),
            format!("--initial-advertise-peer-urls=http://{peer}"),
            format!("--initial-cluster=default=http://{peer}"),
            "--log-level=warn".into(),
        ]
    }

    fn api_server_arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            format!("--etcd-servers=http://{}", self.etcd[0]),
            format!("--bind-address={}", self.api.ip()),
            format!("--secure-port={}", self.api.port()),
            format!("--service-cluster-ip-range={SERVICE_RANGES}"),
            format!("--tls-cert-file={}", self.file("server.crt")),
            format!("--tls-private-key-file={}", self.file("server.key")),
            format!("--token-auth-file={}", self.file("tokens.csv")),
            "--authorization-mode=RBAC".into(),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            format!("--service-account-key-file={}", self.file("accounts.pub")),
            format!("--service-account-signing-key-file={}", self.file("accounts.key")),
            // As installers of clusters set it: Pods of a node's own programs.
            "--allow-privileged=true".into(),
            "--max-requests-inflight=2000".into(),
            "--max-mutating-requests-inflight=2000".into(),
        ];
        match self.has_kubelet {
            // Pods reach it through the Service `kubernetes`, and it reaches the node by its name.
            true => arguments.extend([
                "--endpoint-reconciler-type=master-count".into(),
                format!("--advertise-address={HOST}"),
                "--kubelet-preferred-address-types=Hostname".into(),
            ]),
            false => arguments.extend([
                "--endpoint-reconciler-type=none".into(),
                "--disable-admission-plugins=ServiceAccount".into(),
            ]),
        }
        arguments
    }

    fn controllers_arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            format!("--kubeconfig={}", self.file("admin.conf")),
            "--leader-elect=false".into(),
            "--secure-port=0".into(),
            "--kube-api-qps=500".into(),
            "--kube-api-burst=1000".into(),
        ];
        match self.has_kubelet {
            true => arguments.extend([
                format!("--root-ca-file={}", self.file("ca.crt")),
                format!("--service-account-private-key-file={}", self.file("accounts.key")),
                // A kubelet on an emulated CPU is late now and then.
                "--node-monitor-grace-period=5m".into(),
            ]),
            false => arguments.push(
                "--controllers=endpointslice-controller,namespace-controller,\
                 serviceaccount-controller"
                    .into(),
            ),
        }
        arguments
    }
}
