//! Pods and Nodes of a cluster as clients: which prefixes have which network and location.
use config::Config;
use limit::Prefix;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

/// The labels of a Pod, and their values.
type Labels = Box<[(Box<str>, Box<str>)]>;

/// What is known of the clients of a cluster.
#[derive(Debug, Default)]
pub struct KnownClients {
    /// Pods: the address, the namespace, and labels.
    pub pods: Vec<(IpAddr, Box<str>, Labels)>,
    /// Prefixes of Nodes, and where they are.
    pub nodes: Vec<((IpAddr, u8), Box<str>)>,
}

/// The network of a client, if it is in one, and the path of its location, if that is known.
pub type Owner = (Option<usize>, Option<Box<str>>);
/// The most pairs of both: their numbers have 16 bits.
const OWNERS_MAX: usize = 60_000;

/// Values of prefixes, of which the longest around one is looked up.
struct PrefixMap<T> {
    values: HashMap<Prefix, T>,
    lens: BTreeSet<u8>,
}

impl<T: Copy> PrefixMap<T> {
    fn new(values: impl Iterator<Item = (Prefix, T)>) -> Self {
        let values: HashMap<Prefix, T> = values.collect();
        let lens = values.keys().map(Prefix::len).collect();
        Self { values, lens }
    }

    /// The value of the longest prefix that contains this one.
    fn around(&self, prefix: Prefix) -> Option<T> {
        let shorter = self.lens.range(..=prefix.len()).rev();
        shorter
            .filter_map(|len| cut(prefix.address(), *len))
            .find_map(|it| self.values.get(&it).copied())
    }
}

/// The first bits of an address.
fn cut(address: IpAddr, len: u8) -> Option<Prefix> {
    let address = match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32_u32.checked_sub(len.into())?).unwrap_or_default();
            IpAddr::from((v4.to_bits() & mask).to_be_bytes())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128_u32.checked_sub(len.into())?).unwrap_or_default();
            IpAddr::from((v6.to_bits() & mask).to_be_bytes())
        }
    };
    Prefix::new(address, len).ok()
}

/// The prefixes of each network and location. Each network occurs with its own location.
pub fn owners(config: &Config, clients: &KnownClients) -> BTreeMap<Owner, Vec<Prefix>> {
    let all = spread(config, clients);
    if all.len() <= OWNERS_MAX {
        return all;
    }
    tracing::error!(
        "the Pods of networks are at more than {OWNERS_MAX} locations: the locations of nodes are \
         not used"
    );
    let pods = clients.pods.clone();
    spread(config, &KnownClients { pods, nodes: Vec::new() })
}

