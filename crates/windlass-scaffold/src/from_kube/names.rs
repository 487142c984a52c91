//! Resolution of paths with the imports of their file.

use std::collections::BTreeMap;

/// The imports of a file: each local name with its full path.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(BTreeMap<String, Vec<String>>);

impl Names {
    pub(super) fn import(&mut self, name: String, path: Vec<String>) {
        self.0.insert(name, path);
    }

    /// Returns the full path of a path, such as `kube::runtime::controller::Action`.
    pub(super) fn full(&self, path: &syn::Path) -> String {
        let mut segments = path.segments.iter().map(|segment| segment.ident.to_string());
        let first = segments.next().unwrap_or_default();
        let mut full = match self.0.get(&first) {
            Some(imported) if path.leading_colon.is_none() => imported.clone(),
            _ => vec![first],
        };
        full.extend(segments);
        canonical(&full.join("::"))
    }

    /// Reports whether a path is this one.
    pub(super) fn is(&self, path: &syn::Path, full: &str) -> bool {
        self.full(path) == full
    }
}

/// Returns the path under `kube` of an item that kube-rs exports at several places.
fn canonical(path: &str) -> String {
    const PREFIXES: [(&str, &str); 4] = [
        ("kube_runtime::", "kube::runtime::"),
        ("kube_client::", "kube::"),
        ("kube_core::", "kube::core::"),
        ("kube_derive::", "kube::"),
    ];
    let path = PREFIXES
        .iter()
        .find_map(|(prefix, under)| path.strip_prefix(prefix).map(|rest| format!("{under}{rest}")))
        .unwrap_or_else(|| path.to_owned());
    // The module and the function of this name are exported at the same place.
    if path == "kube::runtime::finalizer" {
        return "kube::runtime::finalizer::finalizer".to_owned();
    }
    const SAME: [(&str, &str); 7] = [
        ("kube::runtime::Controller", "kube::runtime::controller::Controller"),
        ("kube::runtime::Config", "kube::runtime::watcher::Config"),
        ("kube::api::Api", "kube::Api"),
        ("kube::api::ListParams", "kube::core::params::ListParams"),
        ("kube::client::Client", "kube::Client"),
        ("kube::core::CustomResourceExt", "kube::CustomResourceExt"),
        ("kube::core::crd::CustomResourceExt", "kube::CustomResourceExt"),
    ];
    let same = SAME.iter().find_map(|(other, one)| {
        let rest = path.strip_prefix(other)?;
        (rest.is_empty() || rest.starts_with("::")).then(|| format!("{one}{rest}"))
    });
    same.unwrap_or(path)
}
