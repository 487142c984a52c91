//! The manifest files of a project, in kubebuilder's layout.

use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

use crate::{Manifests, Problem, yaml};

/// A part of the manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The CustomResourceDefinitions: `crd/bases/<group>_<plural>.yaml`.
    Crds,
    /// The roles: `rbac/role.yaml`.
    Rbac,
    /// The webhooks: `webhook/manifests.yaml`.
    Webhooks,
    /// The rules of the CustomResourceDefinitions, and those of [`Policy`](crate::Policy), as
    /// ValidatingAdmissionPolicies: `policy/policies.yaml`.
    Policies,
    /// All parts except the policies, which repeat rules of the CustomResourceDefinitions.
    All,
}

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The path below `config`, with slashes.
    pub path: String,
    /// The content, as YAML.
    pub text: String,
}

/// The first line of generated files, in which manual changes are lost.
const HEADER: &str = "# Written by `windlass generate`; do not edit.\n";
/// The folder of the CustomResourceDefinitions.
pub(crate) const DEFINITIONS: &str = "crd/bases";

impl File {
    /// Reports whether a text was generated.
    pub(crate) fn is_ours(text: &str) -> bool {
        text.starts_with(HEADER)
    }

    /// Reports whether the folder contains this file with this content.
    pub(crate) fn is_written(&self, folder: &Path) -> bool {
        std::fs::read_to_string(folder.join(&self.path)).is_ok_and(|text| text == self.text)
    }
}

pub(crate) fn files(manifests: &Manifests, part: Part) -> Result<Vec<File>, Problem> {
    let mut files = Vec::new();
    let is_wanted = |one: Part| part == one || (part == Part::All && one != Part::Policies);
    let whole = |documents: Vec<Result<String, String>>, path: String| -> Result<File, Problem> {
        let mut text = HEADER.to_owned();
        for document in documents {
            text.push_str(&document.map_err(|why| Problem::new(&path, why))?);
        }
        Ok(File { path, text })
    };
    if is_wanted(Part::Crds) {
        let definitions =
            manifests.definitions().map_err(|error| Problem::new(&manifests.project, error.to_string()))?;
        for definition in definitions {
            let path = format!("{DEFINITIONS}/{}_{}.yaml", definition.spec.group, definition.spec.names.plural);
            files.push(whole(vec![yaml::document(&definition)], path)?);
        }
    }
    if is_wanted(Part::Rbac) {
        let (of_cluster, of_namespaces) = manifests.roles();
        let documents =
            of_cluster.iter().map(yaml::document).chain(of_namespaces.iter().map(yaml::document)).collect::<Vec<_>>();
        if !documents.is_empty() {
            files.push(whole(documents, "rbac/role.yaml".to_owned())?);
        }
    }
    if is_wanted(Part::Webhooks) {
        let (mutating, validating) = manifests.webhook_configurations();
        let documents =
            mutating.iter().map(yaml::document).chain(validating.iter().map(yaml::document)).collect::<Vec<_>>();
        if !documents.is_empty() {
            files.push(whole(documents, "webhook/manifests.yaml".to_owned())?);
        }
    }
    if is_wanted(Part::Policies) {
        let policies = manifests.policies_made()?;
        if !policies.documents.is_empty() || !policies.left_out.is_empty() {
            let documents = policies.documents.iter();
            let documents = documents.flat_map(|(policy, binding)| [yaml::document(policy), yaml::document(binding)]);
            let mut file = whole(documents.collect(), "policy/policies.yaml".to_owned())?;
            let left_out = policies.left_out.iter().map(|rule| format!("# Omitted: {}\n", one_line(&rule.to_string())));
            file.text.insert_str(HEADER.len(), &left_out.collect::<String>());
            files.push(file);
        }
    }
    Ok(files)
}

/// Formats a text for a comment.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

// === Descriptions ===

/// Shortens the descriptions in the schemas of a CustomResourceDefinition.
pub(crate) fn shorten(definition: &mut CustomResourceDefinition, longest: usize) {
    for version in &mut definition.spec.versions {
        if let Some(schema) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            shorten_schema(schema, longest);
        }
    }
}

fn shorten_schema(schema: &mut JSONSchemaProps, longest: usize) {
    schema.description = schema.description.take().and_then(|text| shortened(&text, longest));
    for property in schema.properties.iter_mut().flat_map(|properties| properties.values_mut()) {
        shorten_schema(property, longest);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        shorten_schema(items, longest);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        shorten_schema(values, longest);
    }
}

/// Returns the text up to the last sentence, word or character that fits.
fn shortened(text: &str, longest: usize) -> Option<String> {
    let Some((end, _)) = text.char_indices().nth(longest) else { return Some(text.to_owned()) };
    let fits = &text[..end];
    let cut = fits.rfind(". ").map(|at| at + 1).or_else(|| fits.rfind(char::is_whitespace)).unwrap_or(end);
    Some(fits[..cut].trim_end().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_end_where_a_sentence_or_a_word_does() {
        let text = "One. Two three.";
        for (longest, cut) in [
            (99, Some(text)),
            (15, Some(text)),
            (14, Some("One.")),
            (6, Some("One.")),
            (4, Some("One.")),
            (2, Some("On")),
            (0, None),
        ] {
            assert_eq!(shortened(text, longest).as_deref(), cut, "{longest}");
        }
        assert_eq!(shortened("one two", 5).as_deref(), Some("one"));
        assert_eq!(shortened("größer", 4).as_deref(), Some("größ"));
    }
}
