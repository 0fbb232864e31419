//! A desk on a store of these tests, and what is written at it.
use compile::Image;
use control::Control;
use image::HashKey;
use records::{Batch, Desk, Edit, Expect, NoOthers, Policy, SetValue, View};
use std::sync::Arc;
use std::time::SystemTime;
use store_redb::RedbStore;
use wire::{Name, NameBuf, Rtype};

pub fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap()
}

pub fn put(at: &str, rtype: Rtype, data: &[u8]) -> Edit {
    let put = Some(SetValue { ttl: 60, policy: Policy::All, data: vec![data.into()] });
    Edit { name: name(at), rtype, view: View::Default, expect: Expect::Anything, put }
}

pub fn batch(edits: Vec<Edit>) -> Batch {
    Batch { zone: name("kill.test"), edits, by: "writer".into(), when: SystemTime::now() }
}

/// The name servers that a zone begins with.
pub fn servers() -> Edit {
    put("kill.test", Rtype::NS, name("ns.kill.test").as_name().octets())
}

/// Serves a store until what comes with the desk is dropped.
pub fn serve(store: RedbStore) -> (Desk, Control, impl Sized) {
    let key = Arc::new(HashKey::new(std::array::from_fn(|n| n as u64 * 77 + 5)));
    let (control, running) = Control::start(Image::new(key)).unwrap();
    let started = Desk::start(control.clone(), Box::new(store), Arc::new(NoOthers));
    let (desk, serving) = started.unwrap();
    (desk, control, (serving, running))
}
