//! What was decoded is encoded and decoded again, in every encoding, for made-up objects of every kind.

use std::collections::BTreeSet;

use serde_json::json;

use super::{
    super::{FieldValidation, Format, Plan, plan, shape::forget_empty, to_protobuf, to_yaml, types},
    generate::Generator,
};

/// How densely objects are filled, of ten fields: all of them once, then less and less.
const DENSITIES: [u64; 4] = [10, 6, 3, 1];

fn decoded(plan: &Plan, body: &[u8], format: Format) -> serde_json::Value {
    let decoded = plan.decode(body, format, FieldValidation::Strict);
    decoded.unwrap_or_else(|error| panic!("{}: {error}\n{}", plan.kind, String::from_utf8_lossy(body))).value
}

#[test]
fn objects_of_every_kind_survive_every_encoding() {
    let mut reached = BTreeSet::new();
    let mut kinds: Vec<_> = types::all_kinds().collect();
    kinds.sort_unstable();
    for (index, (group, version, kind)) in kinds.into_iter().enumerate() {
        let plan = plan(group, version, kind).unwrap();
        for (round, density) in DENSITIES.into_iter().enumerate() {
            let mut generator = Generator::new((index * 100 + round) as u64, density);
            let sent = generator.object(plan.shape());
            reached.append(&mut generator.reached);
            let object = decoded(plan, sent.to_string().as_bytes(), Format::Json);
            let text = object.to_string();
            assert_eq!(plan.tidied(sent.clone()).unwrap().to_string(), text, "{kind}, tidied");
            assert_eq!(decoded(plan, text.as_bytes(), Format::Json).to_string(), text, "{kind} as JSON");
            let yaml = to_yaml(&object);
            // YAML puts the keys of what has no type in order.
            assert_eq!(decoded(plan, yaml.as_bytes(), Format::Yaml), object, "{kind} as YAML:\n{yaml}");
            let mut object = object;
            forget_empty(plan.shape(), &mut object);
            // What storing forgets is left out as what is written.
            let object = plan.normalise(&object, FieldValidation::Strict).unwrap().value;
            let Some(protobuf) = to_protobuf(&object) else {
                assert!(["Table", "TableOptions", "WatchEvent"].contains(&kind), "{kind} has no message");
                continue;
            };
            assert_eq!(
                decoded(plan, &protobuf, Format::Protobuf).to_string(),
                object.to_string(),
                "{kind} as protobuf of {text}"
            );
        }
    }
    assert_eq!(missed(&reached), Vec::<String>::new(), "fields that no object had");
}

#[test]
fn what_is_mistyped_is_found_by_tidying_and_told_by_the_decoder() {
    let pod = plan("", "v1", "Pod").unwrap();
    for (spec, expected) in [
        (json!({"hostname": 5}), "cannot unmarshal number into Go struct field PodSpec.spec.hostname of type string"),
        (
            json!({"priority": 3_000_000_000_i64}),
            "number 3000000000 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (json!({"overhead": {"cpu": "x"}}), "quantities must match the regular expression"),
        (json!({"containers": {}}), "cannot unmarshal object into Go struct field PodSpec.spec.containers"),
    ] {
        let error = pod.normalise(&json!({"spec": spec}), FieldValidation::Ignore).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let unchanged = pod.normalise(&json!({"spec": {"unknown": 1}}), FieldValidation::Ignore).unwrap();
    assert_eq!(unchanged.value["spec"], json!({"containers": null}));
}

/// The fields of the structs of all kinds that are not among these.
fn missed(reached: &BTreeSet<(&str, &str)>) -> Vec<String> {
    let mut missed = Vec::new();
    for shape in types::all_structs() {
        for field in &shape.fields {
            if field.embedded != ["TypeMeta"] && !reached.contains(&(shape.name, field.name)) {
                missed.push(format!("{}.{}", shape.name, field.name));
            }
        }
    }
    missed
}
