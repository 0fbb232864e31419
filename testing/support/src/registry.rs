//! A registry of images for tests, on loopback: what a container runtime pulls of it.
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;

/// Makes an OCI layout of one layer: the folder of its files, the layout, the image's config.
const MAKE_LAYOUT: &str = r#"set -e
mkdir -p "$2/blobs/sha256"
cd "$2"
blob() { # FILE: moves it to where its digest is, and writes the digest and its size
  digest=$(sha256sum "$1" | cut -d' ' -f1)
  size=$(stat -c %s "$1")
  mv "$1" "blobs/sha256/$digest"
}
tar -C "$1" --owner=0 --group=0 -cf layer .
blob layer
layer=$digest layer_size=$size
cat >config <<CONFIG
{"architecture":"$(dpkg --print-architecture)","os":"linux","config":$3,
 "rootfs":{"type":"layers","diff_ids":["sha256:$layer"]}}
CONFIG
blob config
of=application/vnd.oci.image
cat >manifest <<MANIFEST
{"schemaVersion":2,"mediaType":"$of.manifest.v1+json",
 "config":{"mediaType":"$of.config.v1+json","digest":"sha256:$digest","size":$size},
 "layers":[{"mediaType":"$of.layer.v1.tar","digest":"sha256:$layer","size":$layer_size}]}
MANIFEST
blob manifest
cat >index.json <<INDEX
{"schemaVersion":2,"mediaType":"$of.index.v1+json",
 "manifests":[{"mediaType":"$of.manifest.v1+json","digest":"sha256:$digest","size":$size}]}
INDEX
echo '{"imageLayoutVersion":"1.0.0"}' >oci-layout"#;

/// Makes an OCI layout of one layer with the files of a folder. `config` is the image's, in JSON.
///
/// # Panics
/// It cannot be made.
pub fn make_layout(files: &Path, layout: &Path, config: &str) {
    let mut make = Command::new("sh");
    make.args(["-c", MAKE_LAYOUT, "sh"]).args([files, layout]).arg(config);
    let output = make.output().expect("sh");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} cannot be made: {told}", layout.display());
}

/// Images, each an OCI layout that answers to a repository's name with every tag.
type Images = Vec<(String, PathBuf)>;

/// A registry that serves as long as the process lives.
pub struct Registry {
    port: u16,
}

impl Registry {
    /// Serves the layouts by the names of their repositories, such as `library/busybox`.
    ///
    /// # Panics
    /// No port is free.
    pub fn start(images: &[(&str, &Path)]) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let images = images.iter().map(|(name, layout)| ((*name).into(), (*layout).into()));
        let images: Arc<Images> = Arc::new(images.collect());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let images = Arc::clone(&images);
                // A client that goes away is not an error of the registry.
                thread::spawn(move || drop(answer(stream, &images)));
            }
        });
        Self { port }
    }

    /// Its port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }
}

fn answer(mut stream: TcpStream, images: &Images) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    // The head ends with an empty line; there is no body.
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let found = if path == "/v2/" { Some(b"{}".to_vec()) } else { find(images, path) };
    let status = if found.is_some() { "200 OK" } else { "404 Not Found" };
    let body = found.unwrap_or_default();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        media_type(path, &body),
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    if method == "GET" {
        stream.write_all(&body)?;
    }
    Ok(())
}

/// The file of `/v2/NAME/manifests/REFERENCE` or `/v2/NAME/blobs/DIGEST`. A tag is the index of
/// its layout, and so is the digest of that index, which is not a blob.
fn find(images: &Images, path: &str) -> Option<Vec<u8>> {
    let mut parts = path.strip_prefix("/v2/")?.rsplitn(3, '/');
    let (reference, kind, name) = (parts.next()?, parts.next()?, parts.next()?);
    let (_, layout) = images.iter().find(|(known, _)| known == name)?;
    let digest = reference.strip_prefix("sha256:").filter(|digest| !digest.contains('.'));
    let blob = digest.and_then(|digest| fs::read(layout.join("blobs/sha256").join(digest)).ok());
    blob.or_else(|| (kind == "manifests").then(|| fs::read(layout.join("index.json")).ok())?)
}

/// What a manifest says that it is.
fn media_type(path: &str, body: &[u8]) -> String {
    if !path.contains("/manifests/") {
        return "application/octet-stream".into();
    }
    let manifest: Value = serde_json::from_slice(body).unwrap_or_default();
    let own = manifest["mediaType"].as_str();
    own.unwrap_or("application/vnd.oci.image.index.v1+json").into()
}
