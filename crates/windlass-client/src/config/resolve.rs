//! Resolution of a kubeconfig and a selection to a [`Config`].

mod credentials;
mod fields;

use std::{fs, path::PathBuf};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{Uri, uri::Scheme};

use super::{Compression, Config};
use crate::{
    auth::{Auth, Impersonation},
    config_error::{ConfigError, Place},
    connection_options::{Identity, Pem, Proxy, TlsOptions, Verification},
    kubeconfig::{Cluster, Kubeconfig, Named, SelectedEntries, Selection, User, first_set, is_set},
    secret::Secret,
};

pub(super) fn resolve(kubeconfig: &Kubeconfig, selection: &Selection) -> Result<Config, ConfigError> {
    let selected = SelectedEntries::of(kubeconfig, selection)?;
    let cluster = fields::over(selected.cluster, &selection.cluster_fields);
    let user = fields::over(selected.user, &selection.user_fields);

    let mut tls = cluster_tls(&cluster)?;
    tls.identity = identity(&user)?;
    let auth = credentials::auth(&user, &cluster, tls.identity.as_ref())?;
    let mut config = Config::new(server(&cluster, &tls)?);
    config.tls = tls;
    if config.server.scheme() == Some(&Scheme::HTTPS) {
        config.auth = auth;
    } else if !matches!(auth, Auth::None) {
        // As in client-go, a server without TLS gets no credentials.
        tracing::warn!(server = %config.server, "not https: the credentials of the kubeconfig are not sent");
    }
    config.impersonation = impersonation(&user)?;
    config.proxy = proxy(&cluster)?;
    if cluster.entry.disable_compression == Some(true) {
        config.compression = Compression::Off;
    }
    let written = selected.context.and_then(|context| context.entry.namespace.as_ref());
    if let Some(namespace) = first_set(selection.namespace.as_ref(), written) {
        namespace.clone_into(&mut config.default_namespace);
    }
    Ok(config)
}

fn cluster_tls(cluster: &Named<Cluster>) -> Result<TlsOptions, ConfigError> {
    let place = cluster.place("cluster");
    let entry = &cluster.entry;
    let certificate_authority = pem(
        &place,
        ("certificate-authority", entry.certificate_authority.as_ref()),
        ("certificate-authority-data", entry.certificate_authority_data.as_deref()),
    )?;
    let verification = match entry.insecure_skip_tls_verify {
        Some(true) if certificate_authority.is_some() => {
            return Err(place
                .field("insecure-skip-tls-verify")
                .invalid("is true beside a certificate authority, which would never be asked"));
        }
        Some(true) => Verification::Skip,
        Some(false) | None => Verification::Full,
    };
    let server_name = is_set(entry.tls_server_name.as_ref()).map(str::to_owned);
    Ok(TlsOptions { certificate_authority, verification, server_name, ..TlsOptions::default() })
}

fn server(cluster: &Named<Cluster>, tls: &TlsOptions) -> Result<Uri, ConfigError> {
    let place = cluster.place("cluster").field("server");
    let text = cluster.entry.server.as_deref().unwrap_or_default().trim();
    if text.is_empty() {
        return Err(place.invalid("is not set"));
    }
    let address = if text.contains("://") {
        text.to_owned()
    } else {
        // As client-go interprets an address without a scheme.
        let needs_tls = tls.certificate_authority.is_some()
            || tls.identity.is_some()
            || tls.server_name.is_some()
            || tls.verification == Verification::Skip;
        format!("{}://{text}", if needs_tls { "https" } else { "http" })
    };
    let parsed = address.parse::<Uri>().ok().filter(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty())
    });
    match parsed {
        // Not shown, because the part before the @ is a secret.
        _ if text.contains('@') => Err(place.invalid("holds a user, which belongs into users")),
        Some(uri) => Ok(uri),
        None => Err(place.invalid(format!("{text:?} is not the address of a server"))),
    }
}

fn proxy(cluster: &Named<Cluster>) -> Result<Proxy, ConfigError> {
    let Some(url) = cluster.entry.proxy_url.as_ref().map(Secret::expose).filter(|url| !url.is_empty()) else {
        return Ok(Proxy::Environment);
    };
    let invalid = |error| cluster.place("cluster").field("proxy-url").invalid(format!("{error}"));
    url.parse().map(Proxy::Server).map_err(|error: crate::connection_options::ProxyError| invalid(error))
}

fn identity(user: &Named<User>) -> Result<Option<Identity>, ConfigError> {
    let place = user.place("user");
    let entry = &user.entry;
    let certificate = pem(
        &place,
        ("client-certificate", entry.client_certificate.as_ref()),
        ("client-certificate-data", entry.client_certificate_data.as_deref()),
    )?;
    let key = pem(
        &place,
        ("client-key", entry.client_key.as_ref()),
        ("client-key-data", entry.client_key_data.as_ref().map(Secret::expose)),
    )?;
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some(Identity { certificate, key })),
        (Some(_), None) => Err(place.field("client-key").invalid("is not set beside a client certificate")),
        (None, Some(_)) => Err(place.field("client-certificate").invalid("is not set beside a client key")),
    }
}

fn impersonation(user: &Named<User>) -> Result<Option<Impersonation>, ConfigError> {
    let entry = &user.entry;
    let uid = is_set(entry.impersonate_uid.as_ref());
    let Some(name) = is_set(entry.impersonate.as_ref()) else {
        let more = uid.is_some() || !entry.impersonate_groups.is_empty() || !entry.impersonate_extra.is_empty();
        return if more {
            Err(user.place("user").field("as").invalid("is not set beside a uid, groups or extra to act with"))
        } else {
            Ok(None)
        };
    };
    Ok(Some(Impersonation {
        user: name.to_owned(),
        uid: uid.map(str::to_owned),
        groups: entry.impersonate_groups.clone(),
        extra: entry.impersonate_extra.clone(),
    }))
}

/// Reads a pair of fields, of which one names a file and the other contains base64.
fn pem(
    place: &Place,
    (file_field, file): (&str, Option<&String>),
    (data_field, data): (&str, Option<&str>),
) -> Result<Option<Pem>, ConfigError> {
    match (is_set(file), data.filter(|data| !data.is_empty())) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => {
            Err(place.field(file_field).invalid(format!("is set beside {data_field}; one is allowed")))
        }
        (Some(file), None) => existing(file, place, file_field).map(|path| Some(Pem::File(path))),
        (None, Some(data)) => {
            let decoded = decode(data);
            // The decoder's error would contain a byte of the value, which may be a key.
            decoded.map(|bytes| Some(Pem::Data(bytes))).ok_or_else(|| place.field(data_field).invalid("is not base64"))
        }
    }
}

/// Returns the path of a file that can be opened. Otherwise, returns an error that names the field.
fn existing(path: &str, place: &Place, field: &str) -> Result<PathBuf, ConfigError> {
    let path = PathBuf::from(path);
    match fs::File::open(&path) {
        Ok(_) => Ok(path),
        Err(source) => Err(ConfigError::Read { path, named_by: Some(Box::new(place.field(field))), source }),
    }
}

/// Decodes base64 that may contain line breaks but no spaces, as in Go.
fn decode(data: &str) -> Option<Vec<u8>> {
    let compact: String = data.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    BASE64_STANDARD.decode(compact).ok()
}

fn encode(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}
