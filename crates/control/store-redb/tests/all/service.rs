//! A record service on a store, and helpers to write to it.
use compile::Image;
use image::HashKey;
use records::{Batch, Edit, Policy, RecordService, SetValue, WriteContext};
use std::sync::Arc;
use store_redb::RedbStore;
use wire::{Name, NameBuf, Rtype};
use zone_manager::ZonePublisher;

pub fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap()
}

pub fn put(at: &str, rtype: Rtype, data: &[u8]) -> Edit {
    let put = Some(SetValue { ttl: 60, policy: Policy::All, data: vec![data.into()] });
    Edit { put, ..Edit::remove(name(at), rtype) }
}

pub fn batch(edits: Vec<Edit>) -> Batch {
    Batch { zone: name("kill.test"), edits, context: WriteContext::by("writer") }
}

/// The name servers of a new zone.
pub fn servers() -> Edit {
    put("kill.test", Rtype::NS, name("ns.kill.test").as_name().as_bytes())
}

/// Serves a store until the third value is dropped.
pub fn serve(store: RedbStore) -> (RecordService, ZonePublisher, impl Sized) {
    let key = Arc::new(HashKey::new(std::array::from_fn(|n| n as u64 * 77 + 5)));
    let (control, running) = ZonePublisher::start(Image::new(key)).unwrap();
    let started = RecordService::start(&control, Box::new(store));
    let (service, serving) = started.unwrap();
    (service, control, (serving, running))
}
