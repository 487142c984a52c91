//! The traits for every type with the traits of k8s-openapi.

use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Serialize, de::DeserializeOwned};

use super::{KnownScope, Object, Resource};
use crate::{ApiResource, GroupVersionKind, Scope};

#[diagnostic::do_not_recommend]
impl<K> Object for K
where
    K: k8s_openapi::Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static,
{
    fn metadata(&self) -> &ObjectMeta {
        k8s_openapi::Metadata::metadata(self)
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        k8s_openapi::Metadata::metadata_mut(self)
    }
}

#[diagnostic::do_not_recommend]
impl<K> Resource for K
where
    K: k8s_openapi::Resource + Object,
    K::Scope: KnownScope,
{
    fn api_resource() -> ApiResource {
        let resource =
            ApiResource::namespaced(GroupVersionKind::new(K::GROUP, K::VERSION, K::KIND), K::URL_PATH_SEGMENT);
        match <K::Scope as KnownScope>::SCOPE {
            Scope::Namespaced => resource,
            Scope::Cluster => resource.cluster_scoped(),
        }
    }
}
