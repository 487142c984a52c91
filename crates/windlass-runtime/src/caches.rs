//! How the caches of a manager are kept: for all kinds, and for one.

use windlass_api::ApiResource;
use windlass_cache::InformerOptions;

/// What a cache holds of a kind, and how.
///
/// ```
/// use windlass_cache::InformerOptions;
/// use windlass_runtime::CacheOptions;
///
/// let of_pods = CacheOptions::within("shop").informer(InformerOptions::default().labels("app=web").budget(64 << 20));
/// # let _ = of_pods;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "options are for a `ManagerBuilder`"]
pub struct CacheOptions {
    /// `None`: all.
    pub(crate) namespace: Option<String>,
    pub(crate) informer: InformerOptions,
}

/// The caches of a manager.
#[derive(Debug, Default)]
pub(crate) struct Caches {
    /// Of all kinds but those.
    pub(crate) usual: CacheOptions,
    pub(crate) chosen: Vec<(ApiResource, CacheOptions)>,
}

impl CacheOptions {
    /// Everything, as caches are by default.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only what is in one namespace. Kinds without namespaces are not concerned.
    pub fn within(namespace: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), ..Self::default() }
    }

    /// Selectors, transforms, budgets and whatever else informers can be told. A [`Watch`](crate::Watch) with selectors of
    /// its own has a cache of its own, for which those hold instead.
    pub fn informer(mut self, options: InformerOptions) -> Self {
        self.informer = options;
        self
    }
}

impl From<InformerOptions> for CacheOptions {
    fn from(informer: InformerOptions) -> Self {
        Self { namespace: None, informer }
    }
}
