//! What must hold for any bytes of an API server, and for what a fleet keeps of its objects.
use super::lines::{Line, Lines, object_name};
use super::list::Page;
use super::stream::{Parsed, parse};
use crate::cluster::{Cluster, Exposed, ObjectName};
use crate::fleet::{self, Shared};
use crate::names::{ClusterZone, Compat, Naming, PodNames, is_label};
use crate::objects::{EndpointNaming, Imports, Kind, Namespaces, Pods, Services, Slices};
use crate::records::Records;
use std::sync::Arc;
use wire::{Name, NameBuf};

/// How endpoints are named.
const NAMINGS: [EndpointNaming; 2] = [
    EndpointNaming { pod_names: false, zonal: false, all_ports: false, shared: false },
    EndpointNaming { pod_names: true, zonal: true, all_ports: true, shared: true },
];

/// The bits of the first byte say what the others are: of which kind of object, the lines of a
/// stream, a page of a list, or a key of etcd and its value, in two lines.
pub fn check(bytes: &[u8]) {
    let Some((&first, bytes)) = bytes.split_first() else { return };
    let naming = NAMINGS[usize::from(first >> 7)];
    let length = usize::from(first >> 3 & 7) + 1;
    match first & 7 {
        0 => objects::<Services>(bytes, length, naming, |object, kept| {
            Shared::Service(object, kept.map(|kept| (kept.service, kept.check)))
        }),
        1 => objects::<Slices>(bytes, length, naming, |name, kept| {
            Shared::Slice(name, kept.map(Into::into))
        }),
        2 => objects::<Namespaces>(bytes, length, naming, Shared::Namespace),
        3 => objects::<Pods>(bytes, length, naming, Shared::Pod),
        4 => objects::<Imports>(bytes, length, naming, Shared::Import),
        _ => written(bytes),
    }
}

/// A cluster with all names there can be.
fn cluster() -> Cluster {
    let zone = |text: &[u8], is_multicluster| ClusterZone {
        origin: NameBuf::from_text(text, Name::ROOT).expect("a name"),
        is_multicluster,
        falls_through: false,
    };
    let naming = Naming {
        zones: vec![zone(b"cluster.local.", false), zone(b"clusterset.local.", true)],
        ttl: 5,
        negative_ttl: 5,
        pods: PodNames::Verified,
        ignore_empty: false,
        zonal: true,
        endpoints: true,
        compat: Compat::CoreDns,
        location: Box::default(),
    };
    Cluster::new(Arc::new(naming), Arc::new(Exposed::default()), 1)
}

/// Objects of a stream and of a page lead to sound names, and to the same ones on a server that
/// follows the one that wrote them.
fn objects<K: Kind>(
    bytes: &[u8],
    length: usize,
    naming: EndpointNaming,
    share: fn(ObjectName, Option<K::Entry>) -> Shared,
) {
    let mut cluster = cluster();
    let mut put = |raw: K::Raw| {
        let meta = K::meta(&raw);
        let object = ObjectName::new(&meta.namespace, &meta.name);
        if !K::IS_LABEL || is_label(&object.name) {
            fleet::put(&mut cluster, share(object, K::keep(raw, naming)));
        }
    };
    for line in lines(bytes, length) {
        match line {
            Line::Whole(line) => match parse::<K>(&line) {
                Ok(Parsed::Object { object, .. }) => put(object),
                Ok(Parsed::Head(_)) => {}
                Err(failure) => assert!(!failure.to_string().is_empty()),
            },
            Line::TooLong(head) => drop(object_name(&head)),
        }
    }
    if let Ok(page) = serde_json::from_slice::<Page<K::Raw>>(bytes)
        && let Ok((objects, _)) = page.objects(K::LIST)
    {
        objects.into_iter().for_each(put);
    }
    agrees(&cluster);
}

/// The lines, which do not depend on where the bytes are cut.
fn lines(bytes: &[u8], length: usize) -> Vec<Line> {
    let cut = |length: usize| {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        for part in bytes.chunks(length) {
            lines.push(part);
            found.extend(std::iter::from_fn(|| lines.next()));
        }
        assert_eq!(lines.is_within(), bytes.last().is_some_and(|last| *last != b'\n'));
        found
    };
    let found = cut(bytes.len().max(1));
    assert_eq!(cut(length), found);
    found
}

/// A server that reads what this one writes has the same records, and writes the same.
fn agrees(cluster: &Cluster) {
    let mut follower = self::cluster();
    let mut written = Vec::new();
    for key in fleet::keys(cluster) {
        // The API server has no names with a slash; those of one that lies are not shared.
        if let Some(value) = fleet::value(cluster, &key) {
            written.push((key, value));
        }
    }
    written.sort();
    fleet::fill(&mut follower, written.clone());
    for (key, value) in &written {
        assert_eq!(fleet::value(&follower, key).as_ref(), Some(value), "{key}");
    }
    let records = |cluster: &Cluster| cluster.all(None).map(sound).sum::<usize>();
    assert_eq!(records(&follower), records(cluster));
}

/// The number of sets. No text of an object is a wildcard, and no name is too long.
fn sound(records: Records) -> usize {
    let mut count = 0;
    for ((_, name, _), (_, data)) in records.sets() {
        let (mut rest, mut len) = (&name[..], 1);
        while let [label_len, more @ ..] = rest
            && *label_len > 0
        {
            let (label, more) = more.split_at(usize::from(*label_len));
            assert!(label.len() <= Name::LABEL_MAX && label != b"*", "{name:?}");
            (rest, len) = (more, len + 1 + label.len());
        }
        assert!(len <= 255 && !data.is_empty(), "{name:?}");
        count += 1;
    }
    count
}

/// A key of etcd and its value, each in a line: what can be read is written again as the same.
fn written(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
    let (Some(key), Some(value)) = (parts.next(), parts.next()) else { return };
    let Ok(key) = std::str::from_utf8(key) else { return };
    match fleet::read(key, Some(value)) {
        Ok(shared) => {
            let mut cluster = cluster();
            fleet::put(&mut cluster, shared);
            agrees(&cluster);
        }
        Err(why) => assert!(!why.is_empty()),
    }
}
