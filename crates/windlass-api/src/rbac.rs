//! What a program needs to be allowed, as data: `#[rbac(…)]` writes it beside the code that does it.

/// One thing that an API server has to allow.
///
/// ```
/// use windlass_api::rbac::Rule;
///
/// const RULES: &[Rule] = &[Rule { groups: &["apps"], resources: &["deployments"], verbs: &["get", "list", "watch"], ..Rule::NONE }];
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The groups of the resources; empty for the core group.
    pub groups: &'static [&'static str],
    /// In the plural, with subresources behind a slash: `deployments`, `deployments/status`.
    pub resources: &'static [&'static str],
    /// The objects; all where there are none.
    pub resource_names: &'static [&'static str],
    /// Paths that are no resources: `/metrics`.
    pub urls: &'static [&'static str],
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, …
    pub verbs: &'static [&'static str],
    /// The namespace in which it is needed; everywhere without one.
    pub namespace: Option<&'static str>,
    /// The role that it becomes part of, in place of the program's own.
    pub role_name: Option<&'static str>,
}

impl Rule {
    /// Nothing of anything.
    pub const NONE: Self = Self {
        groups: &[],
        resources: &[],
        resource_names: &[],
        urls: &[],
        verbs: &[],
        namespace: None,
        role_name: None,
    };
}
