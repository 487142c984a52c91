//! The ConfigMaps in which an API server publishes how it authenticates clients.

use std::sync::Arc;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde_json::{Value, json};
use windlass_api::{Clock, Status};
use x509_parser::{certificate::X509Certificate, prelude::FromDer as _};

use crate::{
    authn::FrontProxy,
    object::Tree,
    registry::Registry,
    resource::{Body, Target},
};

const NAMESPACE: &str = "kube-system";
/// For extension API servers, which trust the same client CA.
const AUTHENTICATION: &str = "extension-apiserver-authentication";
const CLIENT_CA: &str = "client-ca-file";
const PROXY_CA: &str = "requestheader-client-ca-file";
/// Records the date since which the use of Secret-based tokens is tracked.
const TOKEN_TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";

/// Creates the ConfigMap for token tracking, which every API server has.
pub(super) async fn ensure_tracking(registry: &Registry, clock: &Clock) -> Result<(), Status> {
    let since = clock.now().strftime("%Y-%m-%d").to_string();
    let map = json!({"metadata": {"name": TOKEN_TRACKING, "namespace": NAMESPACE}, "data": {"since": since}});
    super::ensure(registry, "", "configmaps", Some(NAMESPACE), map).await
}

/// The CAs of clients, in PEM.
#[derive(Clone, Debug, Default)]
pub(crate) struct Authorities {
    pub(crate) clients: Option<Arc<str>>,
    pub(crate) front_proxies: Option<Arc<str>>,
}

impl Authorities {
    /// Replaces the CAs that `other` has.
    pub(crate) fn update(&mut self, other: Self) {
        self.clients = other.clients.or(self.clients.take());
        self.front_proxies = other.front_proxies.or(self.front_proxies.take());
    }
}

/// Publishes the CAs of clients, in addition to those published by other servers over the same storage.
pub(crate) async fn publish_authorities(
    registry: &Registry,
    authorities: &Authorities,
    proxy: Option<&FrontProxy>,
) -> Result<(), Status> {
    if authorities.clients.is_none() && authorities.front_proxies.is_none() {
        return Ok(());
    }
    let now = registry.clock().now();
    let map = json!({"metadata": {"name": AUTHENTICATION, "namespace": NAMESPACE}});
    let initial = with_authorities(map.clone(), authorities, proxy, now).unwrap_or(map);
    super::ensure(registry, "", "configmaps", Some(NAMESPACE), initial).await?;
    let resources = registry.resources();
    let Some(configmaps) = resources.get("", "v1", "configmaps") else { return Ok(()) };
    let target = Target::object(configmaps, Some(NAMESPACE), AUTHENTICATION);
    let Some(found) = registry.peek(&target).await? else { return Ok(()) };
    if let Some(own) = authorities.clients.as_deref().filter(|_| registry.storage().is_shared()) {
        let others = untrusted(found.value().text(&["data", CLIENT_CA]), own, now);
        if !others.is_empty() {
            tracing::warn!(
                cas = others.join("; "),
                "other servers over this storage accept client certificates that this one refuses: copy pki/client-ca.pem of \
                 the first server to all data directories, or set the same --client-ca-file for all servers"
            );
        }
    }
    let Some(map) = with_authorities(found.value(), authorities, proxy, now) else { return Ok(()) };
    match registry.update(&target, Body::Value(map), super::own_params()).await {
        // Another server has published its own CAs concurrently. This server tries again at its next start.
        Err(status) if !status.is_conflict() => Err(status),
        _ => Ok(()),
    }
}

/// Returns the ConfigMap with the CAs and the headers of front proxies added; `None` if it already contains them.
fn with_authorities(
    mut map: Value,
    authorities: &Authorities,
    proxy: Option<&FrontProxy>,
    now: Timestamp,
) -> Option<Value> {
    let published = map.at(&["data"]).cloned().unwrap_or_else(|| json!({}));
    let mut data = published.clone();
    if let Some(pem) = &authorities.clients {
        data[CLIENT_CA] = combined(published.text(&[CLIENT_CA]), pem, now).into();
    }
    if let (Some(pem), Some(proxy)) = (&authorities.front_proxies, proxy) {
        data[PROXY_CA] = combined(published.text(&[PROXY_CA]), pem, now).into();
        for (key, values) in [
            ("requestheader-allowed-names", &proxy.allowed_names),
            ("requestheader-extra-headers-prefix", &proxy.extra_header_prefixes),
            ("requestheader-group-headers", &proxy.group_headers),
            ("requestheader-uid-headers", &proxy.uid_headers),
            ("requestheader-username-headers", &proxy.username_headers),
        ] {
            if values.is_empty() && key == "requestheader-uid-headers" {
                continue;
            }
            let mut all: Vec<String> = serde_json::from_str(published.text(&[key])).unwrap_or_default();
            for value in values {
                if !all.contains(value) {
                    all.push(value.clone());
                }
            }
            data[key] = json!(all).to_string().into();
        }
    }
    if data == published {
        return None;
    }
    map["data"] = data;
    Some(map)
}

