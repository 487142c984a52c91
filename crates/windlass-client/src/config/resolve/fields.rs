//! Overrides for the fields of an entry.

use std::path::Path;

use crate::kubeconfig::{Cluster, Exec, Named, Unknown, User};

/// An entry whose fields can be overridden, and which contains paths.
pub(super) trait Fields: Clone + Default {
    /// Returns the paths that are relative to the entry's file.
    fn paths(&mut self) -> Vec<&mut String>;

    /// Overrides fields with those set in `asked`.
    fn replace(&mut self, asked: &Self);
}

/// Returns the entry, or an empty one, with the overrides, and with its paths resolved from the working directory.
pub(super) fn over<T: Fields>(entry: Option<&Named<T>>, asked: &T) -> Named<T> {
    let mut named = entry.cloned().unwrap_or_else(|| Named::new("", T::default()));
    if let Some(folder) = named.origin.as_deref().and_then(Path::parent) {
        for path in named.entry.paths() {
            *path = folder.join(&*path).to_string_lossy().into_owned();
        }
    }
    named.entry.replace(asked);
    named
}

impl Fields for Cluster {
    fn paths(&mut self) -> Vec<&mut String> {
        self.certificate_authority.iter_mut().filter(|path| !path.is_empty()).collect()
    }

    fn replace(&mut self, asked: &Self) {
        let Self {
            server,
            tls_server_name,
            insecure_skip_tls_verify,
            certificate_authority,
            certificate_authority_data,
            proxy_url,
            disable_compression,
            other: Unknown(other),
        } = asked;
        let authority = certificate_authority.is_some() || certificate_authority_data.is_some();
        if authority || *insecure_skip_tls_verify == Some(true) {
            self.certificate_authority.clone_from(certificate_authority);
            self.certificate_authority_data.clone_from(certificate_authority_data);
            self.insecure_skip_tls_verify = None;
        }
        if server.is_some() || tls_server_name.is_some() {
            self.tls_server_name.clone_from(tls_server_name);
        }
        put(&mut self.server, server.as_ref());
        put(&mut self.insecure_skip_tls_verify, insecure_skip_tls_verify.as_ref());
        put(&mut self.proxy_url, proxy_url.as_ref());
        put(&mut self.disable_compression, disable_compression.as_ref());
        self.other.0.extend(other.clone());
    }
}

impl Fields for User {
    fn paths(&mut self) -> Vec<&mut String> {
        let files = [&mut self.client_certificate, &mut self.client_key, &mut self.token_file];
        let command = self.exec.as_mut().and_then(|exec| exec.command.as_mut());
        let files = files.into_iter().flatten().filter(|path| !path.is_empty());
        files.chain(command.filter(|command| Exec::is_path(command))).collect()
    }

    fn replace(&mut self, asked: &Self) {
        let Self {
            client_certificate,
            client_certificate_data,
            client_key,
            client_key_data,
            token,
            token_file,
            username,
            password,
            impersonate,
            impersonate_uid,
            impersonate_groups,
            impersonate_extra,
            auth_provider,
            exec,
            other: Unknown(other),
        } = asked;
        if client_certificate.is_some() || client_certificate_data.is_some() {
            self.client_certificate.clone_from(client_certificate);
            self.client_certificate_data.clone_from(client_certificate_data);
        }
        if client_key.is_some() || client_key_data.is_some() {
            self.client_key.clone_from(client_key);
            self.client_key_data.clone_from(client_key_data);
        }
        if token.is_some() || token_file.is_some() {
            self.token.clone_from(token);
            self.token_file.clone_from(token_file);
        }
        put(&mut self.username, username.as_ref());
        put(&mut self.password, password.as_ref());
        put(&mut self.impersonate, impersonate.as_ref());
        put(&mut self.impersonate_uid, impersonate_uid.as_ref());
        if !impersonate_groups.is_empty() {
            self.impersonate_groups.clone_from(impersonate_groups);
        }
        self.impersonate_extra.extend(impersonate_extra.clone());
        put(&mut self.auth_provider, auth_provider.as_ref());
        put(&mut self.exec, exec.as_ref());
        self.other.0.extend(other.clone());
    }
}

fn put<T: Clone>(field: &mut Option<T>, asked: Option<&T>) {
    if let Some(asked) = asked {
        *field = Some(asked.clone());
    }
}
