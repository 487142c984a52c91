//! Round-trip tests: generated objects of every kind are decoded, encoded and decoded again in every encoding.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    super::{FieldValidation, Format, Plan, plan, shape::drop_empty_containers, to_protobuf, to_yaml, types},
    generate::Generator,
};

/// The share of set fields in an object, in tenths: first all fields, then fewer.
const DENSITIES: [u64; 6] = [10, 7, 5, 3, 2, 1];

fn decoded(plan: &Plan, body: &[u8], format: Format) -> Value {
    let decoded = plan.decode(body, format, FieldValidation::Strict);
    decoded.unwrap_or_else(|error| panic!("{}: {error}\n{}", plan.kind, String::from_utf8_lossy(body))).value
}

#[test]
fn objects_of_every_kind_round_trip_in_every_encoding() {
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
            assert_eq!(decoded(plan, text.as_bytes(), Format::Json).to_string(), text, "{kind} as JSON");
            let yaml = to_yaml(&object);
            // YAML sorts the keys of untyped objects.
            assert_eq!(decoded(plan, yaml.as_bytes(), Format::Yaml), object, "{kind} as YAML:\n{yaml}");
            let mut object = object;
            drop_empty_containers(plan.shape(), &mut object);
            // Removes the fields that storing in protobuf drops.
            let object = plan.normalize(object, FieldValidation::Strict).unwrap().value;
            let Some(protobuf) = to_protobuf(object.to_string().as_bytes()) else {
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
    assert_eq!(missing_fields(&reached), Vec::<String>::new(), "fields that no object had");
}

#[test]
fn in_place_conversion_equals_decoding_of_the_text() {
    let (mut normalized, mut unfit) = (0, BTreeSet::new());
    for (index, (group, version, kind)) in types::all_kinds().enumerate() {
        let plan = plan(group, version, kind).unwrap();
        for (round, density) in DENSITIES.into_iter().enumerate() {
            let sent = Generator::new((index * 100 + round) as u64, density).object(plan.shape());
            let expected = decoded(plan, sent.to_string().as_bytes(), Format::Json);
            // The sent tree may contain numbers for quantities, and the decoder keeps their text.
            for (mut tree, must_fit) in [(expected.clone(), true), (with_reversed_keys(&expected), true), (sent, false)]
            {
                if plan.in_place(&mut tree) {
                    assert_eq!(tree.to_string(), expected.to_string(), "{kind}");
                    normalized += 1;
                } else if must_fit {
                    unfit.insert(kind);
                }
            }
        }
    }
    let has_schemas = ["CustomResourceDefinition", "CustomResourceDefinitionList", "WatchEvent"];
    unfit.retain(|kind| !has_schemas.contains(kind));
    assert!(normalized > 1_000 && unfit.is_empty(), "not normalized: {unfit:?}");
}

/// Returns the object with its fields, and those of its metadata, in reverse order.
fn with_reversed_keys(value: &Value) -> Value {
    let reversed = |(key, value): (&String, &Value)| {
        (key.clone(), if key == "metadata" { with_reversed_keys(value) } else { value.clone() })
    };
    value.as_object().map_or_else(|| value.clone(), |entries| entries.iter().rev().map(reversed).collect())
}

/// Returns the fields of all kinds' structs that are not in `reached`.
fn missing_fields(reached: &BTreeSet<(&str, &str)>) -> Vec<String> {
    let mut missing_fields = Vec::new();
    for shape in types::all_structs() {
        for field in &shape.fields {
            if field.embedded != ["TypeMeta"] && !reached.contains(&(shape.name, field.name)) {
                missing_fields.push(format!("{}.{}", shape.name, field.name));
            }
        }
    }
    missing_fields
}
