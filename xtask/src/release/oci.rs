//! Blobs, descriptors and the layout of the OCI image specification 1.1.
use super::archive::{Tree, add_file, tar};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;

pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// The SHA-256 of bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all");
        text
    })
}

/// The blobs of an image or another artifact.
#[derive(Default)]
pub struct Layout {
    blobs: BTreeMap<String, Vec<u8>>,
}

impl Layout {
    /// Adds a blob; returns its descriptor.
    pub fn add(&mut self, media_type: &str, bytes: Vec<u8>) -> Value {
        let (hash, size) = (sha256(&bytes), bytes.len());
        self.blobs.insert(hash.clone(), bytes);
        json!({ "mediaType": media_type, "digest": format!("sha256:{hash}"), "size": size })
    }

    /// Adds a JSON document.
    pub fn add_json(&mut self, media_type: &str, document: &Value) -> Value {
        self.add(media_type, document.to_string().into_bytes())
    }

    /// The layout as a tar archive, which holds one artifact under a name such as
    /// `registry.example/dunlin:1.0`.
    ///
    /// # Errors
    /// The archive cannot be written.
    pub fn archive(&self, artifact: &Value, name: &str, time: u64) -> io::Result<Vec<u8>> {
        let tag = name.rsplit(':').next().unwrap_or_default();
        let mut artifact = artifact.clone();
        // The first is that of the specification, the second that of containerd.
        artifact["annotations"] = json!({
            "org.opencontainers.image.ref.name": tag,
            "io.containerd.image.name": name,
        });
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [artifact] });
        let version = json!({ "imageLayoutVersion": "1.0.0" });
        let mut tree = Tree::new();
        add_file(&mut tree, "oci-layout", 0o644, version.to_string().into_bytes());
        add_file(&mut tree, "index.json", 0o644, index.to_string().into_bytes());
        for (hash, bytes) in &self.blobs {
            add_file(&mut tree, &format!("blobs/sha256/{hash}"), 0o644, bytes.clone());
        }
        tar(&tree, time)
    }

    /// A blob by its descriptor.
    #[cfg(test)]
    pub fn read(&self, descriptor: &Value) -> &[u8] {
        let hash = descriptor["digest"].as_str().and_then(|text| text.strip_prefix("sha256:"));
        &self.blobs[hash.expect("a digest")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blob_has_the_digest_of_its_bytes() {
        let mut layout = Layout::default();
        let descriptor = layout.add(LAYER, b"abc".to_vec());
        // FIPS 180-2, appendix B.1
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let expected = json!({ "mediaType": LAYER, "digest": format!("sha256:{hash}"), "size": 3 });
        assert_eq!(descriptor, expected);
        assert_eq!(layout.read(&descriptor), b"abc");
    }
}
