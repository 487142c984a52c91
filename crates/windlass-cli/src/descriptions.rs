//! Descriptions of the built-in kinds and their fields, as the real kube-apiserver has them.

use serde_json::{Map, Value};

/// Lines `name JSON`, separated by a tab: the descriptions of a schema, in the form of a schema. Written by
/// `cargo xtask record`.
const RECORDED: &str = include_str!("../data/descriptions.tsv");

/// Returns the descriptions of all kinds of the server, by their names in Kubernetes' OpenAPI documents.
pub(crate) fn schemas() -> Map<String, Value> {
    let lines = RECORDED.lines().filter_map(|line| line.split_once('\t'));
    let described = |json| serde_json::from_str(json).expect("the recorded descriptions are JSON");
    lines.map(|(name, json)| (name.to_owned(), described(json))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recorded_schema_is_described() {
        let schemas = schemas();
        let recorded = windlass_api::openapi::RECORDED.lines().filter_map(|line| line.split_once('\t'));
        let missing: Vec<_> = recorded.map(|(name, _)| name).filter(|name| !schemas.contains_key(*name)).collect();
        assert_eq!(missing, Vec::<&str>::new());
    }

    #[test]
    fn fields_have_their_descriptions() {
        let schemas = schemas();
        let text = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]["description"].as_str();
        assert!(text.is_some_and(|text| text.starts_with("List of containers")), "{text:?}");
    }
}