/// Returns the subjects of the published CAs that are not among the own ones, without those that have expired.
fn untrusted(published: &str, own: &str, now: Timestamp) -> Vec<String> {
    let own = valid(own, now);
    let others = valid(published, now).into_iter().filter(|certificate| !own.contains(certificate));
    let subject =
        |certificate: CertificateDer<'_>| Some(X509Certificate::from_der(&certificate).ok()?.1.subject().to_string());
    others.filter_map(subject).collect()
}

/// Returns the certificates of a bundle in PEM, each of them once, without those that have expired.
fn valid(pem: &str, now: Timestamp) -> Vec<CertificateDer<'static>> {
    /// The tolerated clock difference to the issuer, in seconds.
    const LEEWAY: i64 = 300;
    let mut certificates: Vec<CertificateDer<'static>> = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()).flatten() {
        let is_valid = X509Certificate::from_der(&certificate)
            .is_ok_and(|(_, found)| found.validity().not_after.timestamp() > now.as_second() - LEEWAY);
        if is_valid && !certificates.contains(&certificate) {
            certificates.push(certificate);
        }
    }
    certificates
}

/// Returns the certificates of two bundles in PEM, each of them once, without those that have expired.
fn combined(published: &str, own: &str, now: Timestamp) -> String {
    // The last line of a bundle may lack its end.
    let certificates = valid(&[published, "\n", own].concat(), now);
    let mut pem = String::new();
    for certificate in certificates {
        pem.push_str("-----BEGIN CERTIFICATE-----\n");
        let encoded = BASE64_STANDARD.encode(&certificate);
        let mut rest = encoded.as_str();
        while !rest.is_empty() {
            let (line, after) = rest.split_at(rest.len().min(64));
            pem.push_str(line);
            pem.push('\n');
            rest = after;
        }
        pem.push_str("-----END CERTIFICATE-----\n");
    }
    pem
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate() -> String {
        let key = rcgen::KeyPair::generate().unwrap();
        rcgen::CertificateParams::new(["ca".to_owned()]).unwrap().self_signed(&key).unwrap().pem().replace("\r\n", "\n")
    }

    #[test]
    fn authorities_and_headers_are_published_once() {
        let (first, second) = (certificate(), certificate());
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let mut authorities = Authorities { clients: Some(first.clone().into()), front_proxies: None };
        let map = with_authorities(json!({}), &authorities, None, now).unwrap();
        assert_eq!(map, json!({"data": {CLIENT_CA: first}}));
        assert_eq!(with_authorities(map.clone(), &authorities, None, now), None);
        let unfinished = json!({"data": {CLIENT_CA: second.trim_end()}});
        let map_of_both = with_authorities(unfinished, &authorities, None, now).unwrap();
        assert_eq!(map_of_both["data"][CLIENT_CA], format!("{second}{first}"));

        let proxy = FrontProxy { username_headers: vec!["X-Remote-User".to_owned()], ..FrontProxy::default() };
        authorities
            .update(Authorities { clients: Some(second.clone().into()), front_proxies: Some(first.clone().into()) });
        let map = with_authorities(map, &authorities, Some(&proxy), now).unwrap();
        assert_eq!(map["data"][CLIENT_CA], format!("{first}{second}"));
        assert_eq!(map["data"][PROXY_CA], first);
        assert_eq!(map["data"]["requestheader-username-headers"], r#"["X-Remote-User"]"#);
        assert_eq!(map["data"]["requestheader-allowed-names"], "[]");
        assert_eq!(with_authorities(map.clone(), &authorities, Some(&proxy), now), None);

        assert_eq!(untrusted(&format!("{first}{second}"), &second, now).len(), 1);
        assert!(untrusted(&second, &format!("{first}{second}"), now).is_empty());

        let long_after = Timestamp::from_second(100_000_000_000).unwrap();
        let map = with_authorities(map, &authorities, Some(&proxy), long_after).unwrap();
        assert_eq!(map["data"][CLIENT_CA], "");
    }
}
