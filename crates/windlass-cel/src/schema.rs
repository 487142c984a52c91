//! Structural schemas for expressions: the fields, their types, and their maximum sizes.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use serde_json::Value;

/// The maximum size of a request in bytes. It limits sizes that a schema does not limit.
const LARGEST_REQUEST: u64 = 3 * 1024 * 1024;

/// The schema of a value in expressions. Compiled from a structural schema (`openAPIV3Schema`) or from a part of one.
#[derive(Debug)]
pub struct Schema {
    pub(crate) shape: Shape,
    pub(crate) nullable: bool,
    /// The maximum number of characters, items or entries. Without a limit in the schema, as many as fit in a request.
    pub(crate) most: u64,
    /// The minimum size of its JSON in bytes.
    least_bytes: u64,
}

/// The shape of a value.
#[derive(Debug)]
pub(crate) enum Shape {
    /// JSON without a schema.
    Any,
    IntOrString,
    Bool,
    Int,
    Double,
    String(Format),
    List {
        item: Arc<Schema>,
        list: ListType,
    },
    Map(Arc<Schema>),
    Object(Arc<Object>),
}

/// The format of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Bytes,
    Duration,
    Date,
    DateTime,
}

/// The type of a list, which determines equality and sums.
#[derive(Debug)]
pub(crate) enum ListType {
    Atomic,
    Set,
    /// A list of objects with these key fields.
    Map(Vec<String>),
}

/// An object with declared fields. Two objects have the same type if they have the same declaration.
#[derive(Debug)]
pub(crate) struct Object {
    name: String,
    /// The fields by their names in expressions.
    fields: BTreeMap<String, Field>,
}

#[derive(Debug)]
pub(crate) struct Field {
    /// The name in JSON.
    pub(crate) name: String,
    pub(crate) schema: Arc<Schema>,
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Schema {
    /// Compiles the schema of a custom resource, with apiVersion, kind, and metadata's name and generateName. Returns
    /// `None` if expressions cannot use its values.
    pub fn of_resource(schema: &Value) -> Option<Arc<Self>> {
        Self::read(schema, true, "object")
    }

    /// Compiles the schema of a part of a resource.
    pub fn of_value(schema: &Value) -> Option<Arc<Self>> {
        Self::read(schema, is_set(schema, "x-kubernetes-embedded-resource"), "object")
    }

    /// Returns the schema of any JSON. Fields are looked up during evaluation.
    pub fn any() -> Arc<Self> {
        Arc::new(Self::with(Shape::Any, false, LARGEST_REQUEST, 1))
    }

    /// Creates the schema of a map with string keys and entries of this schema.
    pub fn map(entry: Arc<Self>) -> Arc<Self> {
        let most = (LARGEST_REQUEST - 2) / (entry.least_bytes + 6);
        Arc::new(Self::with(Shape::Map(entry), false, most, 2))
    }

    /// Returns the schema of any JSON as a reference.
    pub(crate) fn any_static() -> &'static Self {
        static ANY: Schema = Schema { shape: Shape::Any, nullable: false, most: LARGEST_REQUEST, least_bytes: 1 };
        &ANY
    }

