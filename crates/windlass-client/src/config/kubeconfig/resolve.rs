//! From a kubeconfig and a choice to a [`Config`].

use std::fs;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{Uri, uri::Scheme};

use super::{Cluster, Context, Kubeconfig, Named, Selection, User};
use crate::{
    auth::{Auth, Secret},
    config::{Config, ConfigError, Identity, Place, TlsOptions, Verification},
};

/// What a user entry may ask for and does not get yet.
const UNSUPPORTED_OF_USERS: [&str; 6] = ["exec", "auth-provider", "as", "as-uid", "as-groups", "as-user-extra"];
/// What a cluster entry may ask for and does not get yet.
const UNSUPPORTED_OF_CLUSTERS: [&str; 1] = ["proxy-url"];

pub(in crate::config) fn resolve(kubeconfig: &Kubeconfig, selection: &Selection) -> Result<Config, ConfigError> {
    let context = context(kubeconfig, selection)?;
    let place = context.map_or_else(|| kubeconfig.place(), |context| context.place("context"));
    let entry = context.map(|context| &context.entry);

    let name = chosen(selection.cluster.as_ref(), entry.and_then(|context: &Context| context.cluster.as_ref()));
    let cluster = match name {
        None => return Err(place.field("cluster").invalid("is not set")),
        Some(name) => find(&kubeconfig.clusters, name)
            .ok_or_else(|| place.field("cluster").invalid(format!("there is no cluster named {name:?}")))?,
    };
    let name = chosen(selection.user.as_ref(), entry.and_then(|context| context.user.as_ref()));
    let user = match name {
        None => None,
        Some(name) => Some(
            find(&kubeconfig.users, name)
                .ok_or_else(|| place.field("user").invalid(format!("there is no user named {name:?}")))?,
        ),
    };

    let mut tls = cluster_tls(cluster)?;
    let mut auth = Auth::None;
    if let Some(user) = user {
        tls.identity = identity(user)?;
        auth = credentials(user)?;
    }
    let mut config = Config::new(server(cluster, &tls)?);
    config.tls = tls;
    if config.server.scheme() == Some(&Scheme::HTTPS) {
        config.auth = auth;
    } else if !matches!(auth, Auth::None) {
        // As Go's client: a server without TLS gets no secrets.
        tracing::warn!(server = %config.server, "not https: the credentials of the kubeconfig are not sent");
    }
    if let Some(namespace) = chosen(None, entry.and_then(|context| context.namespace.as_ref())) {
        namespace.clone_into(&mut config.default_namespace);
    }
    Ok(config)
}

fn context<'k>(kubeconfig: &'k Kubeconfig, selection: &Selection) -> Result<Option<&'k Named<Context>>, ConfigError> {
    let Some(name) = chosen(selection.context.as_ref(), kubeconfig.current_context.as_ref()) else {
        // A cluster that is named outright needs no context.
        return match selection.cluster {
            Some(_) => Ok(None),
            None => Err(ConfigError::NoContext { place: Box::new(kubeconfig.place()) }),
        };
    };
    if let Some(context) = find(&kubeconfig.contexts, name) {
        return Ok(Some(context));
    }
    let field = if selection.context.is_some() { "contexts" } else { "current-context" };
    Err(kubeconfig.place().field(field).invalid(format!("there is no context named {name:?}")))
}

fn cluster_tls(cluster: &Named<Cluster>) -> Result<TlsOptions, ConfigError> {
    let place = cluster.place("cluster");
    let entry = &cluster.entry;
    refuse_unsupported(&place, &entry.other.0, &UNSUPPORTED_OF_CLUSTERS)?;
    let certificate_authority = bytes_of(
        cluster,
        &place,
        ("certificate-authority", entry.certificate_authority.as_deref()),
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
    let server_name = entry.tls_server_name.clone().filter(|name| !name.is_empty());
    Ok(TlsOptions { certificate_authority, verification, server_name, identity: None })
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
        // As Go's client reads an address without a scheme.
        let needs_tls = tls.certificate_authority.is_some()
            || tls.identity.is_some()
            || tls.server_name.is_some()
            || tls.verification == Verification::Skip;
        format!("{}://{text}", if needs_tls { "https" } else { "http" })
    };
    match address.parse::<Uri>() {
        Ok(uri) if matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|h| !h.is_empty()) => {
            Ok(uri)
        }
        _ => Err(place.invalid(format!("{text:?} is not the address of a server"))),
    }
}

