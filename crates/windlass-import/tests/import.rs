//! Tests that a CRD with all features becomes types that define the same CRD.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::{env, fs, path::PathBuf};

use serde_json::{Value, json};
use windlass_import::{Document, Imported, differences, files, one_file, read};

fn sites() -> Document {
    read("sites.yaml", include_str!("sites.yaml")).unwrap().remove(0)
}

fn imported() -> Imported {
    sites().import(None).unwrap()
}

/// Returns a CRD with one field.
fn with(field: &Value) -> Document {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "odds.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Odd", "plural": "odds"}, "versions": [
            {"name": "v1", "served": true, "storage": true,
             "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": field}}}}]},
    });
    read("odd.json", &definition.to_string()).unwrap().remove(0)
}

#[test]
fn imported_types_generate_the_same_crd() {
    let Imported { modules, differences, .. } = imported();
    assert_eq!(differences, []);
    assert_eq!(modules.iter().map(|module| module.version.as_str()).collect::<Vec<_>>(), ["v1beta1", "v1"]);
    for module in modules {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/site_{}.rs", module.version));
        if env::var_os("WINDLASS_GOLDEN").is_some_and(|value| value == "write") {
            fs::write(&path, &module.text).unwrap();
        }
        assert_eq!(module.text, fs::read_to_string(&path).unwrap(), "WINDLASS_GOLDEN=write writes it anew");
    }
}

#[test]
fn schema_differences_of_types_are_reported() {
    let text = imported().modules.remove(1).text;
    for (said, instead, place) in [
        ("exclusive_maximum = 10", "maximum = 10", "exclusiveMaximum"),
        ("Its names.", "Names.", "description"),
        ("big-one", "big", "enum"),
        ("FieldValueForbidden", "FieldValueInvalid", "x-kubernetes-validations"),
        ("max_items = 9", "max_items = 8", "maxItems"),
        ("description = \"An amount.\"", "description = \"Amounts.\"", "additionalProperties.description"),
        ("pub since: Option<Time>", "pub since: Option<String>", "format"),
        ("pub target: Option<", "pub target: Vec<", "target"),
        (".status.replicas", ".status.count", "scale.statusReplicasPath"),
    ] {
        assert!(text.contains(said), "{said}");
        let changed = windlass_import::definition(&text.replacen(said, instead, 1)).unwrap();
        let mut wanted = sites().value().clone();
        wanted["spec"]["versions"].as_array_mut().unwrap().remove(0);
        let found = differences(&wanted, &serde_json::to_value(changed).unwrap());
        assert!(found.iter().any(|difference| difference.place.contains(place)), "{said}: {found:#?}");
    }
}

#[test]
fn import_of_one_version_makes_a_crd() {
    let Imported { modules, differences, .. } = sites().import(Some("v1beta1")).unwrap();
    assert_eq!((modules.len(), differences), (1, Vec::new()));
    assert!(!modules[0].text.contains("storage"), "the only version is the stored one");
    let error = sites().import(Some("v2")).unwrap_err().to_string();
    assert_eq!(error, "sites.yaml, document 1: spec.versions: there is no version v2");
}

#[test]
fn modules_become_files_or_one_file() {
    let mut modules = imported().modules;
    let names = |modules: &[_]| files(modules).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(&modules), ["v1.rs", "v1/site.rs", "v1beta1.rs", "v1beta1/site.rs"]);
    let one = one_file(&modules);
    assert!(one.contains("pub mod v1beta1 {\n    pub mod site {\n        //! Site in version v1beta1"), "{one}");
    assert!(syn::parse_file(&one).is_ok());
    modules[0].group = "other.example.com".to_owned();
    assert_eq!(
        names(&modules),
        [
            "other_example_com.rs",
            "other_example_com/v1beta1.rs",
            "other_example_com/v1beta1/site.rs",
            "shop_example_com.rs",
            "shop_example_com/v1.rs",
            "shop_example_com/v1/site.rs"
        ]
    );
    assert!(syn::parse_file(&one_file(&modules)).is_ok());
}

#[test]
fn case_variants_of_enum_values_cause_no_warning() {
    let Imported { modules, differences, .. } =
        with(&json!({"type": "string", "enum": ["HEAD", "Head", "head"]})).import(None).unwrap();
    assert_eq!(differences, []);
    for variant in ["    Head,\n", "    Head2,\n", "    Head3,\n"] {
        assert!(modules[0].text.contains(variant), "{}", modules[0].text);
    }
}

#[test]
fn unsupported_schemas_are_kept_unchanged() {
    for field in [
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
        json!({"type": "object", "additionalProperties": true}),
        json!({"type": "object", "required": ["b"], "properties": {"a": {"type": "string"}}}),
        json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "odd"}),
        json!({"type": "integer", "minimum": 2, "maximum": 1}),
        json!({"type": "string", "enum": ["a", "a"]}),
        json!({"type": "string", "enum": ["a", null], "nullable": true}),
        json!({"type": "array"}),
        json!({"type": "object", "nullable": true, "properties": {"a": {"type": "string"}}}),
    ] {
        let Imported { differences, .. } = with(&field).import(None).unwrap();
        assert_eq!(differences, [], "{field}");
    }
    // An unknown keyword cannot be kept, and is reported.
    let differences = with(&json!({"type": "string", "color": "red"})).import(None).unwrap().differences;
    assert_eq!(differences.len(), 1);
    assert!(differences[0].to_string().contains("spec.color: \"red\", and in the types nothing"), "{}", differences[0]);
}

#[test]
fn import_errors_name_file_document_and_path() {
    let error = |change: fn(&mut Value)| {
        let mut definition = with(&json!({"type": "string"})).value().clone();
        change(&mut definition);
        let text = format!("a: 1\n---\n{definition}\n");
        read("a.yaml", &text).and_then(|found| found[0].import(None)).unwrap_err().to_string()
    };
    let place = "a.yaml, document 2: ";
    for (change, told) in [
        (
            (|it| it["apiVersion"] = json!("apiextensions.k8s.io/v1beta1")) as fn(&mut Value),
            "apiVersion: only apiextensions.k8s.io/v1 is read",
        ),
        (|it| it["spec"]["versions"] = json!([]), "spec.versions: the CRD has no versions"),
        (|it| it["spec"]["names"]["kind"] = json!("a b"), "spec.names.kind: \"a b\" is not a valid type name"),
        (|it| it["spec"]["names"]["plural"] = json!(null), "spec.names.plural: expected a text"),
        (
            |it| it["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!("x"),
            "spec.versions[0].schema.openAPIV3Schema.spec: it is no schema",
        ),
        (
            |it| {
                it["spec"]["versions"][0]["additionalPrinterColumns"] =
                    json!([{"name": "A", "type": "string", "jsonPath": "a"}]);
            },
            "spec.versions[0].additionalPrinterColumns[0].jsonPath: \"a\": a path begins with a dot",
        ),
    ] {
        assert_eq!(error(change), format!("{place}{told}"));
    }
    assert!(read("a.yaml", "{").unwrap_err().to_string().starts_with("a.yaml: it cannot be read as YAML: "));
}
