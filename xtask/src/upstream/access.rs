//! The authentication and authorization of the real server: generated CAs and an issuer of tokens, which the tests run.

use std::{fs, path::Path};

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};

use super::root;
use crate::Result;

/// The file with the authentication configuration. The issuers run in the tests, at an address that it names.
const CONFIGURATION: &str = "authentication.json";

/// Writes the CAs of client certificates and of front proxies, the certificate of the issuer, and the authentication
/// configuration. `port` is that of the issuer.
pub(super) fn prepare(directory: &Path, port: u16) -> Result {
    for name in ["client-ca", "front-proxy-ca"] {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        write(directory, name, &params)?;
    }
    let mut params = CertificateParams::new(["127.0.0.1".to_owned()])?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = write(directory, "issuer", &params)?;
    let template = fs::read_to_string(root().join("conformance/authentication/configuration.json"))?;
    let configuration = template
        .replace("{issuer}", &format!("https://127.0.0.1:{port}"))
        .replace("{ca}", &certificate.replace("\r\n", "\\n").replace('\n', "\\n"));
    fs::write(directory.join(CONFIGURATION), configuration)?;
    Ok(())
}

/// Generates a self-signed certificate and its key. Returns the certificate in PEM.
fn write(directory: &Path, name: &str, params: &CertificateParams) -> Result<String> {
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?.pem();
    fs::write(directory.join(format!("{name}.key")), key.serialize_pem())?;
    fs::write(directory.join(format!("{name}.crt")), &certificate)?;
    Ok(certificate)
}

/// Returns the flags of the server.
pub(super) fn flags(directory: &Path) -> Vec<String> {
    let file = |flag: &str, name: &str| format!("--{flag}={}", directory.join(name).display());
    let mut flags = vec![
        file("authentication-config", CONFIGURATION),
        file("client-ca-file", "client-ca.crt"),
        file("requestheader-client-ca-file", "front-proxy-ca.crt"),
    ];
    let constant = [
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement,PodNodeSelector",
        "--enable-bootstrap-token-auth=true",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    ];
    flags.extend(constant.map(str::to_owned));
    flags
}
