//! Views of a kubeconfig: minified, flattened and redacted.

use std::fs;

use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::{Cluster, Kubeconfig, Named, SelectedEntries, Selection, User, entries::without_user};
use crate::config_error::{ConfigError, Place};

const REDACTED: &str = "REDACTED";
const OMITTED: &str = "DATA+OMITTED";

impl Kubeconfig {
    /// Returns only the selected or current context, with its cluster and user.
    pub fn minify(&self, selection: &Selection) -> Result<Self, ConfigError> {
        let selected = SelectedEntries::of(self, selection)?;
        Ok(Self {
            clusters: selected.cluster.cloned().into_iter().collect(),
            contexts: selected.context.cloned().into_iter().collect(),
            users: selected.user.cloned().into_iter().collect(),
            current_context: selected.context.map(|context| context.name.clone()),
            other: self.other.clone(),
            origin: self.origin.clone(),
        })
    }

    /// Returns this kubeconfig with certificates and keys embedded instead of referenced as files, so that the document
    /// can be moved. Token files and plugins remain references.
    pub fn flatten(mut self) -> Result<Self, ConfigError> {
        for named in &mut self.clusters {
            let data =
                taken_in(named, "cluster", ("certificate-authority", named.entry.certificate_authority.as_deref()))?;
            if let Some(data) = data {
                named.entry.certificate_authority = None;
                named.entry.certificate_authority_data = Some(data);
            }
        }
        for named in &mut self.users {
            let certificate =
                taken_in(named, "user", ("client-certificate", named.entry.client_certificate.as_deref()))?;
            if let Some(data) = certificate {
                named.entry.client_certificate = None;
                named.entry.client_certificate_data = Some(data);
            }
            if let Some(data) = taken_in(named, "user", ("client-key", named.entry.client_key.as_deref()))? {
                named.entry.client_key = None;
                named.entry.client_key_data = Some(data.into());
            }
        }
        Ok(self)
    }

    /// Returns this kubeconfig for display: without secrets, and without the text of certificates. Unknown fields are
    /// shown unchanged.
    #[must_use]
    pub fn redacted(mut self) -> Self {
        for Named { entry, .. } in &mut self.clusters {
            redact_cluster(entry);
        }
        for Named { entry, .. } in &mut self.users {
            redact_user(entry);
        }
        self
    }
}

/// Reads a file as base64; `None` if no file is set.
fn taken_in<T>(
    named: &Named<T>,
    word: &str,
    (field, path): (&str, Option<&str>),
) -> Result<Option<String>, ConfigError> {
    let Some(path) = path.filter(|path| !path.is_empty()) else { return Ok(None) };
    let path = named.resolve_path(path);
    match fs::read(&path) {
        Ok(bytes) => Ok(Some(BASE64_STANDARD.encode(bytes))),
        Err(source) => {
            let place: Place = named.place(word).field(field);
            Err(ConfigError::Read { path, named_by: Some(Box::new(place)), source })
        }
    }
}

fn redact_cluster(cluster: &mut Cluster) {
    omit(&mut cluster.certificate_authority_data);
    cluster.server = cluster.server.take().map(|url| without_user(&url));
    cluster.proxy_url = cluster.proxy_url.take().map(|url| without_user(url.expose()).into());
}

fn redact_user(user: &mut User) {
    omit(&mut user.client_certificate_data);
    user.client_key_data = user.client_key_data.take().map(|_| OMITTED.into());
    let provided = user.auth_provider.iter_mut().flat_map(|provider| provider.config.values_mut());
    let variables = user.exec.iter_mut().flat_map(|exec| &mut exec.env).map(|variable| &mut variable.value);
    for secret in provided.chain(variables).chain(&mut user.token).chain(&mut user.password) {
        *secret = REDACTED.into();
    }
}

fn omit(data: &mut Option<String>) {
    *data = data.take().map(|_| OMITTED.to_owned());
}
