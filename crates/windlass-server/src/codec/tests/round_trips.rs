//! What was decoded is encoded and decoded again, in every encoding, for made-up objects of every kind.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    super::{FieldValidation, Format, Plan, plan, shape::forget_empty, to_protobuf, to_yaml, types},
    generate::Generator,
};

/// How densely objects are filled, of ten fields: all of them once, then less and less.
const DENSITIES: [u64; 6] = [10, 7, 5, 3, 2, 1];

fn decoded(plan: &Plan, body: &[u8], format: Format) -> Value {
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
            assert_eq!(decoded(plan, text.as_bytes(), Format::Json).to_string(), text, "{kind} as JSON");
            let yaml = to_yaml(&object);
            // YAML puts the keys of what has no type in order.
            assert_eq!(decoded(plan, yaml.as_bytes(), Format::Yaml), object, "{kind} as YAML:\n{yaml}");
            let mut object = object;
            forget_empty(plan.shape(), &mut object);
            // What storing forgets is left out as what is written.
            let object = plan.normalise(object, FieldValidation::Strict).unwrap().value;
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
fn a_tree_is_settled_in_place_as_its_text_would_be_decoded() {
    let (mut settled, mut unfit) = (0, BTreeSet::new());
    for (index, (group, version, kind)) in types::all_kinds().enumerate() {
        let plan = plan(group, version, kind).unwrap();
        for (round, density) in DENSITIES.into_iter().enumerate() {
            let sent = Generator::new((index * 100 + round) as u64, density).object(plan.shape());
            let expected = decoded(plan, sent.to_string().as_bytes(), Format::Json);
            // What was sent may have numbers for quantities, whose text counts.
            for (mut tree, must_fit) in [(expected.clone(), true), (upside_down(&expected), true), (sent, false)] {
                if plan.settle(&mut tree) {
                    assert_eq!(tree.to_string(), expected.to_string(), "{kind}");
                    settled += 1;
                } else if must_fit {
                    unfit.insert(kind);
                }
            }
        }
    }
    let has_schemas = ["CustomResourceDefinition", "CustomResourceDefinitionList", "WatchEvent"];
    unfit.retain(|kind| !has_schemas.contains(kind));
    assert!(settled > 1_000 && unfit.is_empty(), "not settled: {unfit:?}");
}

/// The same with the fields of the object, and of its metadata, in reverse.
fn upside_down(value: &Value) -> Value {
    let turned = |(key, value): (&String, &Value)| {
        (key.clone(), if key == "metadata" { upside_down(value) } else { value.clone() })
    };
    value.as_object().map_or_else(|| value.clone(), |entries| entries.iter().rev().map(turned).collect())
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
