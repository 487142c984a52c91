//! The uses of kube-rs that stay, each with the next step.

use std::collections::BTreeSet;

use syn::{
    spanned::Spanned as _,
    visit::{self, Visit},
};

use super::{
    Steps,
    edits::Edits,
    sources::{Source, arguments},
};

/// The paths, by prefix, and the next step for each. The first one that matches counts.
const ADVICE: &[(&str, &str)] = &[
    (
        "kube::Client::try_default",
        "works beside Windlass; windlass_kube::client(&client) shares the connections of a Windlass client",
    ),
    ("kube::Client::try_from", "works beside Windlass; windlass_kube::config(&config) converts the configuration"),
    ("kube::Api::", "works beside Windlass; in a reconciler, cx.client() reads from the caches: docs/from-kube-rs.md"),
    ("kube::runtime::events::Recorder", "works beside Windlass; cx.recorder().record(&object, note) aggregates events"),
    (
        "kube::runtime::finalizer::finalizer",
        "works with windlass_kube::finalizer; Finalizers::new().then(name, clean_up) supports several, in order",
    ),
    ("kube::runtime::watcher", "works beside Windlass; a Controller or a SharedInformer replaces it"),
    ("kube::runtime::reflector", "works beside Windlass; cx.store::<K>() replaces the store"),
    ("kube::runtime::metadata_watcher", "works beside Windlass; Watch::metadata_of::<K>() replaces it"),
    ("kube::runtime::wait", "works beside Windlass; client.wait_for(name).until(condition) replaces it"),
    ("kube::discovery", "works beside Windlass; windlass::client::Discovery replaces it"),
    ("kube::core::DynamicObject", "use windlass::DynamicObject"),
    ("kube::core::admission", "works beside Windlass; windlass::webhook replaces it: docs/how-to/webhooks.md"),
    ("kube::core::HasSpec", "types of Windlass do not have it: use the field spec"),
    ("kube::core::object::HasSpec", "types of Windlass do not have it: use the field spec"),
    ("kube::core::object::HasStatus", "types of Windlass do not have it: use the field status"),
    (
        "tower_test::mock",
        "windlass::envtest::Environment has an API server for tests: docs/how-to/test-a-controller.md",
    ),
];

/// Adds the places of a file that stay.
pub(super) fn find(source: &Source, edits: &Edits, steps: &mut Steps) {
    let mut search = Search { source, edits, steps, seen: BTreeSet::new() };
    search.visit_file(&source.file);
}

struct Search<'s> {
    source: &'s Source,
    edits: &'s Edits,
    steps: &'s mut Steps,
    /// The lines that are already listed, with their advice.
    seen: BTreeSet<(usize, &'static str)>,
}

impl Visit<'_> for Search<'_> {
    fn visit_macro(&mut self, call: &syn::Macro) {
        for argument in arguments(call) {
            self.visit_expr(&argument);
        }
    }

    fn visit_path(&mut self, path: &syn::Path) {
        let full = self.source.names.full(path);
        let range = path.span().byte_range();
        if !self.edits.covers(&range) {
            let known = ADVICE.iter().find(|(prefix, _)| full.starts_with(prefix));
            if let Some((_, advice)) = known {
                let line = path.span().start().line;
                if self.seen.insert((line, advice)) {
                    self.steps.leave(self.source, line, full, *advice);
                }
            }
        }
        visit::visit_path(self, path);
    }
}
