//! The names that generated code uses for a kind whose name collides with another name in scope.
//!
//! Such a kind is referred to through its module, `event::Event`, and a variable for its objects is `object`. Names of
//! Rust's prelude and of the derives are rejected, because expanded macros use them as well.

use minijinja::{Value, context};

use crate::Kind;

/// The types that the templates import or declare, and those in the prelude of windlass.
const TAKEN: &[&str] = &[
    "Action",
    "Arc",
    "BoxError",
    "CaBundleTarget",
    "Condition",
    "Context",
    "Controller",
    "Convert",
    "Denial",
    "DeserializeOwned",
    "Environment",
    "Event",
    "FINALIZER",
    "Finalized",
    "Finalizers",
    "Hub",
    "LABEL",
    "LONGEST_NAME",
    "Manager",
    "NewCondition",
    "Note",
    "ObjectMeta",
    "ObjectRef",
    "Patch",
    "READY",
    "Request",
    "Rules",
    "Runnable",
    "Scenario",
    "ServiceReference",
    "Validator",
    "Warnings",
    "Watch",
    "WebhookCertificates",
    "WebhookClientConfig",
    "WebhooksBuilder",
];

/// The functions and variables of the templates.
const LOCALS: &[&str] = &[
    "certificates",
    "check",
    "client",
    "client_config",
    "condition",
    "controller",
    "convert_by_name",
    "cx",
    "default",
    "denied",
    "env",
    "event",
    "events",
    "explore",
    "finalize",
    "finalizers",
    "from_hub",
    "generation",
    "hub",
    "hub_round_trips",
    "inject_ca",
    "is_met",
    "is_ready",
    "json",
    "made",
    "manager",
    "many",
    "message",
    "metadata",
    "name",
    "part",
    "patch",
    "permissions",
    "predicate",
    "rbac",
    "read",
    "ready",
    "reason",
    "reconcile",
    "register",
    "replicas",
    "report",
    "sample",
    "scenario",
    "service",
    "shutdown",
    "spec",
    "spoke_round_trips",
    "state",
    "status",
    "to_hub",
    "update_status",
    "versions",
    "was_ready",
    "webhooks",
    "written",
];

/// The names in Rust's prelude, and the derives with a trait of the same name.
const REFUSED: &[&str] = &[
    "ApplyConfiguration",
    "AsMut",
    "AsRef",
    "AsyncFn",
    "AsyncFnMut",
    "AsyncFnOnce",
    "Box",
    "Clone",
    "Copy",
    "CustomResource",
    "Default",
    "Deserialize",
    "DoubleEndedIterator",
    "Drop",
    "Eq",
    "Err",
    "ExactSizeIterator",
    "Extend",
    "Fn",
    "FnMut",
    "FnOnce",
    "From",
    "FromIterator",
    "Future",
    "Into",
    "IntoFuture",
    "IntoIterator",
    "Iterator",
    "None",
    "Ok",
    "Option",
    "Ord",
    "PartialEq",
    "PartialOrd",
    "Result",
    "Schema",
    "Send",
    "Serialize",
    "Sized",
    "Some",
    "String",
    "Sync",
    "ToOwned",
    "ToString",
    "TryFrom",
    "TryInto",
    "Unpin",
    "Vec",
];

/// Returns the reason why a type cannot have this kind's name, if there is one.
pub(crate) fn refusal(kind: &Kind) -> Option<String> {
    let name = kind.as_str();
    REFUSED.contains(&name).then(|| {
        format!(
            "{name} is a name in Rust's prelude or of a derive, which generated code uses; choose another, such as Site{name}"
        )
    })
}

