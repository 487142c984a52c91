//! How the caches of a manager are kept: for all kinds, and for one.

use windlass_api::ApiResource;
use windlass_cache::InformerOptions;

/// What a cache holds of a kind, and how.
///
/// ```
/// use windlass_cache::InformerOptions;
/// use windlass_runtime::CacheOptions;
///
/// let web = || InformerOptions::default().labels("app=web").budget(64 << 20);
/// // One namespace; two; two, of which one with a choice of its own; and everything, of one namespace less than of others.
/// let _ = CacheOptions::within("shop").informer(web());
/// let _ = CacheOptions::within_each(["shop", "stock"]).informer(web());
/// let _ = CacheOptions::within("shop").namespace("stock", web());
/// let _ = CacheOptions::new().namespace("stock", web()).others(InformerOptions::default());
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "options are for a `ManagerBuilder`"]
pub struct CacheOptions {
    /// `None`: those of the caches of other kinds, or all.
    namespaces: Option<Namespaces>,
    /// `None`: those of the caches of other kinds, or an informer's own.
    informer: Option<InformerOptions>,
}

/// Which namespaces, with their options where they have some.
#[derive(Clone, Debug, Default)]
struct Namespaces {
    /// Each once. None: all are meant.
    named: Vec<(String, Option<InformerOptions>)>,
    /// Those that are not named, if they are wanted.
    others: Option<InformerOptions>,
}

/// The caches of a manager.
#[derive(Debug, Default)]
pub(crate) struct Caches {
    /// Of all kinds but those.
    pub(crate) usual: CacheOptions,
    pub(crate) chosen: Vec<(ApiResource, CacheOptions)>,
}

/// One informer's share of a kind.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    /// `None`: of all namespaces.
    pub(crate) namespace: Option<String>,
    /// … but these, which have shares of their own.
    pub(crate) except: Vec<String>,
    pub(crate) informer: InformerOptions,
}

// === impl CacheOptions ===

impl CacheOptions {
    /// Everything, as caches are by default. For one kind: what holds for the others.
    pub fn new() -> Self {
        Self::default()
    }

    /// Everything in all namespaces: for one kind, where others have less.
    pub fn everywhere() -> Self {
        Self { namespaces: Some(Namespaces::default()), informer: None }
    }

    /// Only what is in one namespace. Kinds without namespaces are not concerned.
    pub fn within(namespace: impl Into<String>) -> Self {
        Self::within_each([namespace.into()])
    }

    /// Only what is in these namespaces, each watched by itself: for programs that may not read others. Kinds without
    /// namespaces are not concerned.
    pub fn within_each(namespaces: impl IntoIterator<Item = impl Into<String>>) -> Self {
        namespaces.into_iter().fold(Self::everywhere(), |options, namespace| options.add(namespace.into(), None))
    }

    /// What is in this namespace as well, with options of its own in place of those that hold for all.
    pub fn namespace(self, namespace: impl Into<String>, options: InformerOptions) -> Self {
        self.add(namespace.into(), Some(options))
    }

    /// What is in all namespaces that are not named as well, with options of its own. The server leaves out those that
    /// are named, by a field selector.
    pub fn others(mut self, options: InformerOptions) -> Self {
        self.namespaces.get_or_insert_default().others = Some(options);
        self
    }

    /// Selectors, transforms, budgets and whatever else informers can be told. A [`Watch`](crate::Watch) with selectors of
    /// its own has a cache of its own, for which those hold instead.
    pub fn informer(mut self, options: InformerOptions) -> Self {
        self.informer = Some(options);
        self
    }

    /// The options of each informer changed, also where they say nothing.
    #[cfg(feature = "config")]
    pub(crate) fn changed(mut self, change: impl Fn(InformerOptions) -> InformerOptions) -> Self {
        self.informer = Some(change(self.informer.unwrap_or_default()));
        if let Some(Namespaces { named, others }) = &mut self.namespaces {
            let own = named.iter_mut().filter_map(|(_, options)| options.as_mut()).chain(others);
            own.for_each(|options| *options = change(std::mem::take(options)));
        }
        self
    }

    /// Of all that is wanted, only what is in these namespaces.
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

    /// What holds where nothing is said of a namespace.
    pub(crate) fn whole(&self, usual: &Self) -> Share {
        let informer = self.informer.as_ref().or(usual.informer.as_ref()).cloned().unwrap_or_default();
        Share { namespace: None, except: Vec::new(), informer }
    }

    /// One share for each informer; at least one. What the options do not say holds as in `usual`: what is said of the kind
    /// goes before what is said of a namespace of all kinds.
    pub(crate) fn shares(&self, usual: &Self) -> Vec<Share> {
        let whole = self.whole(usual);
        let own = self.namespaces.as_ref();
        let Some(namespaces) = own.or(usual.namespaces.as_ref()).filter(|some| some.divide()) else {
            return vec![whole];
        };
        let options = |of_namespace: Option<&InformerOptions>| match (&self.informer, own) {
            (Some(of_kind), None) => of_kind.clone(),
            _ => of_namespace.cloned().unwrap_or_else(|| whole.informer.clone()),
        };
        let named = namespaces.named.iter().map(|(namespace, of_namespace)| Share {
            namespace: Some(namespace.clone()),
            except: Vec::new(),
            informer: options(of_namespace.as_ref()),
        });
        let others = namespaces.others.as_ref().map(|others| Share {
            namespace: None,
            except: namespaces.named.iter().map(|(namespace, _)| namespace.clone()).collect(),
            informer: options(Some(others)),
        });
        named.chain(others).collect()
    }
}

// === impl Namespaces ===

impl Namespaces {
    /// Whether there is more to say than that all are meant.
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

    fn labelled(labels: &str) -> InformerOptions {
        InformerOptions::default().labels(labels)
    }

    /// Each share as `namespace (but those): labels`.
    fn shown(options: &CacheOptions, usual: &CacheOptions) -> Vec<String> {
        let shown = |share: Share| {
            let labels = share.informer.selectors().labels.unwrap_or("everything").to_owned();
            format!("{} {:?} {labels}", share.namespace.as_deref().unwrap_or("*"), share.except)
        };
        options.shares(usual).into_iter().map(shown).collect()
    }

    #[test]
    fn c_13_30_what_is_said_of_a_kind_goes_before_what_is_said_of_a_namespace_and_that_before_what_holds_for_all() {
        let two = CacheOptions::within("a").namespace("b", labelled("b")).informer(labelled("usual"));
        for (options, usual, expected) in [
            (CacheOptions::new(), CacheOptions::new(), &["* [] everything"][..]),
            (CacheOptions::new(), two.clone(), &["a [] usual", "b [] b"]),
            (CacheOptions::new().informer(labelled("kind")), two.clone(), &["a [] kind", "b [] kind"]),
            (CacheOptions::everywhere(), two.clone(), &["* [] usual"]),
            (CacheOptions::within("c"), two.clone(), &["c [] usual"]),
            (CacheOptions::within_each(["c", "c"]).informer(labelled("kind")), two.clone(), &["c [] kind"]),
            (
                CacheOptions::new().namespace("c", labelled("c")).others(labelled("others")),
                two,
                &["c [] c", r#"* ["c"] others"#],
            ),
            (CacheOptions::new().others(labelled("others")), CacheOptions::new(), &["* [] others"]),
        ] {
            assert_eq!(shown(&options, &usual), expected, "{options:?}");
        }
    }
}
