//! Compiles the output of `windlass import`, and checks that its CRDs equal the imported ones.

use windlass::api::crd::{CrdBuilder, CustomResource};

#[rustfmt::skip]
#[path = "../../crates/windlass-import/tests/golden/site_v1.rs"]
mod v1;
#[rustfmt::skip]
#[path = "../../crates/windlass-import/tests/golden/site_v1beta1.rs"]
mod v1beta1;

#[test]
fn imported_types_compile_to_the_same_crd() {
    let sources = [
        (include_str!("../../crates/windlass-import/tests/golden/site_v1.rs"), v1::Site::declared()),
        (include_str!("../../crates/windlass-import/tests/golden/site_v1beta1.rs"), v1beta1::Site::declared()),
    ];
    for (source, compiled) in sources {
        assert_eq!(windlass_import::definition(source).unwrap(), compiled);
    }
    let definition = CrdBuilder::of::<v1::Site>().and::<v1beta1::Site>().build().unwrap();
    let yaml = include_str!("../../crates/windlass-import/tests/sites.yaml");
    let read = windlass_import::read("sites.yaml", yaml).unwrap();
    let differences = windlass_import::differences(read[0].value(), &serde_json::to_value(definition).unwrap());
    assert_eq!(differences, []);
}

#[test]
fn an_object_is_read_and_written_as_it_is() {
    let site = serde_json::json!({
        "metadata": {"name": "a"},
        "spec": {
            "class": "!=", "null-able": null, "filled": "f", "replicas": 1, "type": "t", "self": 1, "crate": 2, "fooBar": true,
            "foo_bar": false, "foo-bar": 0.5, "data": "AA==", "since": "2026-01-02T03:04:05Z", "port": "http", "memory": "1Gi",
            "hosts": ["a.b"], "ports": [{"name": "http", "protocol": "TCP", "target": {"name": "x"}}], "limits": {"cpu": 1},
            "matrix": [["a", null]], "anything": [1], "settings": {"a": {"b": 1}}, "template": {"kind": "Pod"},
            "mixed": {"other": "x", "more": {"y": 1}}, "choice": {"a": "x"}
        },
        "status": {"replicas": 1}
    });
    let read: v1::Site = serde_json::from_value(site.clone()).unwrap();
    assert_eq!(read.spec.class, v1::SiteSpecClass::NotEqual);
    assert_eq!(serde_json::to_value(&read).unwrap(), site);
}
