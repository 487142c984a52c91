//! YAML files with CustomResourceDefinitions (CRDs), and the import of a CRD.

use serde_json::{Map, Value};
use windlass_derive_model::plural_of;

use crate::{Difference, Error, Module, differences, keywords::text, model, names, normal, source, type_set};

/// A CRD and its place in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    file: String,
    /// The number of the document, starting at 1.
    number: usize,
    definition: Value,
}

/// The result of importing a CRD.
#[derive(Clone, Debug)]
pub struct Imported {
    /// A module for each version.
    pub modules: Vec<Module>,
    /// The CRD that the generated types define.
    pub definition: Value,
    /// The differences from the original CRD.
    pub differences: Vec<Difference>,
}

/// Reads the CRDs in a text: YAML or JSON documents, and the items of lists in them. Other objects are ignored.
pub fn read(file: &str, text: &str) -> Result<Vec<Document>, Error> {
    let options = serde_saphyr::options! { strict_booleans: true, budget: None };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options)
        .map_err(|error| Error::Yaml { file: file.to_owned(), why: error.to_string() })?;
    let mut found = Vec::new();
    for (index, document) in documents.into_iter().enumerate() {
        let (items, path) = match document.get("items").and_then(Value::as_array) {
            Some(items) if document["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) => {
                (items.clone(), "items")
            }
            _ => (vec![document], ""),
        };
        for definition in items.into_iter().filter(|item| item["kind"] == "CustomResourceDefinition") {
            let document = Document { file: file.to_owned(), number: index + 1, definition };
            if document.definition["apiVersion"] != "apiextensions.k8s.io/v1" {
                let path = [path, "apiVersion"].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>();
                return Err(document.wrong(&path.join("[]."), "only apiextensions.k8s.io/v1 is read"));
            }
            found.push(document);
        }
    }
    Ok(found)
}

