//! ServiceAccount tokens: fills in the token of secrets of type `kubernetes.io/service-account-token`.
//!
//! Guaranteed: such a secret contains a token, the namespace and, if the certificate authority is configured, its
//! certificate, as long as its service account exists. It is deleted when the account is gone.
//!
//! Not done: a deleted secret stays in the list `secrets` of its account.

use std::{collections::BTreeMap, fmt, sync::Arc};

use k8s_openapi::{
    ByteString,
    api::core::v1::{Secret, ServiceAccount},
};
use windlass_api::{BoxError, ObjectExt, ObjectRef};
use windlass_cache::Cached;
use windlass_runtime::{Action, Context, Controller, Manager, Watch};

use crate::error::{ReconcileError, await_newer_state};

/// The type of the secrets.
const TYPE: &str = "kubernetes.io/service-account-token";
const NAME: &str = "kubernetes.io/service-account.name";
const UID: &str = "kubernetes.io/service-account.uid";

const TOKEN: &str = "token";
const NAMESPACE: &str = "namespace";
const CA: &str = "ca.crt";

/// An account and the secret of its token.
#[derive(Clone, Copy, Debug)]
pub struct TokenRequest<'r> {
    /// The namespace of both.
    pub namespace: &'r str,
    /// The name of the account.
    pub account: &'r str,
    /// The UID of the account.
    pub uid: &'r str,
    /// The name of the secret.
    pub secret: &'r str,
}