    /// Creates an object schema with these fields and a type name for messages. Expressions use the field names without
    /// escaping.
    pub fn object<'a>(name: &str, fields: impl IntoIterator<Item = (&'a str, Arc<Self>)>) -> Arc<Self> {
        let fields = fields.into_iter();
        let named = fields.map(|(name, schema)| (name.to_owned(), Field { name: name.to_owned(), schema }));
        let object = Object { name: name.to_owned(), fields: named.collect() };
        Arc::new(Self::with(Shape::Object(Arc::new(object)), false, 0, 2))
    }

    /// Returns the schema of a list.
    pub fn list(item: &Arc<Self>) -> Arc<Self> {
        let item = Arc::clone(item);
        Arc::new(Self::with(Shape::List { item, list: ListType::Atomic }, false, LARGEST_REQUEST, 2))
    }

    fn with(shape: Shape, nullable: bool, most: u64, least_bytes: u64) -> Self {
        Self { shape, nullable, most, least_bytes }
    }

    fn read(schema: &Value, is_resource: bool, name: &str) -> Option<Arc<Self>> {
        let nullable = is_set(schema, "nullable");
        let count = |key: &str| schema.get(key).and_then(Value::as_i64).map(|count| u64::try_from(count).unwrap_or(0));
        let done = |shape, most, least| Some(Arc::new(Self::with(shape, nullable, most, least)));
        if is_set(schema, "x-kubernetes-int-or-string") {
            let most = count("maxLength").map_or(LARGEST_REQUEST - 2, |most| most.saturating_mul(4));
            return done(Shape::IntOrString, most, 1);
        }
        let kind = if is_resource { "object" } else { schema.get("type").and_then(Value::as_str).unwrap_or_default() };
        match kind {
            "array" => {
                let item = schema.get("items")?;
                let item = Self::read(item, is_set(item, "x-kubernetes-embedded-resource"), &format!("{name}.@idx"))?;
                let most = count("maxItems").unwrap_or((LARGEST_REQUEST - 2) / (item.least_bytes + 1));
                done(Shape::List { item, list: ListType::read(schema) }, most, 2)
            }
            "object" => match schema.get("additionalProperties").filter(|entries| entries.is_object()) {
                Some(entry) if !is_resource => {
                    let entry =
                        Self::read(entry, is_set(entry, "x-kubernetes-embedded-resource"), &format!("{name}.@elem"))?;
                    let most = count("maxProperties").unwrap_or((LARGEST_REQUEST - 2) / (entry.least_bytes + 6));
                    done(Shape::Map(entry), most, 2)
                }
                _ => {
                    let (object, least) = Object::read(schema, is_resource, name);
                    done(Shape::Object(Arc::new(object)), 0, least)
                }
            },
            "string" => {
                let (format, most, least) = Self::text(schema);
                done(Shape::String(format), most, least)
            }
            "boolean" => done(Shape::Bool, 0, 4),
            "number" => done(Shape::Double, 0, 1),
            "integer" => done(Shape::Int, 0, 1),
            _ => None,
        }
    }

    /// Returns the format of a text, its maximum length, and the minimum size of its JSON in bytes.
    fn text(schema: &Value) -> (Format, u64, u64) {
        let longest = schema.get("maxLength").and_then(Value::as_i64).map(|most| u64::try_from(most).unwrap_or(0));
        match schema.get("format").and_then(Value::as_str) {
            Some("byte") => (Format::Bytes, longest.unwrap_or(LARGEST_REQUEST - 2), 2),
            Some("duration") => (Format::Duration, 32, 3),
            Some("date") => (Format::Date, 12, 12),
            Some("date-time") => (Format::DateTime, 32, 21),
            _ => {
                let choices = schema.get("enum").and_then(Value::as_array).filter(|choices| !choices.is_empty());
                let chosen = choices.map(|all| all.iter().filter_map(Value::as_str).map(str::len).max().unwrap_or(0));
                // A character has up to four bytes.
                let longest = longest.map(|most| most.saturating_mul(4)).or(chosen.map(|most| most as u64));
                (Format::Text, longest.unwrap_or(LARGEST_REQUEST - 2), 2)
            }
        }
    }

    /// Returns the schema of a field by its JSON name, or of any item or entry.
    pub(crate) fn property(&self, name: &str) -> Option<&Arc<Self>> {
        match &self.shape {
            Shape::Object(object) => object.named(name),
            Shape::Map(entry) => Some(entry),
            _ => None,
        }
    }

    /// Returns the schema at a path of the estimator.
    pub(crate) fn at(&self, path: &[String]) -> Option<&Self> {
        path.iter().try_fold(self, |schema, step| match (&schema.shape, step.as_str()) {
            (Shape::List { item, .. }, "@items") => Some(&**item),
            (Shape::Map(entry), "@values") => Some(&**entry),
            (Shape::Object(object), name) => Some(&*object.fields.get(name)?.schema),
            _ => None,
        })
    }

    /// Returns the maximum number of such values in a request.
    pub(crate) fn most_copies(&self) -> u64 {
        LARGEST_REQUEST / (self.least_bytes + 1)
    }
}

impl ListType {
    fn read(schema: &Value) -> Self {
        match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
            Some("set") => Self::Set,
            Some("map") => {
                let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
                Self::Map(keys.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect())
            }
            _ => Self::Atomic,
        }
    }
}

impl Object {
    fn read(schema: &Value, is_resource: bool, name: &str) -> (Self, u64) {
        let text = serde_json::json!({"type": "string"});
        let meta = serde_json::json!({"type": "object", "properties": {"name": text, "generateName": text}});
        let implied = [("apiVersion", &text), ("kind", &text), ("metadata", &meta)];
        let declared = schema.get("properties").and_then(Value::as_object);
        let declared = declared.into_iter().flatten().map(|(name, schema)| (name.as_str(), schema));
        let is_implied = |name: &str| is_resource && implied.iter().any(|(other, _)| *other == name);
        let all = declared.filter(|(name, _)| !is_implied(name)).chain(implied.into_iter().filter(|_| is_resource));
        let required = schema.get("required").and_then(Value::as_array);
        let required: HashSet<&str> = required.into_iter().flatten().filter_map(Value::as_str).collect();
        let mut least = 2;
        let mut fields = BTreeMap::new();
        for (property, schema) in all {
            let embedded = is_set(schema, "x-kubernetes-embedded-resource");
            let Some(schema_of_field) = Schema::read(schema, embedded, &format!("{name}.{property}")) else { continue };
            if required.contains(property) && schema.get("default").is_none() {
                least += property.len() as u64 + schema_of_field.least_bytes + 4;
            }
            if let Some(escaped) = windlass_api::escape(property) {
                fields.insert(escaped, Field { name: property.to_owned(), schema: schema_of_field });
            }
        }
        (Self { name: name.to_owned(), fields }, least)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the field that an expression selects. A reserved word selects the field of that name, escaped or not.
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        let unescaped = || windlass_api::RESERVED.contains(&name).then(|| self.fields.get(&format!("__{name}__")));
        self.fields.get(name).or_else(|| unescaped().flatten())
    }

    /// Returns a field by its JSON name.
    pub(crate) fn named(&self, name: &str) -> Option<&Arc<Schema>> {
        let is_it = |field: &&Field| field.name == name;
        let as_is = self.fields.get(name).filter(is_it);
        as_is.or_else(|| self.fields.get(&windlass_api::escape(name)?).filter(is_it)).map(|field| &field.schema)
    }
}

fn is_set(schema: &Value, key: &str) -> bool {
    schema.get(key) == Some(&Value::Bool(true))
}
