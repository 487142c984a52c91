//! CustomResourceDefinitions, and the cases that create and delete them.

use serde_json::Value;

use crate::case::{self, Act, Case};

const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A CRD, as the server stored it.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) plural: String,
    pub(super) namespaced: bool,
    /// The served versions that need no conversion.
    pub(super) versions: Vec<Version>,
}

/// A version of a CRD.
#[derive(Clone, Debug)]
pub(super) struct Version {
    pub(super) name: String,
    pub(super) schema: Value,
    pub(super) status: bool,
    pub(super) scale: bool,
}

impl Definition {
    pub(super) fn read(stored: &Value) -> Option<Self> {
        let spec = stored.get("spec")?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let converts = spec["conversion"]["strategy"] == "Webhook";
        let usable = |version: &&Value| version["served"] == true && (!converts || version["storage"] == true);
        let version = |version: &Value| {
            let schema = version["schema"]["openAPIV3Schema"].clone();
            let has = |name: &str| version["subresources"].get(name).is_some();
            Some(Version { name: text(&version["name"])?, schema, status: has("status"), scale: has("scale") })
        };
        Some(Self {
            name: text(&stored["metadata"]["name"])?,
            group: text(&spec["group"])?,
            kind: text(&spec["names"]["kind"])?,
            plural: text(&spec["names"]["plural"])?,
            namespaced: spec["scope"] == "Namespaced",
            versions: spec["versions"].as_array()?.iter().filter(usable).filter_map(version).collect(),
        })
    }

    /// Returns the path of its objects in a version.
    pub(super) fn collection(&self, version: &Version) -> String {
        let namespace = if self.namespaced { "namespaces/default/" } else { "" };
        format!("/apis/{}/{}/{namespace}{}", self.group, version.name, self.plural)
    }
}

/// Splits a YAML text into documents.
pub(super) fn documents(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        if line == "---" {
            documents.push(String::new());
        } else if let Some(last) = documents.last_mut() {
            last.extend([line, "\n"]);
        }
    }
    documents
}

/// Returns the name in the metadata of a YAML text, if it is a CRD.
pub(super) fn name(text: &str) -> Option<String> {
    text.lines().find(|line| *line == "kind: CustomResourceDefinition")?;
    let mut metadata =
        text.lines().skip_while(|line| *line != "metadata:").skip(1).take_while(|line| line.starts_with(' '));
    metadata.find_map(|line| line.strip_prefix("  name: ")).map(|name| name.trim_matches('"').to_owned())
}

/// Creates a CRD, and waits until its objects are served.
pub(super) fn creation(name: &str, text: &str) -> Case {
    let until = |condition: &str| {
        format!("GET {PATH}/{name}\n< until status.conditions[type={condition}].status=True\n< only metadata.name\n\n")
    };
    let mut established = until("Established");
    // Another controller sets the approval condition for groups of the Kubernetes project.
    if name.ends_with(".k8s.io") {
        established += &until("KubernetesAPIApprovalPolicyConformant");
    }
    // The number of writes depends on the timing of the server's controllers.
    established += &format!("GET {PATH}/{name}\n< mask metadata.resourceVersion\n");
    let mut case = parsed(&format!(
        "=== {name}\nPOST {PATH}?fieldValidation=Strict\n> Content-Type: application/yaml\nbody\n\n{established}"
    ));
    if let Some(Act::Request(request)) = case.steps.first_mut().map(|step| &mut step.act) {
        text.clone_into(&mut request.body);
    }
    case
}

/// Deletes a CRD with its objects.
pub(super) fn removal(name: &str) -> Case {
    parsed(&format!("=== {name}\nDELETE {PATH}/{name}\n\nGET {PATH}/{name}\n< until 404\n"))
}

/// Parses a text with a single case.
pub(super) fn parsed(text: &str) -> Case {
    let mut cases = case::parse(text).unwrap_or_else(|problem| panic!("{problem}: {text}"));
    cases.remove(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_each_document() {
        let text = "# a\n---\nkind: CustomResourceDefinition\nmetadata:\n  labels:\n    name: no\n  name: a.b\nspec:\n  name: no\n";
        let names: Vec<_> = documents(text).iter().map(|text| name(text)).collect();
        assert_eq!(names, [None, Some("a.b".to_owned())]);
    }
}
