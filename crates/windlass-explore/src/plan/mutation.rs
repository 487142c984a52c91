//! Mutations: changes of one field of a custom resource.

use std::fmt;

use serde_json::{Map, Value};

/// A change of one field of a custom resource.
///
/// A run with a mutation plays the steps, makes the change, and reverts it. A second run makes the change in the manifest
/// of the resource from the start.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mutation {
    /// The resource with its group, such as `websites.example.dev`.
    pub resource: String,
    /// Empty for objects without a namespace.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The names of the fields from the root of the object, and the indexes of list items.
    pub path: Vec<String>,
    /// The change of the field.
    pub edit: Edit,
}

/// The change of a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Edit {
    /// The field gets a value. It is added if it does not exist.
    Set(Json),
    /// The list gets one more item at its end.
    Append(Json),
    /// The field, the entry of a map or the item of a list is removed.
    Remove,
    /// The order of the list is reversed.
    Reverse,
}

/// A value as compact JSON.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Json(String);

impl Json {
    /// Returns the value.
    #[must_use]
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Self {
        Self(value.to_string())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Edit {
    /// Returns the name of the change, as in the text of a plan.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Set(_) => "set",
            Self::Append(_) => "append",
            Self::Remove => "remove",
            Self::Reverse => "reverse",
        }
    }
}

impl Mutation {
    /// Returns a description of the mutation for readers.
    #[must_use]
    pub fn explained(&self) -> String {
        let Self { resource, namespace, name, path, edit } = self;
        let namespace = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let (path, of) = (path.join("."), format!("{resource} {namespace}{name}"));
        match edit {
            Edit::Set(value) => format!("{path} of {of} is set to {value}, and then reverted"),
            Edit::Append(value) => format!("{path} of {of} gets the item {value}, and is then reverted"),
            Edit::Remove => format!("{path} of {of} is removed, and then restored"),
            Edit::Reverse => format!("the order of {path} of {of} is reversed, and then reverted"),
        }
    }

    /// Makes the change in an object. Objects above the field are created if they do not exist.
    pub(crate) fn apply(&self, object: &mut Value) -> Result<(), String> {
        let missing = || format!("{} does not exist", self.path.join("."));
        let Some((last, parents)) = self.path.split_last() else { return Err(missing()) };
        let creates = matches!(self.edit, Edit::Set(_));
        let parent = descend(object, parents, creates).ok_or_else(missing)?;
        match &self.edit {
            Edit::Set(value) => put(parent, last, value.value()).ok_or_else(missing),
            Edit::Append(item) => {
                child(parent, last).and_then(Value::as_array_mut).ok_or_else(missing)?.push(item.value());
                Ok(())
            }
            Edit::Remove => take(parent, last).map(drop).ok_or_else(missing),
            Edit::Reverse => {
                child(parent, last).and_then(Value::as_array_mut).ok_or_else(missing)?.reverse();
                Ok(())
            }
        }
    }

    /// Sets the field back to its value in an earlier state of the object. If the field is in a list, the list is set back.
    pub(crate) fn revert(&self, before: &Value, object: &mut Value) -> Result<(), String> {
        let path = self.restored(before);
        let missing = || format!("{} does not exist", path.join("."));
        let Some((last, parents)) = path.split_last() else { return Err(missing()) };
        if let Some(value) = lookup(before, path) {
            let parent = descend(object, parents, true).ok_or_else(missing)?;
            return put(parent, last, value.clone()).ok_or_else(missing);
        }
        // Nothing is to be removed if the program has removed it.
        if let Some(parent) = descend(object, parents, false) {
            take(parent, last);
        }
        Ok(())
    }

    /// Returns the path to the first list on the path, or to the first field that does not exist.
    fn restored(&self, before: &Value) -> &[String] {
        let at = (1..self.path.len()).find(|length| lookup(before, &self.path[..*length]).is_none_or(Value::is_array));
        &self.path[..at.unwrap_or(self.path.len())]
    }
}

/// Returns the value at a path.
fn lookup<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, name| match value {
        Value::Object(fields) => fields.get(name),
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        _ => None,
    })
}

