//! Options of a manager's caches: for all kinds, and per kind.

use windlass_api::ApiResource;
use windlass_cache::InformerOptions;

/// The namespaces that a cache covers, and the options of its informers.
///
/// ```
/// use windlass_cache::InformerOptions;
/// use windlass_runtime::CacheOptions;
///
/// let web = || InformerOptions::default().labels("app=web").budget(64 << 20);
/// // One namespace.
/// let _ = CacheOptions::within("shop").informer(web());
/// // Two namespaces.
/// let _ = CacheOptions::within_each(["shop", "stock"]).informer(web());
/// // Two namespaces, one of them with its own options.
/// let _ = CacheOptions::within("shop").namespace("stock", web());
/// // All namespaces, one of them restricted to the objects that match a selector.
/// let _ = CacheOptions::new().namespace("stock", web()).others(InformerOptions::default());
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "options do nothing until they are passed to a `ManagerBuilder`"]
pub struct CacheOptions {
    /// `None`: the namespaces configured for all kinds, or every namespace.
    namespaces: Option<Namespaces>,
    /// `None`: the options configured for all kinds, or an informer's defaults.
    informer: Option<InformerOptions>,
}

/// A selection of namespaces, with options per namespace where configured.
#[derive(Clone, Debug, Default)]
struct Namespaces {
    /// The selected namespaces, each once. Empty if all namespaces are selected.
    named: Vec<(String, Option<InformerOptions>)>,
    /// The options for all other namespaces, if these are selected as well.
    others: Option<InformerOptions>,
}

/// The caches of a manager.
#[derive(Debug, Default)]
pub(crate) struct Caches {
    /// The options of all kinds that have no entry of their own.
    pub(crate) usual: CacheOptions,
    pub(crate) chosen: Vec<(ApiResource, CacheOptions)>,
    pub(crate) undeclared: UndeclaredReads,
}

/// The handling of a read of objects that no cache holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum UndeclaredReads {
    /// Starts the cache.
    #[default]
    StartCache,
    /// Fails the read.
    Fail,
}

/// The part of a kind that one informer covers.
#[derive(Clone, Debug)]
pub(crate) struct CachePart {
    /// `None`: all namespaces.
    pub(crate) namespace: Option<String>,
    /// Namespaces that other informers cover.
    pub(crate) except: Vec<String>,
    pub(crate) informer: InformerOptions,
}

// === impl CacheOptions ===

impl CacheOptions {
    /// Creates options that cover all objects with default options. For one kind: inherits the options for all kinds.
    pub fn new() -> Self {
        Self::default()
    }

    /// Covers all namespaces. For one kind: overrides the namespaces configured for all kinds.
    pub fn everywhere() -> Self {
        Self { namespaces: Some(Namespaces::default()), informer: None }
    }

    /// Covers one namespace only. Cluster-scoped kinds are not affected.
    pub fn within(namespace: impl Into<String>) -> Self {
        Self::within_each([namespace.into()])
    }

    /// Covers these namespaces only, with one watch per namespace. Use it if the program may not list other namespaces.
    /// Cluster-scoped kinds are not affected.
    pub fn within_each(namespaces: impl IntoIterator<Item = impl Into<String>>) -> Self {
        namespaces.into_iter().fold(Self::everywhere(), |options, namespace| options.add(namespace.into(), None))
    }

    /// Also covers this namespace, with options that override the general ones.
    pub fn namespace(self, namespace: impl Into<String>, options: InformerOptions) -> Self {
        self.add(namespace.into(), Some(options))
    }

    /// Also covers all namespaces that are not named, with these options. A field selector excludes the named
    /// namespaces on the server.
    pub fn others(mut self, options: InformerOptions) -> Self {
        self.namespaces.get_or_insert_default().others = Some(options);
        self
    }

    /// Sets the selectors, transforms, budget and other options of the informers. A [`Watch`](crate::Watch) with its
    /// own selectors has its own cache and uses its own selectors instead.
    pub fn informer(mut self, options: InformerOptions) -> Self {
        self.informer = Some(options);
        self
    }

    /// Changes the options of each informer, including default options.
    #[cfg(feature = "config")]
    pub(crate) fn changed(mut self, change: impl Fn(InformerOptions) -> InformerOptions) -> Self {
        self.informer = Some(change(self.informer.unwrap_or_default()));
        if let Some(Namespaces { named, others }) = &mut self.namespaces {
            let own = named.iter_mut().filter_map(|(_, options)| options.as_mut()).chain(others);
            own.for_each(|options| *options = change(std::mem::take(options)));
        }
        self
    }

