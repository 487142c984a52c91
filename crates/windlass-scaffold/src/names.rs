//! Names that are valid in Kubernetes and cargo.

use std::fmt;

use crate::Error;

/// Declares a type of name: its designation in errors, the expected form, and the check.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $expected:literal, $is_valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            /// Returns an error if the name is invalid.
            pub fn new(name: impl Into<String>) -> Result<Self, Error> {
                let name = name.into();
                let is_valid: fn(&str) -> bool = $is_valid;
                if is_valid(&name) { Ok(Self(name)) } else { Err(Error::Name { what: $what, name, expected: $expected }) }
            }

            /// Returns the name as a string.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }
    };
}

name!(
    /// The domain of a project, which is the end of its groups: `example.com`.
    Domain, "the domain", "lower-case labels separated by dots, such as example.com", |name| {
        name.len() <= 200 && name.split('.').all(is_label)
    }
);
name!(
    /// The first part of a group's name: `shop` in `shop.example.com`.
    Group, "the group", "a lower-case label without the domain, such as shop", |name| is_label(name) && !name.starts_with(|first: char| first.is_ascii_digit())
);
name!(
    /// A version of an API: `v1`, `v1beta1`, `v2alpha3`.
    Version, "the version", "v and a number, optionally with alpha or beta and a number: v1, v1beta1, v2alpha3", is_version
);
name!(
    /// A kind: `Website`.
    Kind, "the kind", "letters and digits, starting with a capital letter, and not a Rust keyword, such as Website", |name| {
        name.len() <= 63
            && name.starts_with(|first: char| first.is_ascii_uppercase())
            && name.chars().all(|c| c.is_ascii_alphanumeric())
            && syn::parse_str::<syn::Ident>(name).is_ok()
    }
);
name!(
    /// The plural of a kind, as used by the API: `websites`.
    Plural, "the plural", "a lower-case label, such as websites", |name| is_label(name) && !name.starts_with(|first: char| first.is_ascii_digit())
);
name!(
    /// The name of a project, its crate and its image: `website-operator`.
    ProjectName, "the name of the project", "a lower-case label that is a valid crate name, such as website-operator; set it with --project-name", |name| {
        name.len() <= 40 && is_label(name) && syn::parse_str::<syn::Ident>(&name.replace('-', "_")).is_ok()
    }
);

impl ProjectName {
    /// Returns the name of the crate: `website_operator`.
    pub fn krate(&self) -> String {
        self.0.replace('-', "_")
    }
}

/// Modules, test files and crates that every project has.
const MODULES: &[&str] = &[
    "alloc",
    "clap",
    "controller",
    "core",
    "manifests",
    "mimalloc",
    "proc_macro",
    "serde",
    "serde_json",
    "std",
    "test",
    "tokio",
    "tracing",
    "webhook",
    "windlass",
];

impl Kind {
    /// Returns the name of the kind's files and modules: its singular, such as `cronjob` for `CronJob`. An underscore
    /// is appended if the name is taken: `webhook_` for `Webhook`.
    pub fn module(&self) -> String {
        module(self.singular())
    }

    /// Returns the name of the kind's files and modules if a kind of another group has the usual one: `net_website`.
    pub(crate) fn module_in(&self, group: &Group) -> String {
        module(format!("{}_{}", group.0.replace('-', "_"), self.singular()))
    }

    /// Returns the singular, as used by the API: `httproute`.
    pub fn singular(&self) -> String {
        self.0.to_ascii_lowercase()
    }

    /// Returns the plural, computed as by Kubernetes and `#[derive(Resource)]`.
    pub fn plural(&self) -> String {
        let singular = self.singular();
        match singular.as_bytes().last() {
            _ if singular.ends_with("endpoints") => singular,
            Some(b's') => format!("{singular}es"),
            Some(b'y') => format!("{}ies", &singular[..singular.len() - 1]),
            _ => format!("{singular}s"),
        }
    }
}

/// Appends an underscore to the name of a module if it is taken.
fn module(mut name: String) -> String {
    if syn::parse_str::<syn::Ident>(&name).is_err() || MODULES.contains(&name.as_str()) || is_version(&name) {
        name.push('_');
    }
    name
}

fn is_label(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && !name.starts_with('-')
        && !name.ends_with('-')
}

fn is_version(name: &str) -> bool {
    let is_number = |text: &str| !text.starts_with('0') && !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let Some(rest) = name.strip_prefix('v') else { return false };
    match rest.split_once("alpha").or_else(|| rest.split_once("beta")) {
        Some((major, minor)) => is_number(major) && is_number(minor),
        None => is_number(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_as_kubernetes_and_cargo_take_them() {
        for name in ["v1", "v12", "v1alpha1", "v2beta10"] {
            assert!(Version::new(name).is_ok(), "{name}");
        }
        for name in ["1", "v", "v0", "v1alpha", "v1gamma1", "V1", "v1beta0"] {
            assert!(Version::new(name).is_err(), "{name}");
        }
        assert!(
            Domain::new("example.com").is_ok() && Domain::new("Example.com").is_err() && Domain::new("a..b").is_err()
        );
        assert!(Group::new("shop").is_ok() && Group::new("shop.example").is_err() && Group::new("1st").is_err());
        assert!(Kind::new("Website").is_ok() && Kind::new("website").is_err() && Kind::new("Web-site").is_err());
        assert!(Kind::new("Self").is_err() && Kind::new("Type").is_ok());
        let refused = ProjectName::new("loop").unwrap_err().to_string();
        assert!(refused.contains("--project-name"), "{refused}");
    }

    #[test]
    fn a_kind_has_a_module_and_a_plural() {
        for (kind, module, plural) in [
            ("Website", "website", "websites"),
            ("HTTPRoute", "httproute", "httproutes"),
            ("Type", "type_", "types"),
            ("Webhook", "webhook_", "webhooks"),
            ("V1", "v1_", "v1s"),
            ("NetworkPolicy", "networkpolicy", "networkpolicies"),
            ("Ingress", "ingress", "ingresses"),
            ("S3Bucket", "s3bucket", "s3buckets"),
            ("CronJob", "cronjob", "cronjobs"),
        ] {
            let kind = Kind::new(kind).unwrap();
            assert_eq!((kind.module().as_str(), kind.plural().as_str()), (module, plural));
        }
        for (group, kind, module) in [
            ("net", "Website", "net_website"),
            ("cert-manager", "Certificate", "cert_manager_certificate"),
            ("net", "Type", "net_type"),
            ("serde", "Json", "serde_json_"),
        ] {
            assert_eq!(Kind::new(kind).unwrap().module_in(&Group::new(group).unwrap()), module);
        }
    }
}
