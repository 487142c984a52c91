//! Combination of the versions of a kind to a CustomResourceDefinition.

use std::mem;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, WebhookClientConfig, WebhookConversion,
};

use crate::Resource;

/// A kind with a CustomResourceDefinition: `#[derive(CustomResource)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no definition",
    note = "`#[derive(CustomResource)]` makes it from the struct and its `#[resource(…)]`"
)]
pub trait CustomResource: Resource {
    /// Returns the CustomResourceDefinition with this version alone, as declared. Which version is stored depends on
    /// the other versions.
    fn declared() -> CustomResourceDefinition;

    /// Returns the CustomResourceDefinition of a kind with this version only. For several versions, see [`CrdBuilder`].
    #[must_use]
    fn definition() -> CustomResourceDefinition {
        let mut definition = Self::declared();
        for version in &mut definition.spec.versions {
            version.storage = true;
        }
        definition
    }
}

/// With kube-rs, the declaration is that of kube-derive. Its version is marked `storage` unless it says otherwise.
#[cfg(feature = "kube")]
#[diagnostic::do_not_recommend]
impl<K: kube_core::CustomResourceExt + Resource> CustomResource for K {
    fn declared() -> CustomResourceDefinition {
        K::crd()
    }
}

/// A builder of a CustomResourceDefinition from the versions of a kind.
///
/// ```no_run
/// # use windlass_api::crd::{CustomResource, CrdBuilder, CrdError};
/// # fn example<V1: CustomResource, V1Beta1: CustomResource>() -> Result<(), CrdError> {
/// let definition = CrdBuilder::of::<V1>().and::<V1Beta1>().build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct CrdBuilder {
    /// The CustomResourceDefinitions of the versions, with one version each.
    declared: Vec<CustomResourceDefinition>,
    converter: Option<WebhookClientConfig>,
}

/// The error of versions that cannot be combined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CrdError {
    /// The versions are of different kinds, or differ in a property that all versions share.
    #[error("{name}: version {version} has another {what} than {first}, but all versions must have the same")]
    Differ {
        /// The name of the CustomResourceDefinition.
        name: String,
        /// The property: `group`, `scope` or `names`.
        what: &'static str,
        /// The first version.
        first: String,
        /// The version that differs.
        version: String,
    },
    /// A version is given twice.
    #[error("{name}: version {version} is declared twice")]
    Twice {
        /// The name of the CustomResourceDefinition.
        name: String,
        /// The version.
        version: String,
    },
    /// Not exactly one of several versions is the storage version.
    #[error("{name}: {count} of its versions ({versions}) are marked `storage`, but exactly one must be")]
    Storage {
        /// The name of the CustomResourceDefinition.
        name: String,
        /// The number of storage versions.
        count: usize,
        /// All versions.
        versions: String,
    },
}

impl CrdBuilder {
    /// Starts with one version of a kind.
    pub fn of<K: CustomResource>() -> Self {
        Self { declared: vec![K::declared()], converter: None }
    }

    /// Starts with versions that are already declared, each in its own CustomResourceDefinition.
    pub fn declared(versions: impl IntoIterator<Item = CustomResourceDefinition>) -> Self {
        Self { declared: versions.into_iter().collect(), converter: None }
    }

    /// Adds a version of the kind.
    pub fn and<K: CustomResource>(mut self) -> Self {
        self.declared.push(K::declared());
        self
    }

    /// Sets the conversion webhook. Without it, the server only changes `apiVersion`.
    pub fn converted_by(mut self, webhook: WebhookClientConfig) -> Self {
        self.converter = Some(webhook);
        self
    }

    /// Returns the CustomResourceDefinition, with its versions ordered by name.
    pub fn build(self) -> Result<CustomResourceDefinition, CrdError> {
        let mut declared = self.declared.into_iter();
        let mut definition = declared.next().unwrap_or_default();
        let name = definition.metadata.name.clone().unwrap_or_default();
        let first = definition.spec.versions.first().map(|version| version.name.clone()).unwrap_or_default();
        for mut other in declared {
            let version = other.spec.versions.first().map(|version| version.name.clone()).unwrap_or_default();
            let shared = [
                ("group", definition.spec.group == other.spec.group),
                ("scope", definition.spec.scope == other.spec.scope),
                ("names", definition.spec.names == other.spec.names),
            ];
            if let Some((what, _)) = shared.into_iter().find(|(_, same)| !same) {
                return Err(CrdError::Differ { name, what, first, version });
            }
            if definition.spec.versions.iter().any(|known| known.name == version) {
                return Err(CrdError::Twice { name, version });
            }
            definition.spec.versions.append(&mut other.spec.versions);
            for (into, from) in [
                (&mut definition.metadata.labels, mem::take(&mut other.metadata.labels)),
                (&mut definition.metadata.annotations, mem::take(&mut other.metadata.annotations)),
            ] {
                if let Some(from) = from {
                    into.get_or_insert_default().extend(from);
                }
            }
        }
        let versions = &mut definition.spec.versions;
        versions.sort_by(|a, b| a.name.cmp(&b.name));
        if let [only] = versions.as_mut_slice() {
            only.storage = true;
        }
        let count = versions.iter().filter(|version| version.storage).count();
        if count != 1 {
            let versions = versions.iter().map(|version| version.name.as_str()).collect::<Vec<_>>().join(", ");
            return Err(CrdError::Storage { name, count, versions });
        }
        if let Some(config) = self.converter {
            let webhook =
                WebhookConversion { client_config: Some(config), conversion_review_versions: vec!["v1".to_owned()] };
            definition.spec.conversion =
                Some(CustomResourceConversion { strategy: "Webhook".to_owned(), webhook: Some(webhook) });
        }
        Ok(definition)
    }
}
