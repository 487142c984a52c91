//! What happens to an object: the requests about it, as a case.

use serde_json::{Value, json};

use super::{
    Operators,
    definition::{Definition, Version, parsed},
    generate::Generator,
    spoil::{self, Spoiling},
};
use crate::{case::Case, dice::Dice};

/// How many of a hundred optional fields the objects have, in turns.
const DENSITIES: [usize; 5] = [0, 15, 40, 70, 100];

/// A case about one object or two.
pub(super) struct Story {
    pub(super) case: Case,
    /// The definition that it is about, by its name.
    pub(super) definition: String,
    /// How many objects are made in it.
    pub(super) objects: usize,
    text: String,
}

/// The stories of one version of a kind: valid objects, each with ways to break it.
pub(super) fn stories(definition: &Definition, version: &Version, what: &Operators) -> Vec<Story> {
    let place = format!("{}/{}", definition.name, version.name);
    // A seed of its own for each, so that one definition can be looked at alone.
    let seed = place.bytes().fold(what.seed, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    let mut stories = Vec::new();
    for number in 0..what.objects {
        let dice = Dice::of(seed, number as u64);
        let writer = Writer { definition, version, dice: &dice };
        let object = writer.object(DENSITIES[number % DENSITIES.len()]);
        stories.push(writer.valid(&object, &writer.object(*dice.pick(&DENSITIES))));
        let spoilings = spoil::spoilings(&version.schema, &object, &dice, what.objects);
        stories.extend(spoilings.iter().map(|spoiling| writer.broken(&object, spoiling)));
    }
    stories
}

/// Writes the stories of one object.
struct Writer<'a> {
    definition: &'a Definition,
    version: &'a Version,
    dice: &'a Dice,
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
            if required || name == "spec" || (density > 0 && self.dice.chance(50)) {
                object[name] = Generator::new(self.dice, density).value(field);
            }
        }
        object
    }

    fn collection(&self) -> String {
        self.definition.collection(self.version)
    }

    /// An object is created, read in each form, changed to another, applied, and deleted.
    fn valid(&self, object: &Value, other: &Value) -> Story {
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
        Story { case: parsed(&text), definition: self.definition.name.clone(), objects: 2, text }
    }

    /// A broken object is created and applied, and the whole one is changed to it.
    fn broken(&self, object: &Value, spoiling: &Spoiling) -> Story {
        let (collection, one) = (self.collection(), format!("{}/a-{{id}}", self.collection()));
        let broken = spoiling.of(object);
        let validation = self.dice.pick(&["Strict", "Warn", "Ignore"]);
        let name = format!("{:?}", spoiling.breakage);
        let mut text = format!("=== {name}\nPOST {collection}?fieldValidation={validation}\n{broken}\n\n");
        text += &format!("PATCH/apply {one}?fieldManager=one&fieldValidation={validation}\n{broken}\n\n");
        text += &format!("GET {one}\n\nDELETE {one}\n\n");
        text += &format!("POST {collection}\n{object}\n\n");
        text += &format!(
            "PATCH/merge {one}?fieldValidation={validation}\n{}\n\nDELETE {one}\n",
            json!({"spec": broken["spec"]})
        );
        Story { case: parsed(&text), definition: self.definition.name.clone(), objects: 1, text }
    }
}

impl Story {
    /// The requests, as they stand in a file of cases.
    pub(super) fn told(&self) -> &str {
        &self.text
    }
}
