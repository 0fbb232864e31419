//! Certificates, keys and tokens of a cluster.
use crate::Result;
use crate::node::HOST;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use std::fs;
use std::path::Path;

/// The token of an administrator (`system:masters`). Everything listens on loopback only.
pub(crate) const ADMIN_TOKEN: &str = "admin-of-the-test-cluster";

/// The address of the Service `kubernetes`: the first of its range.
const SERVICE: &str = "10.96.0.1";

/// Writes the files that the API server needs: its certificate with `ca.crt`, the keys of service
/// accounts, and the file of tokens.
pub(crate) fn write(folder: &Path) -> Result<()> {
    let told = |error: rcgen::Error| format!("no certificates for the cluster: {error}");
    let key = || KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(told);
    let mut authority = CertificateParams::new(Vec::new()).map_err(told)?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "test cluster");
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority = CertifiedIssuer::self_signed(authority, key()?).map_err(told)?;
    // The last two: the Service `kubernetes`, and this machine as a node sees it.
    let names = ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc", SERVICE, HOST];
    let mut server = CertificateParams::new(names.map(String::from)).map_err(told)?;
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let server_key = key()?;
    let server = server.signed_by(&server_key, &authority).map_err(told)?;
    let accounts = key()?;
    let tokens = format!("{ADMIN_TOKEN},admin,admin,\"system:masters\"\n");
    let files = [
        ("ca.crt", authority.pem()),
        ("server.crt", server.pem()),
        ("server.key", server_key.serialize_pem()),
        ("accounts.key", accounts.serialize_pem()),
        ("accounts.pub", accounts.public_key_pem()),
        ("tokens.csv", tokens),
    ];
    for (file, text) in files {
        write_file(&folder.join(file), &text)?;
    }
    Ok(())
}

/// Writes a kubeconfig for a token.
pub(crate) fn write_kubeconfig(
    folder: &Path,
    file: &Path,
    server: &str,
    token: &str,
) -> Result<()> {
    let ca = folder.join("ca.crt");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
         clusters:\n- name: test\n  cluster:\n    server: {server}\n    \
         certificate-authority: {}\n\
         users:\n- name: test\n  user:\n    token: {token}\n\
         contexts:\n- name: test\n  context:\n    cluster: test\n    user: test\n",
        ca.display()
    );
    write_file(file, &text)
}

pub(crate) fn write_file(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).map_err(|error| format!("{} cannot be written: {error}", file.display()))
}