/// Returns the kind's names for templates. `module` is its module in the project.
pub(crate) fn scope(kind: &Kind, module: &str) -> Value {
    let (name, variable) = (kind.as_str(), kind.module());
    let variable = if LOCALS.contains(&variable.as_str()) { "object".to_owned() } else { variable };
    if TAKEN.contains(&name) {
        context! { ty => format!("{module}::{name}"), imported => "self", member => "", variable }
    } else {
        context! { ty => name, imported => name, member => format!("::{name}"), variable }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use syn::{Ident, ItemFn, ItemStruct, PatIdent, UseTree, visit::Visit};

    use super::*;
    use crate::{CreateApi, CreateWebhook, Init};

    /// The names that source files bring into scope.
    #[derive(Default)]
    struct Names {
        types: BTreeSet<String>,
        values: BTreeSet<String>,
    }

    impl Names {
        fn add(&mut self, ident: &Ident) {
            let name = ident.to_string();
            // Test names contain the kind's name, or cannot be the name of a kind.
            if name.to_lowercase().contains("marker") || name.contains("_round_trips_") {
                return;
            }
            let is_type = name.starts_with(|first: char| first.is_ascii_uppercase());
            if is_type { &mut self.types } else { &mut self.values }.insert(name);
        }

        fn read(&mut self, path: &Path) {
            let Ok(text) = fs::read_to_string(path) else { return };
            if path.extension().is_some_and(|end| end == "rs") && text.contains("Marker") {
                self.visit_file(&syn::parse_file(&text).unwrap());
            }
        }
    }

    impl Visit<'_> for Names {
        fn visit_use_tree(&mut self, tree: &UseTree) {
            match tree {
                UseTree::Name(name) if name.ident != "self" => self.add(&name.ident),
                UseTree::Rename(rename) if rename.rename != "_" => self.add(&rename.rename),
                _ => {}
            }
            syn::visit::visit_use_tree(self, tree);
        }

        fn visit_item_fn(&mut self, function: &ItemFn) {
            self.add(&function.sig.ident);
            syn::visit::visit_item_fn(self, function);
        }

        fn visit_item_struct(&mut self, item: &ItemStruct) {
            self.add(&item.ident);
        }

        fn visit_pat_ident(&mut self, pattern: &PatIdent) {
            self.add(&pattern.ident);
        }
    }

    fn walk(folder: &Path, names: &mut Names) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, names);
            } else {
                names.read(&path);
            }
        }
    }

    #[test]
    fn every_name_that_a_scaffold_brings_into_scope_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path();
        Init::new("example.com", "shop").unwrap().plan(there).unwrap().write().unwrap();
        for version in ["v1", "v1beta1"] {
            CreateApi::new("shop", version, "Marker").unwrap().plan(there).unwrap().write().unwrap();
        }
        let webhooks = CreateWebhook::new("shop", "v1", "Marker").unwrap();
        let webhooks = webhooks.defaulting(true).validation(true).conversion();
        webhooks.plan(there).unwrap().write().unwrap();
        let mut names = Names::default();
        // These files refer to kinds only by full paths.
        for file in ["src/main.rs", "src/manifests.rs", "src/webhook.rs"] {
            fs::remove_file(there.join(file)).unwrap();
        }
        walk(there, &mut names);
        names.visit_file(&syn::parse_file(include_str!("../../windlass/src/prelude.rs")).unwrap());
        for (file, text) in [
            ("controller", include_str!("../templates/imported/controller.rs.jinja")),
            ("webhook", include_str!("../templates/imported/webhook.rs.jinja")),
        ] {
            assert!(
                text.contains("{{ member }}") && !text.contains("&{{ kind }}"),
                "{file} calls the kind by its name"
            );
        }
        let known = |name: &&String| [TAKEN, REFUSED].iter().any(|list| list.contains(&name.as_str()));
        let unknown: Vec<_> = names.types.iter().filter(|name| !known(name)).collect();
        assert!(unknown.is_empty(), "TAKEN lacks {unknown:?}");
        let unknown: Vec<_> = names.values.iter().filter(|name| !LOCALS.contains(&name.as_str())).collect();
        assert!(unknown.is_empty(), "LOCALS lacks {unknown:?}");
        assert!(names.types.contains("Event") && names.values.contains("was_ready"), "the sources were read");
    }

    #[test]
    fn a_kind_is_called_by_its_module_where_its_name_is_taken() {
        let called = |name: &str| {
            let kind = Kind::new(name).unwrap();
            let scope = scope(&kind, &kind.module());
            let value = |name| scope.get_attr(name).unwrap().to_string();
            format!("{} {} {}", value("ty"), value("imported"), value("variable"))
        };
        assert_eq!(called("Website"), "Website Website website");
        assert_eq!(called("Event"), "event::Event self object");
        assert_eq!(called("Status"), "Status Status object");
        assert_eq!(called("Controller"), "controller_::Controller self controller_");
        assert_eq!(refusal(&Kind::new("Website").unwrap()), None);
        assert!(refusal(&Kind::new("Option").unwrap()).unwrap().starts_with("Option is a name in Rust's prelude"));
    }
}
