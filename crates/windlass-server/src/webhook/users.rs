//! The credentials for webhooks, from a kubeconfig whose users are named by the hosts of webhooks.

use std::{collections::BTreeMap, fmt};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use serde_json::Value;
use windlass_api::BoxError;

use crate::object::Tree;

/// The users of a kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WebhookUsers {
    users: BTreeMap<String, Credentials>,
    /// The user for webhooks without their own, from the current context.
    default: Option<String>,
}

/// The credentials of a user.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    /// The header `Authorization`; empty for none.
    pub(crate) authorization: String,
    /// The certificate chain and the key in PEM; empty for none.
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl WebhookUsers {
    /// Reads a kubeconfig, whose certificates, keys and tokens must be in the document itself.
    pub(crate) fn parse(kubeconfig: &Value) -> Result<Self, BoxError> {
        let mut found = Self::default();
        for user in kubeconfig.items(&["users"]) {
            let name = user.text(&["name"]);
            let credentials = Credentials::parse(user.at(&["user"]).unwrap_or(&Value::Null));
            found.users.insert(name.to_owned(), credentials.map_err(|error| format!("user {name:?}: {error}"))?);
        }
        let current = kubeconfig.text(&["current-context"]);
        let mut contexts = kubeconfig.items(&["contexts"]).iter();
        let context = contexts.find(|context| !current.is_empty() && context.text(&["name"]) == current);
        found.default = context.map(|context| context.text(&["context", "user"]).to_owned());
        Ok(found)
    }

    /// Returns the credentials for a webhook at a host and port.
    pub(crate) fn of(&self, host: &str, port: u16) -> Option<&Credentials> {
        if self.users.is_empty() {
            return None;
        }
        let named = |target: &str| {
            let exact = self.users.get(target);
            let rest = target.match_indices('.').map(|(at, _)| &target[at..]);
            exact.or_else(|| rest.into_iter().find_map(|rest| self.users.get(&format!("*{rest}"))))
        };
        let found = named(&format!("{host}:{port}")).or_else(|| (port == 443).then(|| named(host)).flatten());
        found.or_else(|| self.users.get("*")).or_else(|| self.users.get(self.default.as_ref()?))
    }
}

impl Credentials {
    fn parse(user: &Value) -> Result<Self, BoxError> {
        for field in ["client-certificate", "client-key", "tokenFile", "exec", "auth-provider"] {
            if user.at(&[field]).is_some() {
                return Err(format!("{field} is not supported").into());
            }
        }
        let authorization = match (user.text(&["token"]), user.text(&["username"])) {
            ("", "") => String::new(),
            ("", name) => {
                let password = user.text(&["password"]);
                format!("Basic {}", BASE64_STANDARD.encode(format!("{name}:{password}")))
            }
            (token, _) => format!("Bearer {token}"),
        };
        http::HeaderValue::from_str(&authorization)?;
        let data =
            |field: &str| BASE64_STANDARD.decode(user.text(&[field])).map_err(|error| format!("{field}: {error}"));
        let (certificate, key) = (data("client-certificate-data")?, data("client-key-data")?);
        let credentials = Self { authorization, certificate, key };
        credentials.identity()?;
        Ok(credentials)
    }

    /// Returns the client certificate chain and its key.
    pub(crate) fn identity(&self) -> Result<Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>, BoxError> {
        if self.certificate.is_empty() && self.key.is_empty() {
            return Ok(None);
        }
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.certificate).collect();
        Ok(Some((chain?, PrivateKeyDer::from_pem_slice(&self.key)?)))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn user_is_selected_by_host_and_port() {
        let user = |name: &str, token: &str| json!({"name": name, "user": {"token": token}});
        let users = [
            user("hooks.shop.svc", "exact"),
            user("hooks.shop.svc:8443", "port"),
            user("*.shop.svc", "namespace"),
            user("*.svc:9443", "other port"),
            user("*", "rest"),
        ];
        let parsed = WebhookUsers::parse(&json!({"users": users})).unwrap();
        for (host, port, token) in [
            ("hooks.shop.svc", 443, "exact"),
            ("hooks.shop.svc", 8443, "port"),
            ("others.shop.svc", 443, "namespace"),
            ("others.shop.svc", 9443, "other port"),
            ("hooks.shop.svc", 80, "rest"),
            ("example.com", 443, "rest"),
        ] {
            let found = parsed.of(host, port).unwrap();
            assert_eq!(found.authorization, format!("Bearer {token}"), "{host}:{port}");
        }
    }

    #[test]
    fn current_context_is_the_last_choice() {
        let kubeconfig = json!({
            "users": [{"name": "a", "user": {"username": "u", "password": "p"}}],
            "contexts": [{"name": "c", "context": {"user": "a"}}],
            "current-context": "c",
        });
        let parsed = WebhookUsers::parse(&kubeconfig).unwrap();
        assert_eq!(parsed.of("example.com", 1).unwrap().authorization, "Basic dTpw");
        assert!(WebhookUsers::default().of("example.com", 1).is_none());
    }

    #[test]
    fn unusable_credentials_are_rejected() {
        for user in [
            json!({"client-certificate": "/a.crt"}),
            json!({"token": "a\nb"}),
            json!({"client-certificate-data": "?"}),
            json!({"client-certificate-data": "YQ==", "client-key-data": "YQ=="}),
        ] {
            let error = WebhookUsers::parse(&json!({"users": [{"name": "u", "user": user}]})).unwrap_err();
            assert!(error.to_string().starts_with("user \"u\": "), "{error}");
        }
    }
}
