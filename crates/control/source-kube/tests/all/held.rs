//! A list of objects with parts that has lost most of them.
use crate::world::{Watched, World, zone};
use documents::MapEvent;
use source_kube::cluster::parts::PartKind;
use source_kube::record_zones::{RecordZone, RecordZones};
use source_kube::source::SharedPart;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use test_support::wait;
use tokio::sync::{mpsc, watch};

/// A source that gives parts of Ingresses, and those that it has given.
struct Given {
    watched: Watched,
    events: mpsc::Receiver<MapEvent>,
    parts: BTreeSet<String>,
}

impl Given {
    fn start(world: &World, hold: Duration) -> Self {
        let (local, events) = mpsc::channel(1_000);
        let (_, report) = watch::channel(Arc::default());
        let zones = vec![RecordZone { origin: zone("shop.example."), namespaces: Vec::new() }];
        let records = Arc::new(RecordZones { zones, ttl: 5, location: Box::default() });
        let watched = Watched::start(world, |settings| {
            settings.hold = hold;
            settings.shared = Some(SharedPart {
                zone: None,
                records,
                kinds: vec![PartKind::Ingress],
                cluster: Box::default(),
                local: Some(local),
                report,
            });
        });
        Self { watched, events, parts: BTreeSet::new() }
    }

    fn until(&mut self, parts: usize) {
        wait::until_true(&format!("{parts} parts"), || {
            while let Ok(event) = self.events.try_recv() {
                match event {
                    MapEvent::Put(key, Some(_)) => drop(self.parts.insert(key)),
                    MapEvent::Put(key, None) => drop(self.parts.remove(&key)),
                    _ => {}
                }
            }
            self.parts.len() == parts
        });
    }
}

fn is_reported(status: &server_status::KubernetesStatus) -> bool {
    let line = "ingresses.networking.k8s.io *: a list lacks 57 of 60: their records stay";
    status.skipped.iter().any(|shown| shown.starts_with(line))
}

#[test]
fn objects_that_a_list_lost_keep_their_parts_for_the_time_of_a_hold() {
    let world = World::start(1);
    world.state().ingresses = 60;
    let mut given = Given::start(&world, Duration::from_secs(600));
    given.until(60);
    assert!(given.parts.contains("/objects/parts/ingresses/shop/web-59"));
    world.state().ingresses = 3;
    world.forget_revisions();
    given.watched.until("the loss is reported", is_reported);
    given.until(60);
    world.state().ingresses = 61;
    world.forget_revisions();
    given.until(61);
    given.watched.until("nothing is reported", |status| !is_reported(status));
    world.state().ingresses = 50;
    world.forget_revisions();
    given.until(50);
    given.watched.stop();

    world.state().ingresses = 60;
    let mut given = Given::start(&world, Duration::from_millis(1));
    given.until(60);
    world.state().ingresses = 3;
    world.forget_revisions();
    given.until(3);
    given.watched.stop();
}