fn descend<'v>(value: &'v mut Value, path: &[String], creates: bool) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |value, name| match value {
        Value::Object(fields) => {
            if creates && fields.get(name).is_none_or(Value::is_null) {
                fields.insert(name.clone(), Value::Object(Map::new()));
            }
            fields.get_mut(name)
        }
        Value::Array(items) => items.get_mut(name.parse::<usize>().ok()?),
        _ => None,
    })
}

fn child<'v>(value: &'v mut Value, name: &str) -> Option<&'v mut Value> {
    match value {
        Value::Object(fields) => fields.get_mut(name),
        Value::Array(items) => items.get_mut(name.parse::<usize>().ok()?),
        _ => None,
    }
}

fn put(parent: &mut Value, name: &str, value: Value) -> Option<()> {
    if let Value::Object(fields) = parent {
        fields.insert(name.to_owned(), value);
    } else {
        *child(parent, name)? = value;
    }
    Some(())
}

fn take(parent: &mut Value, name: &str) -> Option<Value> {
    match parent {
        Value::Object(fields) => fields.remove(name),
        Value::Array(items) => {
            let index = name.parse::<usize>().ok().filter(|index| *index < items.len())?;
            Some(items.remove(index))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mutation(path: &str, edit: Edit) -> Mutation {
        Mutation {
            resource: "sites.example.dev".to_owned(),
            namespace: "default".to_owned(),
            name: "a".to_owned(),
            path: path.split('.').map(str::to_owned).collect(),
            edit,
        }
    }

    fn set(value: &Value) -> Edit {
        Edit::Set(value.into())
    }

    /// Returns the object after the change, and checks that the reverted one is the first one again.
    fn changed(object: &Value, path: &str, edit: Edit) -> Value {
        let mutation = mutation(path, edit);
        let mut changed = object.clone();
        mutation.apply(&mut changed).unwrap();
        let mut reverted = changed.clone();
        mutation.revert(object, &mut reverted).unwrap();
        assert_eq!(reverted, *object, "{mutation:?}");
        changed
    }

    #[test]
    fn changes_are_made_and_reverted() {
        let object = json!({"spec": {"n": 1, "list": [1, 2], "items": [{"a": 1}], "map": {"x": "y"}}});
        let spec = |path: &str, edit: Edit| changed(&object, path, edit)["spec"].clone();
        assert_eq!(spec("spec.n", set(&json!(7)))["n"], 7);
        assert_eq!(spec("spec.new", set(&json!({"b": []})))["new"], json!({"b": []}));
        assert_eq!(spec("spec.new.deep", set(&json!(true)))["new"], json!({"deep": true}));
        assert_eq!(spec("spec.list.1", set(&json!(7)))["list"], json!([1, 7]));
        assert_eq!(spec("spec.list", Edit::Append((&json!(3)).into()))["list"], json!([1, 2, 3]));
        assert_eq!(spec("spec.list", Edit::Reverse)["list"], json!([2, 1]));
        assert_eq!(spec("spec.list.0", Edit::Remove)["list"], json!([2]));
        assert_eq!(spec("spec.items.0.a", Edit::Remove)["items"], json!([{}]));
        assert_eq!(spec("spec.map.x", Edit::Remove)["map"], json!({}));
    }

    #[test]
    fn other_fields_are_not_reverted() {
        let before = json!({"spec": {"n": 1}, "status": {"seen": 1}});
        let mutation = mutation("spec.n", set(&json!(2)));
        let mut object = json!({"spec": {"n": 2, "by": "program"}, "status": {"seen": 2}});
        mutation.revert(&before, &mut object).unwrap();
        assert_eq!(object, json!({"spec": {"n": 1, "by": "program"}, "status": {"seen": 2}}));
    }

    #[test]
    fn fields_that_do_not_exist_are_errors() {
        let error = |path: &str, edit: Edit| mutation(path, edit).apply(&mut json!({"a": [1], "b": 1})).unwrap_err();
        assert_eq!(error("c", Edit::Remove), "c does not exist");
        assert_eq!(error("a.1", Edit::Remove), "a.1 does not exist");
        assert_eq!(error("a.1", set(&json!(1))), "a.1 does not exist");
        assert_eq!(error("b.c", set(&json!(1))), "b.c does not exist");
        assert_eq!(error("b", Edit::Reverse), "b does not exist");
    }
}