impl Document {
    /// Returns the full name: `websites.shop.example.com`.
    pub fn name(&self) -> &str {
        self.definition["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Returns the file that contained the CRD.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the original CRD.
    pub const fn value(&self) -> &Value {
        &self.definition
    }

    /// Returns the names of the versions.
    pub fn versions(&self) -> Vec<&str> {
        let versions = self.definition["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
        versions.iter().filter_map(|version| version["name"].as_str()).collect()
    }

    fn wrong(&self, path: &str, why: &str) -> Error {
        Error::Definition { file: self.file.clone(), document: self.number, path: path.to_owned(), why: why.to_owned() }
    }

    /// Generates the types of all versions or of one, and compares their CRD with the original.
    pub fn import(&self, only: Option<&str>) -> Result<Imported, Error> {
        let versions = self.definition["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
        if versions.is_empty() {
            return Err(self.wrong("spec.versions", "the CRD has no versions"));
        }
        let wanted = |version: &Value| only.is_none_or(|only| version["name"] == only);
        let count = versions.iter().filter(|version| wanted(version)).count();
        let mut modules = Vec::new();
        for (index, version) in versions.iter().enumerate().filter(|(_, version)| wanted(version)) {
            modules.push(self.module(index, version, count)?);
        }
        if modules.is_empty() {
            return Err(self.wrong("spec.versions", &format!("there is no version {}", only.unwrap_or_default())));
        }
        let of_module = |module: &Module| model::definition(&module.text);
        let declared = modules.iter().map(of_module).collect::<Result<Vec<_>, _>>()?;
        let definition = model::merged(declared)?;
        let differences = differences(&normal::only(&self.definition, only), &definition);
        Ok(Imported { modules, definition, differences })
    }

    fn text<'d>(&'d self, value: &'d Value, path: &str) -> Result<&'d str, Error> {
        value.as_str().filter(|text| !text.is_empty()).ok_or_else(|| self.wrong(path, "expected a text"))
    }

    fn module(&self, index: usize, version: &Value, count: usize) -> Result<Module, Error> {
        let spec = &self.definition["spec"];
        let place = format!("spec.versions[{index}]");
        let at = |path: &str| format!("{place}.{path}");
        let (group, kind) =
            (self.text(&spec["group"], "spec.group")?, self.text(&spec["names"]["kind"], "spec.names.kind")?);
        let name = self.text(&version["name"], &at("name"))?;
        if syn::parse_str::<syn::Ident>(kind).is_err() {
            return Err(self.wrong("spec.names.kind", &format!("{kind:?} is not a valid type name")));
        }
        if syn::parse_str::<syn::Ident>(name).is_err() {
            return Err(self.wrong(&at("name"), &format!("{name:?} is not a valid module name")));
        }
        let empty = Map::from_iter([("type".to_owned(), Value::from("object"))]);
        let schema = version["schema"]["openAPIV3Schema"].as_object().unwrap_or(&empty);
        let set = type_set::build(kind, schema)
            .map_err(|(path, why)| self.wrong(&format!("{}{path}", at("schema.openAPIV3Schema")), &why))?;
        let ty = match set.types.first() {
            Some(type_set::Type::Struct(root)) => root.name.clone(),
            _ => kind.to_owned(),
        };
        let resource = self.resource(version, &ty, count, &place)?;
        let comment = format!("{kind} in version {name} of {group}.");
        let text = source::module(&comment, &resource, &set);
        Ok(Module {
            group: group.to_owned(),
            version: name.to_owned(),
            kind: kind.to_owned(),
            name: names::escaped_module(kind),
            ty,
            text,
        })
    }

    /// Returns the arguments of `#[resource(…)]`.
    fn resource(&self, version: &Value, ty: &str, count: usize, place: &str) -> Result<Vec<String>, Error> {
        let spec = &self.definition["spec"];
        let given = &spec["names"];
        let kind = given["kind"].as_str().unwrap_or_default();
        let plural = self.text(&given["plural"], "spec.names.plural")?;
        let pair = |word: &str, value: &str| format!("{word} = {}", text(value));
        let list = |word: &str, values: &Value| {
            let values = values.as_array()?.iter().filter_map(Value::as_str).map(text).collect::<Vec<_>>();
            (!values.is_empty()).then(|| format!("{word}({})", values.join(", ")))
        };
        let unless = |word: &str, value: &Value, usual: &str| {
            value.as_str().filter(|value| *value != usual && !value.is_empty()).map(|value| pair(word, value))
        };
        let mut words = vec![
            pair("group", spec["group"].as_str().unwrap_or_default()),
            pair("version", version["name"].as_str().unwrap_or_default()),
        ];
        words.extend((ty != kind).then(|| pair("kind", kind)));
        words.extend((plural != plural_of(kind)).then(|| pair("plural", plural)));
        words.extend(unless("singular", &given["singular"], &kind.to_lowercase()));
        words.extend(unless("list_kind", &given["listKind"], &format!("{kind}List")));
        words.extend(unless("scope", &spec["scope"], "Namespaced"));
        words.extend(list("short_names", &given["shortNames"]));
        words.extend(list("categories", &given["categories"]));
        let is_stored = version["storage"] == true;
        words.extend((is_stored && count > 1).then(|| "storage".to_owned()));
        words.extend((version["served"] == false).then(|| "served = false".to_owned()));
        if version["deprecated"] == true {
            let warning = version["deprecationWarning"].as_str().filter(|warning| !warning.is_empty());
            words.push(warning.map_or_else(|| "deprecated".to_owned(), |warning| pair("deprecated", warning)));
        }
        let subresources = &version["subresources"];
        words.extend((!subresources["status"].is_null()).then(|| "status".to_owned()));
        if let Some(scale) = subresources["scale"].as_object() {
            let names =
                [("specReplicasPath", "spec"), ("statusReplicasPath", "status"), ("labelSelectorPath", "selector")];
            let parts = names.iter().filter_map(|(key, word)| Some(pair(word, scale.get(*key)?.as_str()?)));
            words.push(format!("scale({})", parts.collect::<Vec<_>>().join(", ")));
        }
        for (index, column) in version["additionalPrinterColumns"].as_array().into_iter().flatten().enumerate() {
            let names = [
                ("name", "name"),
                ("type", "type"),
                ("jsonPath", "path"),
                ("format", "format"),
                ("description", "description"),
            ];
            let path = column["jsonPath"].as_str().unwrap_or_default();
            if !path.starts_with('.') {
                let place = format!("{place}.additionalPrinterColumns[{index}].jsonPath");
                return Err(self.wrong(&place, &format!("{path:?}: a path begins with a dot")));
            }
            let mut parts =
                names.iter().filter_map(|(key, word)| Some(pair(word, column[*key].as_str()?))).collect::<Vec<_>>();
            parts.extend(column["priority"].as_i64().filter(|it| *it != 0).map(|it| format!("priority = {it}")));
            words.push(format!("column({})", parts.join(", ")));
        }
        let selectable = version["selectableFields"].as_array().into_iter().flatten();
        let selectable = selectable.map(|field| field["jsonPath"].clone()).collect::<Vec<_>>();
        words.extend(list("selectable", &Value::Array(selectable)));
        // Only one version has the arguments for the whole CRD.
        if is_stored || count == 1 {
            for key in ["labels", "annotations"] {
                let pairs = normal::own_pairs(&self.definition["metadata"][key]);
                let pairs = pairs.iter().map(|(key, value)| format!("{} = {}", text(key), text(value)));
                let pairs = pairs.collect::<Vec<_>>();
                words.extend((!pairs.is_empty()).then(|| format!("{key}({})", pairs.join(", "))));
            }
        }
        Ok(words)
    }
}