/// Signs the tokens of secrets.
#[derive(Clone)]
pub struct TokenSigner(Arc<dyn Fn(TokenRequest<'_>) -> Result<String, BoxError> + Send + Sync>);

impl TokenSigner {
    /// Creates a signer from a function that returns the token of a secret.
    pub fn new(sign: impl Fn(TokenRequest<'_>) -> Result<String, BoxError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(sign))
    }
}

impl fmt::Debug for TokenSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenSigner").finish_non_exhaustive()
    }
}

/// Adds the controller to a manager. `root_ca` is the certificate authority of the API server, as PEM.
pub(crate) fn add_to(manager: &mut Manager, signer: TokenSigner, root_ca: Option<Arc<str>>) {
    let secrets = Watch::<Secret>::all().fields(format!("type={TYPE}"));
    let controller =
        Controller::<ServiceAccount>::new().named("serviceaccount-token").watches_with(secrets, account_of);
    manager.add(controller.reconcile_keys(move |account, cx| {
        let (signer, root_ca) = (signer.clone(), root_ca.clone());
        async move { await_newer_state(reconcile(&account, &cx, &signer, root_ca.as_deref()).await) }
    }));
}

/// Returns the account of a secret.
fn account_of(secret: &Cached<Secret>) -> Option<ObjectRef<ServiceAccount>> {
    let decoded = secret.get().ok()?;
    let account = decoded.annotations().get(NAME)?;
    Some(ObjectRef::new(account.as_str()).within(secret.meta().namespace()?.clone()))
}

async fn reconcile(
    key: &ObjectRef<ServiceAccount>,
    cx: &Context,
    signer: &TokenSigner,
    root_ca: Option<&str>,
) -> Result<Action, ReconcileError> {
    let mut secrets = Vec::new();
    for secret in cx.store::<Secret>().list() {
        if account_of(&secret).as_ref() == Some(key) {
            secrets.push(secret.get()?);
        }
    }
    if secrets.is_empty() {
        return Ok(Action::await_change());
    }
    // The cache may be stale, and a deletion is final, so the server is asked.
    let mut account = match cx.store::<ServiceAccount>().get(key) {
        Some(account) => Some(account.get()?),
        None => None,
    };
    let is_of_all = |account: &ServiceAccount| secrets.iter().all(|secret| is_of(secret, account));
    if !account.as_deref().is_some_and(is_of_all) {
        account = cx.live().get_opt::<ServiceAccount>(key.clone()).await?.map(Arc::new);
    }
    for secret in secrets {
        if secret.is_deleting() {
            continue;
        }
        if let Some(account) = account.as_deref().filter(|account| is_of(&secret, account)) {
            if let Some(filled) = filled(&secret, account, signer, root_ca)? {
                cx.client().update(&filled).await?;
            }
        } else {
            let uid = secret.uid().unwrap_or_default();
            cx.client().delete::<Secret>(secret.object_ref()).uid(uid).await?;
        }
    }
    Ok(Action::await_change())
}

/// Reports whether a secret belongs to this account, and not to an earlier one with the same name.
fn is_of(secret: &Secret, account: &ServiceAccount) -> bool {
    let uid = secret.annotations().get(UID).map_or("", String::as_str);
    uid.is_empty() || Some(uid) == account.uid()
}

/// Returns the secret with its missing parts. Returns `None` if it is complete.
fn filled(
    secret: &Secret,
    account: &ServiceAccount,
    signer: &TokenSigner,
    root_ca: Option<&str>,
) -> Result<Option<Secret>, ReconcileError> {
    let none = BTreeMap::new();
    let data = secret.data.as_ref().unwrap_or(&none);
    let is_missing = |key: &str| data.get(key).is_none_or(|value| value.0.is_empty());
    let other_ca = root_ca.filter(|ca| data.get(CA).is_none_or(|found| found.0 != ca.as_bytes()));
    if other_ca.is_none() && !is_missing(NAMESPACE) && !is_missing(TOKEN) {
        return Ok(None);
    }
    let (namespace, uid) = (secret.namespace().unwrap_or_default(), account.uid().unwrap_or_default());
    let mut filled = secret.clone();
    let data = filled.data.get_or_insert_default();
    if let Some(ca) = other_ca {
        data.insert(CA.to_owned(), ByteString(ca.as_bytes().to_vec()));
    }
    if is_missing(NAMESPACE) {
        data.insert(NAMESPACE.to_owned(), ByteString(namespace.as_bytes().to_vec()));
    }
    if is_missing(TOKEN) {
        let request = TokenRequest { namespace, account: account.name(), uid, secret: secret.name() };
        let token = (signer.0)(request).map_err(ReconcileError::Token)?;
        data.insert(TOKEN.to_owned(), ByteString(token.into_bytes()));
    }
    filled.annotations_mut().insert(NAME.to_owned(), account.name().to_owned());
    filled.annotations_mut().insert(UID.to_owned(), uid.to_owned());
    Ok(Some(filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects() -> (Secret, ServiceAccount, TokenSigner) {
        let object = |kind: &str, name: &str, more: serde_json::Value| {
            let mut object = serde_json::json!({
                "apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "n", "uid": format!("{name}-uid")},
            });
            for (key, value) in more.as_object().unwrap() {
                object[key] = value.clone();
            }
            object
        };
        let secret = object("Secret", "s", serde_json::json!({"type": TYPE}));
        let mut secret: Secret = serde_json::from_value(secret).unwrap();
        secret.annotations_mut().insert(NAME.to_owned(), "robot".to_owned());
        let account = serde_json::from_value(object("ServiceAccount", "robot", serde_json::json!({}))).unwrap();
        let signer = TokenSigner::new(|request| {
            Ok(format!("{} {} {} {}", request.namespace, request.account, request.uid, request.secret))
        });
        (secret, account, signer)
    }

    #[test]
    fn missing_parts_of_a_secret_are_filled_in() {
        let (secret, account, signer) = objects();
        let filled = super::filled(&secret, &account, &signer, Some("PEM")).unwrap().unwrap();
        let text = |key: &str| String::from_utf8(filled.data.as_ref().unwrap()[key].0.clone()).unwrap();
        assert_eq!([text(TOKEN), text(NAMESPACE), text(CA)], ["n robot robot-uid s", "n", "PEM"]);
        assert_eq!(filled.annotations()[UID], "robot-uid");
        assert_eq!(super::filled(&filled, &account, &signer, Some("PEM")).unwrap(), None);
        let renewed = super::filled(&filled, &account, &signer, Some("NEW")).unwrap().unwrap();
        assert_eq!(renewed.data.unwrap()[CA].0, b"NEW");
    }

    #[test]
    fn secret_of_a_recreated_account_is_not_its_own() {
        let (mut secret, account, _) = objects();
        assert!(is_of(&secret, &account));
        secret.annotations_mut().insert(UID.to_owned(), "robot-uid".to_owned());
        assert!(is_of(&secret, &account));
        secret.annotations_mut().insert(UID.to_owned(), "earlier".to_owned());
        assert!(!is_of(&secret, &account));
    }

    #[tokio::test(start_paused = true)]
    async fn secret_gets_a_token_and_is_deleted_with_its_account() -> Result<(), Box<dyn std::error::Error>> {
        let env = windlass_envtest::Environment::start().await;
        let mut manager = env.manager();
        let (mut secret, mut account, signer) = objects();
        add_to(&mut manager, signer, Some("PEM".into()));
        env.run(manager);
        for metadata in [&mut secret.metadata, &mut account.metadata] {
            metadata.namespace = Some("default".to_owned());
            metadata.uid = None;
        }
        let created = env.client().create(&account).await?;
        env.client().create(&secret).await?;
        let key = secret.object_ref();
        let filled = env.eventually::<Secret>("s", |secret| secret.data.is_some()).await;
        let token = String::from_utf8(filled.data.as_ref().unwrap()[TOKEN].0.clone())?;
        assert_eq!(token, format!("default robot {} s", created.uid().unwrap()));
        env.client().delete::<ServiceAccount>(account.object_ref()).await?;
        let started = tokio::time::Instant::now();
        while env.client().get_opt::<Secret>(key.clone()).await?.is_some() {
            assert!(started.elapsed() < std::time::Duration::from_mins(1), "the secret is still there");
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        Ok(env.stop().await?)
    }
}
