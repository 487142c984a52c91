//! The manifest files of a project, in kubebuilder's layout.

use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

use crate::problem::Problem;

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

impl Part {
    /// Reports whether a request for this part includes another part.
    pub(crate) fn includes(self, one: Self) -> bool {
        one == self || (self == Self::All && one != Self::Policies)
    }
}

impl File {
    /// Creates a file of YAML documents.
    pub(crate) fn of_documents(
        path: String,
        documents: impl IntoIterator<Item = Result<String, String>>,
    ) -> Result<Self, Problem> {
        let mut text = HEADER.to_owned();
        for document in documents {
            text.push_str(&document.map_err(|why| Problem::new(&path, why))?);
        }
        Ok(Self { path, text })
    }

    /// Inserts comments at the start, one line each.
    pub(crate) fn insert_comments(&mut self, comments: impl IntoIterator<Item = String>) {
        let lines: String = comments.into_iter().map(|comment| format!("# {}\n", one_line(&comment))).collect();
        self.text.insert_str(HEADER.len(), &lines);
    }

    /// Reports whether a text was generated.
    pub(crate) fn is_ours(text: &str) -> bool {
        text.starts_with(HEADER)
    }

    /// Reports whether the folder contains this file with this content.
    pub(crate) fn is_written(&self, folder: &Path) -> bool {
        std::fs::read_to_string(folder.join(&self.path)).is_ok_and(|text| text == self.text)
    }
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
    fn descriptions_are_cut_at_sentences_or_words() {
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