fn spread(config: &Config, clients: &KnownClients) -> BTreeMap<Owner, Vec<Prefix>> {
    let networks = &config.networks;
    let location = |network: usize| networks[network].location.as_deref().map(Box::from);
    let nodes = clients.nodes.iter();
    let nodes = nodes.filter_map(|((address, len), path)| Some((cut(*address, *len)?, &**path)));
    let nodes = PrefixMap::new(nodes);
    let prefixes = networks.iter().enumerate();
    let prefixes = prefixes.flat_map(|(at, of)| of.prefixes.iter().map(move |one| (*one, at)));
    // Of one prefix, the config itself decides before what a file says of a system.
    let of_system = |system| networks.iter().position(|of| of.systems.contains(&system));
    let by_system: HashMap<u32, usize> = config
        .systems()
        .into_iter()
        .filter_map(|system| Some((system, of_system(system)?)))
        .collect();
    let systems = config.geo.systems.iter();
    let systems = systems.filter_map(|(prefix, system)| Some((*prefix, *by_system.get(system)?)));
    let configured = PrefixMap::new(systems.chain(prefixes));
    let mut owners: BTreeMap<Owner, Vec<Prefix>> = BTreeMap::new();
    for at in 0..networks.len() {
        owners.entry((Some(at), location(at))).or_default();
    }
    let mut add = |network: Option<usize>, prefix: Prefix| {
        let own = network.and_then(location).or_else(|| nodes.around(prefix).map(Box::from));
        owners.entry((network, own)).or_default().push(prefix);
    };
    configured.values.iter().for_each(|(prefix, at)| add(Some(*at), *prefix));
    for prefix in nodes.values.keys().filter(|it| !configured.values.contains_key(it)) {
        add(configured.around(*prefix), *prefix);
    }
    for (address, namespace, labels) in &clients.pods {
        let network = networks.iter().position(|of| of.pods.selects(namespace, labels));
        let len = if address.is_ipv4() { 32 } else { 128 };
        // What the config says of an address itself decides.
        if let Some(prefix) = cut(*address, len).filter(|it| !configured.values.contains_key(it))
            && network.is_some()
            && !nodes.values.contains_key(&prefix)
        {
            add(network, prefix);
        }
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const CONFIG: &str = r#"
        kubernetes.zones = ["cluster.local"]
        [[network]]
        name = "pods"
        prefixes = ["10.244.0.0/16"]
        [[network]]
        name = "payment"
        namespaces = ["pci-*"]
        [[network]]
        name = "front"
        pod_labels = ["tier=front"]
        location = "edge"
        [[network]]
        name = "half"
        prefixes = ["10.244.2.128/25"]
    "#;

    fn of(client: &str, clients: &KnownClients) -> (Option<String>, Option<String>) {
        let config = Config::parse(Path::new("f"), CONFIG).expect("a config");
        let client: IpAddr = client.parse().expect("an address");
        let owners = owners(&config, clients);
        let all = owners.iter().flat_map(|(of, prefixes)| prefixes.iter().map(move |p| (p, of)));
        let longest = all.filter(|(prefix, _)| prefix.holds(client)).max_by_key(|(p, _)| p.len());
        let (network, location) = longest.map(|(_, of)| of.clone()).unwrap_or_default();
        (network.map(|at| config.networks[at].name.clone()), location.map(String::from))
    }

    #[test]
    fn pods_have_their_network_and_the_location_of_their_node() {
        let pod = |address: &str, namespace: &str, labels: &[(&str, &str)]| {
            let labels = labels.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            (address.parse().expect("an address"), namespace.into(), labels.collect())
        };
        let node = |address: &str, len, path: &str| {
            ((address.parse().expect("an address"), len), path.into())
        };
        let mut clients = KnownClients {
            pods: vec![
                pod("10.244.1.7", "pci-eu", &[]),
                pod("10.244.1.8", "shop", &[("tier", "front")]),
                pod("10.244.1.9", "shop", &[("tier", "back")]),
            ],
            nodes: vec![
                node("10.244.1.0", 24, "eu/a/n1"),
                node("192.0.2.1", 32, "eu/a/n1"),
                node("10.244.2.0", 24, "eu/b/n2"),
            ],
        };
        let known = |name: &str, path: &str| (Some(name.to_owned()), Some(path.to_owned()));
        let (n1, n2) = ("eu/a/n1", "eu/b/n2");
        assert_eq!(of("10.244.1.7", &clients), known("payment", n1));
        assert_eq!(of("10.244.1.8", &clients), known("front", "edge"), "its own location");
        assert_eq!(of("10.244.1.9", &clients), known("pods", n1));
        assert_eq!(of("10.244.2.1", &clients), known("pods", n2));
        assert_eq!(of("10.244.2.200", &clients), known("half", n2));
        assert_eq!(of("192.0.2.1", &clients), (None, Some(n1.to_owned())));
        assert_eq!(of("10.244.9.9", &clients).0.as_deref(), Some("pods"));
        assert_eq!(of("198.51.100.1", &clients), (None, None));
        // The address belongs to another namespace now.
        clients.pods[0].1 = "shop".into();
        assert_eq!(of("10.244.1.7", &clients), known("pods", n1));
    }
}
