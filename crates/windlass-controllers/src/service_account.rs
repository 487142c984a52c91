//! ServiceAccount: creates the account `default` in every namespace and, if the certificate authority is configured,
//! the ConfigMap `kube-root-ca.crt`.
//!
//! Guaranteed: both are created again when they are deleted, and the ConfigMap's content is restored when it is
//! changed. An existing account is not changed.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use windlass_api::{Object, ObjectExt, ObjectRef, Resource};
use windlass_cache::Cached;
use windlass_client::Error;
use windlass_runtime::{Action, CachedClient, Context, Controller, Manager, Watch};

use crate::{Identity, error::ReconcileError, identity::Identities};

/// The account of pods that specify none.
const ACCOUNT: &str = "default";
/// The ConfigMap with the certificate authority.
const ROOT_CA: &str = "kube-root-ca.crt";
/// The certificate's key in the ConfigMap.
const CA_FILE: &str = "ca.crt";

/// Adds the controller to a manager. `root_ca` is the certificate authority of the API server, as PEM; without it, no
/// ConfigMap is created.
///
/// The ConfigMaps are written as the controller `root-ca-cert-publisher`, which is a controller of its own in
/// kube-controller-manager.
pub(crate) fn add_to(manager: &mut Manager, root_ca: Option<Arc<str>>, identities: Identities) {
    let accounts = Watch::<ServiceAccount>::all().fields(format!("metadata.name={ACCOUNT}"));
    let mut controller = Controller::<Namespace>::new().named("serviceaccount").watches_with(accounts, home_of);
    if root_ca.is_some() {
        let config_maps = Watch::<ConfigMap>::all().fields(format!("metadata.name={ROOT_CA}"));
        controller = controller.watches_with(config_maps, home_of);
    }
    manager
        .add(controller.reconcile(move |namespace, cx| reconcile(namespace, cx, root_ca.clone(), identities.clone())));
}

/// Returns the namespace of an object.
fn home_of<T: Object>(object: &Cached<T>) -> Option<ObjectRef<Namespace>> {
    object.meta().namespace().cloned().map(ObjectRef::new)
}

async fn reconcile(
    namespace: Arc<Namespace>,
    cx: Context,
    root_ca: Option<Arc<str>>,
    identities: Identities,
) -> Result<Action, ReconcileError> {
    if !is_active(&namespace) {
        return Ok(Action::await_change());
    }
    let name = namespace.name();
    if cx.store::<ServiceAccount>().get(&ObjectRef::new(ACCOUNT).within(name)).is_none() {
        create(cx.client(), &account(name)).await?;
    }
    if let Some(root_ca) = root_ca {
        let wanted = config_map(name, &root_ca);
        let publisher = identities.acting(cx.client(), Identity::Controller("root-ca-cert-publisher"));
        match cx.store::<ConfigMap>().get(&wanted.object_ref()) {
            None => create(&publisher, &wanted).await?,
            Some(found) => {
                let found = found.get()?;
                if let Some(changed) = corrected(&found, &wanted) {
                    match publisher.update(&changed).await {
                        Ok(_) => {}
                        // The event of the newer state triggers another reconcile.
                        Err(error) if error.is_conflict() || error.is_not_found() => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
    }
    Ok(Action::await_change())
}

async fn create<K: Resource>(client: &CachedClient, object: &K) -> Result<(), Error> {
    match client.create(object).await {
        Ok(_) => Ok(()),
        // The cache is stale, or the namespace is being deleted.
        Err(error) if error.is_already_exists() || error.is_not_found() => Ok(()),
        Err(error) if error.status().is_some_and(|status| status.has_cause("NamespaceTerminating")) => Ok(()),
        Err(error) => Err(error),
    }
}

fn is_active(namespace: &Namespace) -> bool {
    let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
    !namespace.is_deleting() && phase == Some("Active")
}

fn account(namespace: &str) -> ServiceAccount {
    named(namespace, ACCOUNT, ServiceAccount::default())
}

fn config_map(namespace: &str, root_ca: &str) -> ConfigMap {
    let data = BTreeMap::from([(CA_FILE.to_owned(), root_ca.to_owned())]);
    let mut config_map = named(namespace, ROOT_CA, ConfigMap { data: Some(data), ..ConfigMap::default() });
    config_map.annotations_mut().insert(
        "kubernetes.io/description".to_owned(),
        "The certificate authority that vouches for the API server's address within the cluster.".to_owned(),
    );
    config_map
}

fn named<K: Object>(namespace: &str, name: &str, mut object: K) -> K {
    object.metadata_mut().namespace = Some(namespace.to_owned());
    object.metadata_mut().name = Some(name.to_owned());
    object
}

/// Returns the corrected ConfigMap, or `None` if its content is already right.
fn corrected(found: &ConfigMap, wanted: &ConfigMap) -> Option<ConfigMap> {
    (found.data != wanted.data || found.binary_data.is_some()).then(|| {
        let mut changed = found.clone();
        changed.data.clone_from(&wanted.data);
        changed.binary_data = None;
        changed
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{api::core::v1::NamespaceStatus, apimachinery::pkg::apis::meta::v1::Time};

    use super::*;

    #[test]
    fn only_active_namespaces_are_bootstrapped() {
        let in_phase = |phase: &str| Namespace {
            status: Some(NamespaceStatus { phase: Some(phase.to_owned()), conditions: None }),
            ..Namespace::default()
        };
        assert!(is_active(&in_phase("Active")) && !is_active(&in_phase("Terminating")));
        let mut leaving = in_phase("Active");
        leaving.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        assert!(!is_active(&leaving));
    }

    #[test]
    fn changed_ca_config_map_is_corrected_and_keeps_other_keys() {
        let wanted = config_map("n", "PEM");
        assert_eq!(corrected(&wanted, &wanted), None);
        let mut edited = wanted.clone();
        edited.labels_mut().insert("mine".to_owned(), "yes".to_owned());
        edited.data.get_or_insert_default().insert("more".to_owned(), "x".to_owned());
        let corrected = corrected(&edited, &wanted).unwrap();
        assert_eq!((corrected.data, corrected.metadata.labels), (wanted.data, edited.metadata.labels));
    }
}