fn identity(user: &Named<User>) -> Result<Option<Identity>, ConfigError> {
    let place = user.place("user");
    let entry = &user.entry;
    let certificate = bytes_of(
        user,
        &place,
        ("client-certificate", entry.client_certificate.as_deref()),
        ("client-certificate-data", entry.client_certificate_data.as_deref()),
    )?;
    let key = bytes_of(
        user,
        &place,
        ("client-key", entry.client_key.as_deref()),
        ("client-key-data", entry.client_key_data.as_ref().map(Secret::expose)),
    )?;
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => {
            let key = String::from_utf8(key).map_err(|_| place.field("client-key").invalid("is no PEM"))?;
            Ok(Some(Identity { certificate, key: key.into() }))
        }
        (Some(_), None) => Err(place.field("client-key").invalid("is not set beside a client certificate")),
        (None, Some(_)) => Err(place.field("client-certificate").invalid("is not set beside a client key")),
    }
}

fn credentials(user: &Named<User>) -> Result<Auth, ConfigError> {
    let place = user.place("user");
    let entry = &user.entry;
    refuse_unsupported(&place, &entry.other.0, &UNSUPPORTED_OF_USERS)?;
    let set = |secret: &Option<Secret>| secret.clone().filter(|secret| !secret.expose().is_empty());
    let token = match entry.token_file.as_deref().filter(|path| !path.is_empty()) {
        Some(path) => Some(Auth::TokenFile(user.resolve_path(path))),
        None => set(&entry.token).map(Auth::Bearer),
    };
    let username = entry.username.clone().filter(|name| !name.is_empty());
    let password = set(&entry.password);
    match token {
        Some(_) if username.is_some() || password.is_some() => {
            Err(place.invalid("has both a token and a password; one is allowed"))
        }
        Some(token) => Ok(token),
        None if username.is_none() && password.is_none() => Ok(Auth::None),
        None => Ok(Auth::Basic { username: username.unwrap_or_default(), password: password.unwrap_or_default() }),
    }
}

/// The bytes behind a pair of fields, of which one names a file and the other holds base64.
fn bytes_of<T>(
    entry: &Named<T>,
    place: &Place,
    (file_field, file): (&str, Option<&str>),
    (data_field, data): (&str, Option<&str>),
) -> Result<Option<Vec<u8>>, ConfigError> {
    match (file.filter(|file| !file.is_empty()), data.filter(|data| !data.is_empty())) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => {
            Err(place.field(file_field).invalid(format!("is set beside {data_field}; one is allowed")))
        }
        (Some(file), None) => {
            let path = entry.resolve_path(file);
            let named_by = Some(Box::new(place.field(file_field)));
            fs::read(&path).map(Some).map_err(|source| ConfigError::Read { path, named_by, source })
        }
        (None, Some(data)) => {
            let compact: String = data.chars().filter(|c| !c.is_ascii_whitespace()).collect();
            let decoded = BASE64_STANDARD.decode(compact);
            // The decoder's error would name a byte of what may be a key.
            decoded.map(Some).map_err(|_| place.field(data_field).invalid("is not base64"))
        }
    }
}

fn refuse_unsupported(
    place: &Place,
    fields: &serde_json::Map<String, serde_json::Value>,
    names: &[&str],
) -> Result<(), ConfigError> {
    let is_used = |name: &&&str| {
        fields.get(**name).is_some_and(|value| !value.is_null() && value.as_str().is_none_or(|text| !text.is_empty()))
    };
    match names.iter().find(is_used) {
        Some(name) => Err(place.field(*name).unsupported()),
        None => Ok(()),
    }
}

fn chosen<'n>(asked: Option<&'n String>, written: Option<&'n String>) -> Option<&'n str> {
    asked.or(written).map(String::as_str).filter(|name| !name.is_empty())
}

fn find<'k, T>(entries: &'k [Named<T>], name: &str) -> Option<&'k Named<T>> {
    entries.iter().find(|entry| entry.name == name)
}

impl<T> Named<T> {
    fn place(&self, word: &str) -> Place {
        Place::file(self.origin.clone()).entry(format!("{word} {:?}", self.name))
    }
}
