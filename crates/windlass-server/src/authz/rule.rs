//! A rule of a role.

use serde_json::Value;

use super::{AccessAttributes, Object};
use crate::{codec::go_quote, object::Tree};

pub(super) const ALL: &str = "*";

/// The permissions of a rule: verbs for resources or for paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) verbs: Vec<String>,
    pub(crate) groups: Vec<String>,
    /// For example `pods`, `pods/log`, `*/scale` or `*`.
    pub(crate) resources: Vec<String>,
    /// Empty for any name.
    pub(crate) names: Vec<String>,
    /// A path ending in `*` is a prefix.
    pub(crate) paths: Vec<String>,
}

impl Rule {
    /// Returns the rules of a role.
    pub(crate) fn all_of(role: &Value) -> Vec<Self> {
        role.items(&["rules"]).iter().map(Self::read).collect()
    }

    fn read(rule: &Value) -> Self {
        let texts = |field| rule.items(&[field]).iter().filter_map(Value::as_str).map(str::to_owned).collect();
        Self {
            verbs: texts("verbs"),
            groups: texts("apiGroups"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            paths: texts("nonResourceURLs"),
        }
    }

    /// Returns the rules that allow everything.
    pub(crate) fn everything() -> [Self; 2] {
        let all = || vec![ALL.to_owned()];
        [
            Self { verbs: all(), groups: all(), resources: all(), ..Self::default() },
            Self { verbs: all(), paths: all(), ..Self::default() },
        ]
    }

    /// Reports whether the rule allows a request.
    pub(super) fn allows(&self, attempt: &AccessAttributes<'_>) -> bool {
        has(&self.verbs, attempt.verb)
            && match attempt.object {
                Object::Path(path) => self.paths.iter().any(|own| path_covers(own, path)),
                Object::Resource { group, resource, subresource, name, .. } => {
                    has(&self.groups, group)
                        && self.resources.iter().any(|own| resource_covers(own, resource, subresource))
                        && (self.names.is_empty() || self.names.iter().any(|own| own == name))
                }
            }
    }

    /// Describes the rule for the list of missing permissions.
    pub(super) fn describe(&self) -> String {
        let fields = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.paths),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ];
        let shown = fields.into_iter().filter(|(_, texts)| !texts.is_empty());
        let shown: Vec<String> = shown.map(|(name, texts)| format!("{name}:{}", quoted(texts))).collect();
        format!("{{{}}}", shown.join(", "))
    }
}

/// Formats a list of texts as Go does.
pub(crate) fn quoted(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| go_quote(text)).collect();
    format!("[{}]", texts.join(" "))
}

fn has(own: &[String], requested: &str) -> bool {
    own.iter().any(|own| own == ALL || own == requested)
}

fn resource_covers(own: &str, resource: &str, subresource: &str) -> bool {
    if own == ALL || subresource.is_empty() {
        return own == ALL || own == resource;
    }
    let plural = own.strip_suffix(subresource).and_then(|own| own.strip_suffix('/'));
    plural.is_some_and(|plural| plural == ALL || plural == resource)
}

fn path_covers(own: &str, path: &str) -> bool {
    own == ALL || own == path || own.ends_with('*') && path.starts_with(own.trim_end_matches('*'))
}
