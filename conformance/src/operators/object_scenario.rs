//! Stories: the requests about an object, as a case.

use serde_json::{Value, json};

use super::{
    Operators,
    definition::{Definition, Version, parsed},
    generate::Generator,
    violation::{self, Violation},
};
use crate::{case::Case, seeded_random::SeededRandom};

/// The percentages of optional fields, used in turn.
const DENSITIES: [usize; 5] = [0, 15, 40, 70, 100];

/// A case about one or two objects.
pub(super) struct ObjectScenario {
    pub(super) case: Case,
    /// The name of the CRD.
    pub(super) definition: String,
    /// The number of generated objects.
    pub(super) objects: usize,
    text: String,
}

/// Returns the scenarios of a version: valid objects, and invalid variants of each.
pub(super) fn scenarios(definition: &Definition, version: &Version, what: &Operators) -> Vec<ObjectScenario> {
    let place = format!("{}/{}", definition.name, version.name);
    // Each version has its own seed, so results do not depend on other CRDs.
    let seed = place.bytes().fold(what.seed, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    let mut scenarios = Vec::new();
    for number in 0..what.objects {
        let random = SeededRandom::of(seed, number as u64);
        let writer = Writer { definition, version, random: &random };
        let object = writer.object(DENSITIES[number % DENSITIES.len()]);
        scenarios.push(writer.valid(&object, &writer.object(*random.pick(&DENSITIES))));
        let violations = violation::violations(&version.schema, &object, &random, what.objects);
        scenarios.extend(violations.iter().map(|violation| writer.broken(&object, violation)));
    }
    scenarios
}

/// A writer of the scenarios of one object.
struct Writer<'a> {
    definition: &'a Definition,
    version: &'a Version,
    random: &'a SeededRandom,
}

impl Writer<'_> {
    fn object(&self, density: usize) -> Value {
        let mut object = json!({
            "apiVersion": format!("{}/{}", self.definition.group, self.version.name),
            "kind": self.definition.kind,
            "metadata": {"name": "a-{id}"},
        });
        let schema = &self.version.schema;
        let fields = schema["properties"].as_object().into_iter().flatten();
        for (name, field) in fields.filter(|(name, _)| !matches!(&***name, "apiVersion" | "kind" | "metadata")) {
            let required = schema["required"].as_array().is_some_and(|required| required.iter().any(|one| one == name));
            if required || name == "spec" || (density > 0 && self.random.chance(50)) {
                object[name] = Generator::new(self.random, density).value(field);
            }
        }
        object
    }

    fn collection(&self) -> String {
        self.definition.collection(self.version)
    }

    /// Creates an object, reads it in each format, changes it to another, applies and deletes it.
    fn valid(&self, object: &Value, other: &Value) -> ObjectScenario {
        let (collection, one) = (self.collection(), format!("{}/a-{{id}}", self.collection()));
        let mut text = format!("=== valid\nPOST {collection}?fieldValidation=Strict\n{object}\n\n");
        text += &format!("GET {one}\n\nGET {one}\n> Accept: application/json;as=Table;v=v1;g=meta.k8s.io\n\n");
        if self.version.status {
            let status = if object["status"].is_null() { &other["status"] } else { &object["status"] };
            text += &format!("PATCH/merge {one}/status?fieldValidation=Warn\n{}\n\n", json!({"status": status}));
        }
        text += &format!("PATCH/merge {one}\n{}\n\n", json!({"spec": other["spec"]}));
        if self.version.scale {
            text += &format!("GET {one}/scale\n\nPATCH/merge {one}/scale\n{}\n\n", json!({"spec": {"replicas": 2}}));
        }
        text += &format!("PATCH/apply {one}?fieldManager=one&force=true\n{object}\n\n");
        text += &format!("PATCH/apply {one}?fieldManager=two\n{other}\n\n");
        text += &format!("GET {one}\n\nDELETE {one}\n");
        ObjectScenario { case: parsed(&text), definition: self.definition.name.clone(), objects: 2, text }
    }

    /// Creates and applies an invalid object, and updates a valid one to it.
    fn broken(&self, object: &Value, violation: &Violation) -> ObjectScenario {
        let (collection, one) = (self.collection(), format!("{}/a-{{id}}", self.collection()));
        let broken = violation.of(object);
        let validation = self.random.pick(&["Strict", "Warn", "Ignore"]);
        let name = format!("{:?}", violation.kind);
        let mut text = format!("=== {name}\nPOST {collection}?fieldValidation={validation}\n{broken}\n\n");
        text += &format!("PATCH/apply {one}?fieldManager=one&fieldValidation={validation}\n{broken}\n\n");
        text += &format!("GET {one}\n\nDELETE {one}\n\n");
        text += &format!("POST {collection}\n{object}\n\n");
        text += &format!(
            "PATCH/merge {one}?fieldValidation={validation}\n{}\n\nDELETE {one}\n",
            json!({"spec": broken["spec"]})
        );
        ObjectScenario { case: parsed(&text), definition: self.definition.name.clone(), objects: 1, text }
    }
}

impl ObjectScenario {
    /// Returns the requests in the format of a file of cases.
    pub(super) fn told(&self) -> &str {
        &self.text
    }
}
