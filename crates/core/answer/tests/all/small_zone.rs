//! A zone of three records.
use compile::{Image, Loader};
use image::HashKey;
use std::sync::Arc;
use wire::{Name, NameBuf};

pub fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap()
}

/// The zone example.org, with an address.
pub fn zones() -> Image {
    let key = Arc::new(HashKey::new(std::array::from_fn(|n| n as u64 + 1)));
    let mut image = Image::new(Arc::clone(&key));
    let origin = name("example.org.");
    let mut loader = Loader::new(key, origin.as_name(), None);
    let text = "$TTL 60\n@ SOA ns root 1 2 3 4 30\n@ NS ns\nns A 192.0.2.1\n";
    zonefile::read_stream(&mut text.as_bytes(), origin.as_name(), &mut |r| {
        loader.add(r.owner, r.rtype, r.ttl, r.rdata, 0)
    })
    .unwrap();
    image.put_zone(Arc::new(loader.finish().unwrap()));
    image
}