    /// Restricts the selected namespaces to the given ones.
    #[cfg(feature = "config")]
    pub(crate) fn only_within(mut self, namespaces: &[String]) -> Self {
        let Namespaces { named, others } = self.namespaces.take().unwrap_or_default();
        namespaces.iter().fold(self, |options, namespace| {
            let own = named.iter().find(|(named, _)| named == namespace);
            options.add(namespace.clone(), own.map_or(&others, |(_, options)| options).clone())
        })
    }

    fn add(mut self, namespace: String, options: Option<InformerOptions>) -> Self {
        let namespaces = self.namespaces.get_or_insert_default();
        namespaces.named.retain(|(named, _)| *named != namespace);
        namespaces.named.push((namespace, options));
        self
    }

    /// Returns the part that covers all namespaces.
    pub(crate) fn whole(&self, usual: &Self) -> CachePart {
        let informer = self.informer.as_ref().or(usual.informer.as_ref()).cloned().unwrap_or_default();
        CachePart { namespace: None, except: Vec::new(), informer }
    }

    /// Returns one part per informer, and at least one. Options that are not set are taken from `usual`. Options of
    /// the kind take precedence over the options of a namespace for all kinds.
    pub(crate) fn parts(&self, usual: &Self) -> Vec<CachePart> {
        let whole = self.whole(usual);
        let own = self.namespaces.as_ref();
        let Some(namespaces) = own.or(usual.namespaces.as_ref()).filter(|some| some.divide()) else {
            return vec![whole];
        };
        let options = |of_namespace: Option<&InformerOptions>| match (&self.informer, own) {
            (Some(of_kind), None) => of_kind.clone(),
            _ => of_namespace.cloned().unwrap_or_else(|| whole.informer.clone()),
        };
        let named = namespaces.named.iter().map(|(namespace, of_namespace)| CachePart {
            namespace: Some(namespace.clone()),
            except: Vec::new(),
            informer: options(of_namespace.as_ref()),
        });
        let others = namespaces.others.as_ref().map(|others| CachePart {
            namespace: None,
            except: namespaces.named.iter().map(|(namespace, _)| namespace.clone()).collect(),
            informer: options(Some(others)),
        });
        named.chain(others).collect()
    }
}

// === impl Namespaces ===

impl Namespaces {
    /// Reports whether namespaces are named or options for the other namespaces are set.
    fn divide(&self) -> bool {
        !self.named.is_empty() || self.others.is_some()
    }
}

impl From<InformerOptions> for CacheOptions {
    fn from(informer: InformerOptions) -> Self {
        Self::new().informer(informer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labeled(labels: &str) -> InformerOptions {
        InformerOptions::default().labels(labels)
    }

    /// Formats each part as `namespace (but excluded namespaces): labels`.
    fn shown(options: &CacheOptions, usual: &CacheOptions) -> Vec<String> {
        let shown = |part: CachePart| {
            let labels = part.informer.selectors().labels.unwrap_or("everything").to_owned();
            format!("{} {:?} {labels}", part.namespace.as_deref().unwrap_or("*"), part.except)
        };
        options.parts(usual).into_iter().map(shown).collect()
    }

    #[test]
    fn cache_options_of_kind_override_namespace_and_global() {
        let two = CacheOptions::within("a").namespace("b", labeled("b")).informer(labeled("usual"));
        for (options, usual, expected) in [
            (CacheOptions::new(), CacheOptions::new(), &["* [] everything"][..]),
            (CacheOptions::new(), two.clone(), &["a [] usual", "b [] b"]),
            (CacheOptions::new().informer(labeled("kind")), two.clone(), &["a [] kind", "b [] kind"]),
            (CacheOptions::everywhere(), two.clone(), &["* [] usual"]),
            (CacheOptions::within("c"), two.clone(), &["c [] usual"]),
            (CacheOptions::within_each(["c", "c"]).informer(labeled("kind")), two.clone(), &["c [] kind"]),
            (
                CacheOptions::new().namespace("c", labeled("c")).others(labeled("others")),
                two,
                &["c [] c", r#"* ["c"] others"#],
            ),
            (CacheOptions::new().others(labeled("others")), CacheOptions::new(), &["* [] others"]),
        ] {
            assert_eq!(shown(&options, &usual), expected, "{options:?}");
        }
    }
}
