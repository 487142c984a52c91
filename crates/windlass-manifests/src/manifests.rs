//! What a project has.

use std::fmt;

use k8s_openapi::{
    api::{
        admissionregistration::v1::{
            MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
            ValidatingWebhookConfiguration,
        },
        rbac::v1::{ClusterRole, Role},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use windlass_api::{
    crd::{CustomResource, Definition, DefinitionError},
    rbac::Rule,
};

use crate::{
    check::{self, Problem},
    files::{self, File, Part},
    policy::{self, Policies, Policy},
    roles,
    webhook::{self, Names, Webhook},
};

/// What a project tells a cluster of itself.
///
/// ```
/// use windlass_api::rbac::Rule;
/// use windlass_manifests::{Manifests, Part};
///
/// const RULES: &[Rule] = &[Rule { groups: &["apps"], resources: &["deployments"], verbs: &["list", "get"], ..Rule::NONE }];
///
/// let files = Manifests::new("website-operator").rules(RULES).files(Part::Rbac)?;
/// assert_eq!(files[0].path, "rbac/role.yaml");
/// assert!(files[0].text.contains("- deployments"));
/// # Ok::<(), windlass_manifests::Problems>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Manifests {
    pub(crate) project: String,
    pub(crate) role: String,
    definitions: Vec<Result<CustomResourceDefinition, DefinitionError>>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) webhooks: Vec<Webhook>,
    pub(crate) policies: Vec<Policy>,
    names: Names,
    /// In characters.
    longest_description: Option<usize>,
}

/// Everything that is wrong with the manifests of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Manifests {
    /// Of a project that has nothing yet. What belongs to all of it is called as kubebuilder calls it, and kustomize renames it: `manager-role`,
    /// `webhook-service` in `system`.
    pub fn new(project: impl Into<String>) -> Self {
        Self {
            project: project.into(),
            role: "manager-role".to_owned(),
            definitions: Vec::new(),
            rules: Vec::new(),
            webhooks: Vec::new(),
            policies: Vec::new(),
            names: Names::default(),
            longest_description: None,
        }
    }

    /// Of a project that `windlass init` has laid out: its role is `PROJECT-manager`, the configurations of its webhooks are `PROJECT`, and those are
    /// asked at the Service `PROJECT-webhooks` in `PROJECT-system`.
    pub fn of_project(project: impl Into<String>) -> Self {
        let project = project.into();
        let (role, names) = (format!("{project}-manager"), Names::of_project(&project));
        Self { role, names, ..Self::new(project) }
    }

    /// A kind that has one version.
    pub fn kind<K: CustomResource>(self) -> Self {
        self.definition(Definition::of::<K>())
    }

    /// A kind of several versions.
    pub fn definition(mut self, definition: Definition) -> Self {
        self.definitions.push(definition.build());
        self
    }

    /// What a controller needs to be allowed, as `#[rbac(…)]` says it.
    pub fn rules(mut self, rules: &[Rule]) -> Self {
        self.rules.extend_from_slice(rules);
        self
    }

    /// The name of the role for rules that name none; otherwise `manager-role`, or that of the project.
    pub fn role(mut self, name: impl Into<String>) -> Self {
        self.role = name.into();
        self
    }

    /// A webhook of the program.
    pub fn webhook(mut self, webhook: Webhook) -> Self {
        self.webhooks.push(webhook);
        self
    }

    /// Rules about objects, and what happens to those that break them, for [`Part::Policies`].
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policies.push(policy);
        self
    }

    /// Cuts the descriptions of fields at so many characters, at the end of a sentence or word; 0 leaves them out. `kubectl apply`
    /// keeps what it applied in an annotation of 256 KiB at most; server-side apply needs no such cut.
    pub fn longest_description(mut self, characters: usize) -> Self {
        self.longest_description = Some(characters);
        self
    }

    /// The definitions, in the order of their names.
    pub fn definitions(&self) -> Result<Vec<CustomResourceDefinition>, DefinitionError> {
        let mut definitions = self.definitions.iter().cloned().collect::<Result<Vec<_>, _>>()?;
        definitions.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        if let Some(longest) = self.longest_description {
            for definition in &mut definitions {
                files::shorten(definition, longest);
            }
        }
        Ok(definitions)
    }

    /// The roles of the whole cluster and those of single namespaces, in the order of their names.
    #[must_use]
    pub fn roles(&self) -> (Vec<ClusterRole>, Vec<Role>) {
        roles::roles(&self.rules, &self.role)
    }

    /// The webhooks that may change objects, and those that may refuse them; none where there are no such.
    #[must_use]
    pub fn webhook_configurations(
        &self,
    ) -> (Option<MutatingWebhookConfiguration>, Option<ValidatingWebhookConfiguration>) {
        webhook::configurations(&self.webhooks, &self.names)
    }

    pub(crate) fn policies_made(&self) -> Result<Policies, Problem> {
        let definitions = self.definitions().map_err(|error| Problem::new(&self.project, error.to_string()))?;
        Ok(policy::policies(&definitions, &self.policies))
    }

    /// The rules of the definitions as policies, and those that were declared as such, each with what binds it.
    ///
    /// What a policy cannot say as a schema does is left out; the file of [`Part::Policies`] names it, with the reason.
    pub fn policies(&self) -> Result<Vec<(ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding)>, Problems> {
        Ok(self.policies_made().map_err(|problem| Problems(vec![problem]))?.documents)
    }

    /// What a cluster would refuse: for a test of the project.
    ///
    /// CEL rules are compiled against the schema that they stand in, and their costs estimated; patterns, paths and defaults are
    /// held against the schema; of the versions exactly one is stored.
    pub fn check(&self) -> Result<(), Problems> {
        let problems = check::check(self, &self.definitions);
        if problems.is_empty() { Ok(()) } else { Err(Problems(problems)) }
    }

    /// The files of one part, if nothing is wrong.
    pub fn files(&self, part: Part) -> Result<Vec<File>, Problems> {
        self.check()?;
        files::files(self, part).map_err(|problem| Problems(vec![problem]))
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
