//! Fields under validation: the path and the value together, so that a check names a field once.

use std::{fmt, ops::RangeBounds};

use serde_json::Value;

use super::{DuplicateCheck, Errors, FieldValue, Path, Tree, same};

/// A field of an object: its path, and its value if it has one. `null` counts as absent.
///
/// The methods that check or report take the [`Errors`] last. A field lives on the stack; its path is only formatted
/// for an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'f> {
    path: Path<'f>,
    value: Option<&'f Value>,
}

/// A simple rule for a field, for tables of rules. See [`Field::check`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    /// The field is set and not empty.
    Required,
    /// The number is at least 0. An absent number is valid.
    NotNegative,
    /// The number is in a range. An absent number is valid.
    Range(i64, i64),
    /// The text is one of these values, listed in the order of the real server. An absent or empty text is valid.
    OneOf(&'static [&'static str]),
    /// The text is one of these values. An absent or empty text is an error.
    RequiredOneOf(&'static [&'static str]),
}

impl<'f> Field<'f> {
    /// A whole object. Its path is empty.
    pub(crate) const fn object(object: &'f Value) -> Self {
        Self { path: Path::new(""), value: Some(object) }
    }

    /// A field that is not read from an object.
    pub(crate) fn new(path: Path<'f>, value: Option<&'f Value>) -> Self {
        Self { path, value: value.filter(|value| !value.is_null()) }
    }

    /// A field of this object. Dots in `name` separate the names of nested fields.
    pub(crate) fn child<'c>(&'c self, name: &'c str) -> Field<'c> {
        let value =
            self.value.and_then(|value| name.split('.').try_fold(value, |value, name| value.as_object()?.get(name)));
        Field::new(self.path.child(name), value)
    }

    /// An entry of this map.
    pub(crate) fn key<'c>(&'c self, key: &'c str) -> Field<'c> {
        Field::new(self.path.key(key), self.value.and_then(|value| value.as_object()?.get(key)))
    }

    /// The elements of this list.
    pub(crate) fn items(&self) -> impl DoubleEndedIterator<Item = Field<'_>> + ExactSizeIterator {
        let items = self.value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        items.iter().enumerate().map(|(index, item)| Field { path: self.path.index(index), value: Some(item) })
    }

    /// The keys and values of this map.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, Field<'_>)> {
        let entries = self.value.and_then(Value::as_object).into_iter().flatten();
        entries.map(|(key, value)| (key.as_str(), Field { path: self.path.key(key), value: Some(value) }))
    }

    /// Returns the path.
    pub(crate) const fn path(&self) -> &Path<'f> {
        &self.path
    }

    /// Returns the value.
    pub(crate) const fn value(&self) -> Option<&'f Value> {
        self.value
    }

    /// Returns the value; `null` if the field is absent.
    pub(crate) fn json(&self) -> &'f Value {
        self.value.unwrap_or(&Value::Null)
    }

    /// Returns the text; empty if there is none.
    pub(crate) fn text(&self) -> &'f str {
        self.value.and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the integer.
    pub(crate) fn int(&self) -> Option<i64> {
        self.value.and_then(Value::as_i64)
    }

    /// Returns `true` if the value is `true`.
    pub(crate) fn flag(&self) -> bool {
        self.value.and_then(Value::as_bool).unwrap_or_default()
    }

    /// Returns the number of elements of a list or entries of a map; 0 for other values.
    pub(crate) fn len(&self) -> usize {
        match self.value {
            Some(Value::Array(items)) => items.len(),
            Some(Value::Object(entries)) => entries.len(),
            _ => 0,
        }
    }

    /// Reports whether the field is present.
    pub(crate) const fn is_set(&self) -> bool {
        self.value.is_some()
    }

    /// Reports whether the field is absent, or an empty text, list or map.
    pub(crate) fn is_empty(&self) -> bool {
        match self.value {
            None => true,
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Array(_) | Value::Object(_)) => self.len() == 0,
            Some(_) => false,
        }
    }

    /// Reports whether the value is equivalent to that of another field: empty containers and absent values are equal.
    pub(crate) fn same(&self, other: &Field<'_>) -> bool {
        same(self.value, other.value)
    }

    /// Checks fields of this object by a table of rules, in the order of the table.
    pub(crate) fn check(&self, rules: &[(&str, Rule)], errors: &mut Errors) {
        for (name, rule) in rules {
            let field = self.child(name);
            match *rule {
                Rule::Required if field.is_empty() => field.required("", errors),
                Rule::NotNegative => field.not_negative(errors),
                Rule::Range(min, max) => field.in_range(min, max, errors),
                Rule::RequiredOneOf(_) if field.text().is_empty() => field.required("", errors),
                Rule::OneOf(values) | Rule::RequiredOneOf(values) => field.one_of(values, errors),
                Rule::Required => {}
            }
        }
    }

    /// Adds errors for fields of this object that differ from those of `old`.
    pub(crate) fn check_immutable(&self, old: &Field<'_>, names: &[&str], errors: &mut Errors) {
        for name in names {
            self.child(name).immutable(&old.child(name), errors);
        }
    }

    /// Adds errors for fields of this object that are negative numbers. Absent numbers are valid.
    pub(crate) fn check_not_negative(&self, names: &[&str], errors: &mut Errors) {
        for name in names {
            self.child(name).not_negative(errors);
        }
    }

    /// Adds an error if the number is negative. An absent number is valid.
    pub(crate) fn not_negative(&self, errors: &mut Errors) {
        errors.not_negative(&self.path, self.int());
    }

    /// Adds an error if the number is outside of a range. An absent number is valid.
    pub(crate) fn in_range(&self, min: i64, max: i64, errors: &mut Errors) {
        if let Some(number) = self.int().filter(|number| !(min..=max).contains(number)) {
            errors.invalid(&self.path, &number, &format!("must be between {min} and {max}, inclusive"));
        }
    }

    /// Adds an error unless the text is one of these values. An absent or empty text is valid.
    pub(crate) fn one_of(&self, values: &[&str], errors: &mut Errors) {
        let text = self.text();
        if !text.is_empty() && !values.contains(&text) {
            self.unsupported(values, errors);
        }
    }

    /// Adds errors unless the field has a text of this syntax.
    pub(crate) fn required_text(&self, syntax: impl FnOnce(&str) -> Vec<String>, errors: &mut Errors) {
        match self.text() {
            "" => self.required("", errors),
            text => self.invalid_each(syntax(text), errors),
        }
    }

    /// Adds errors if the field has a text that is not of this syntax. An absent or empty text is valid.
    pub(crate) fn optional_text(&self, syntax: impl FnOnce(&str) -> Vec<String>, errors: &mut Errors) {
        if !self.text().is_empty() {
            self.invalid_each(syntax(self.text()), errors);
        }
    }

    /// Adds errors unless the text, which may be absent or empty, is of this syntax.
    pub(crate) fn check_text(&self, syntax: impl FnOnce(&str) -> Vec<String>, errors: &mut Errors) {
        self.invalid_each(syntax(self.text()), errors);
    }

    /// Adds errors if the field is set and its text, which may be empty, is not of this syntax.
    pub(crate) fn check_set_text(&self, syntax: impl FnOnce(&str) -> Vec<String>, errors: &mut Errors) {
        if self.is_set() {
            self.check_text(syntax, errors);
        }
    }

    /// Adds an error if the text is longer than `max` bytes.
    pub(crate) fn check_bytes(&self, max: usize, errors: &mut Errors) {
        if self.text().len() > max {
            self.too_long(max, errors);
        }
    }

    /// Adds an error unless the text is one of these values. An absent or empty text is unsupported, too.
    pub(crate) fn supported(&self, values: &[&str], errors: &mut Errors) {
        if !values.contains(&self.text()) {
            self.unsupported(values, errors);
        }
    }

    /// Like [`Self::supported`], but an absent text is valid.
    pub(crate) fn supported_if_set(&self, values: &[&str], errors: &mut Errors) {
        if self.is_set() {
            self.supported(values, errors);
        }
    }

    /// Adds an error if the number is not in a range. An absent number is valid.
    pub(crate) fn check_int(&self, valid: impl RangeBounds<i64>, detail: impl fmt::Display, errors: &mut Errors) {
        if self.int().is_some_and(|number| !valid.contains(&number)) {
            self.invalid(&detail.to_string(), errors);
        }
    }

    /// Adds an error if the number is not in a range. An absent number counts as 0.
    pub(crate) fn check_count(&self, valid: impl RangeBounds<i64>, detail: impl fmt::Display, errors: &mut Errors) {
        let number = self.int().unwrap_or_default();
        if !valid.contains(&number) {
            self.invalid_as(&number, &detail.to_string(), errors);
        }
    }

    /// Adds a "Required value" error if the field is absent.
    pub(crate) fn check_set(&self, detail: impl fmt::Display, errors: &mut Errors) {
        if !self.is_set() {
            self.required(&detail.to_string(), errors);
        }
    }

    /// Adds a "Required value" error if the field is absent, or an empty text, list or map.
    pub(crate) fn check_not_empty(&self, detail: impl fmt::Display, errors: &mut Errors) {
        if self.is_empty() {
            self.required(&detail.to_string(), errors);
        }
    }

    /// Adds a "Forbidden" error if the field is present.
    pub(crate) fn check_unset(&self, detail: impl fmt::Display, errors: &mut Errors) {
        if self.is_set() {
            self.forbidden(&detail.to_string(), errors);
        }
    }

    /// Adds a "Forbidden" error unless the field is absent, or an empty text, list or map.
    pub(crate) fn check_empty(&self, detail: impl fmt::Display, errors: &mut Errors) {
        if !self.is_empty() {
            self.forbidden(&detail.to_string(), errors);
        }
    }

    /// Adds an error if an earlier element of this element's list has the same value.
    fn check_unique(&self, seen: &mut DuplicateCheck<&'f Value>, errors: &mut Errors) {
        if seen.repeats(self.json()) {
            self.duplicate(errors);
        }
    }

    /// Adds an error if an earlier element of this element's list has the same text in the field `name`.
    pub(crate) fn check_unique_by(&self, name: &str, seen: &mut DuplicateCheck<&'f str>, errors: &mut Errors) {
        let text = self.json().text(&[name]);
        if seen.repeats(text) {
            errors.duplicate(&self.path.child(name), text);
        }
    }

    /// Runs a check if the field is present.
    pub(crate) fn if_set(&self, check: impl FnOnce(&Field<'_>, &mut Errors), errors: &mut Errors) {
        if self.is_set() {
            check(self, errors);
        }
    }

    /// Runs a check on each element of this list.
    pub(crate) fn each(&self, mut check: impl FnMut(&Field<'_>, &mut Errors), errors: &mut Errors) {
        for item in self.items() {
            check(&item, errors);
        }
    }

    /// Runs a check on each element of this list. Adds an error for each value that repeats an earlier one.
    pub(crate) fn each_unique(&self, mut check: impl FnMut(&Field<'_>, &mut Errors), errors: &mut Errors) {
        let mut seen = DuplicateCheck::default();
        for item in self.items() {
            check(&item, errors);
            item.check_unique(&mut seen, errors);
        }
    }

    /// Adds an error if the value differs from that of `old`.
    pub(crate) fn immutable(&self, old: &Field<'_>, errors: &mut Errors) {
        errors.immutable(&self.path, self.value, old.value);
    }

    /// Adds a "Required value" error.
    pub(crate) fn required(&self, detail: &str, errors: &mut Errors) {
        errors.required(&self.path, detail);
    }

    /// Adds an "Invalid value" error that shows the value. An absent value is shown as `null`.
    pub(crate) fn invalid(&self, detail: &str, errors: &mut Errors) {
        errors.invalid(&self.path, self.json(), detail);
    }

    /// Adds an "Invalid value" error that shows another form of the value, for example the text `""` of an absent
    /// field.
    pub(crate) fn invalid_as(&self, shown: &(impl FieldValue + ?Sized), detail: &str, errors: &mut Errors) {
        errors.invalid(&self.path, shown, detail);
    }

    /// Adds one "Invalid value" error per detail. The text is shown.
    pub(crate) fn invalid_each(&self, details: Vec<String>, errors: &mut Errors) {
        errors.invalid_each(&self.path, self.text(), details);
    }

    /// Adds an "Unsupported value" error that shows the text. `supported` is in the order of the real server.
    pub(crate) fn unsupported(&self, supported: &[&str], errors: &mut Errors) {
        errors.unsupported(&self.path, self.text(), supported);
    }

    /// Adds a "Forbidden" error, for a field that must be absent or must not change.
    pub(crate) fn forbidden(&self, detail: &str, errors: &mut Errors) {
        errors.forbidden(&self.path, detail);
    }

    /// Adds a "Duplicate value" error that shows the value.
    pub(crate) fn duplicate(&self, errors: &mut Errors) {
        errors.duplicate(&self.path, self.json());
    }

    /// Adds a "Not found" error that shows the value, for a reference to a missing object.
    pub(crate) fn not_found(&self, errors: &mut Errors) {
        errors.not_found(&self.path, self.json());
    }

    /// Adds a "Too long" error.
    pub(crate) fn too_long(&self, max: usize, errors: &mut Errors) {
        errors.too_long(&self.path, max);
    }

    /// Adds a "Too many" error if the list or map has more than `max` elements. Returns `true` if it has.
    pub(crate) fn at_most(&self, max: usize, errors: &mut Errors) -> bool {
        let too_many = self.len() > max;
        if too_many {
            errors.too_many(&self.path, self.len(), max);
        }
        too_many
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_api::GroupKind;

    use super::*;
    use crate::object::dns_label;

    fn messages(errors: Errors) -> Vec<String> {
        let causes = errors.into_causes().into_iter();
        causes.map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn field_reads_values_at_paths() {
        let object = json!({"spec": {"ports": [{"name": "a"}, {"name": "b"}], "labels": {"x.y/z": "1"}, "none": null}});
        let object = Field::object(&object);
        let spec = object.child("spec");
        let ports = spec.child("ports");
        let names: Vec<_> = ports.items().map(|port| (port.child("name").path().to_string(), port.len())).collect();
        assert_eq!(names, [("spec.ports[0].name".to_owned(), 1), ("spec.ports[1].name".to_owned(), 1)]);
        assert_eq!(object.child("spec.labels").key("x.y/z").text(), "1");
        assert_eq!(object.child("spec.labels").key("x.y/z").path().to_string(), "spec.labels[x.y/z]");
        assert!(!spec.child("none").is_set() && spec.child("missing.deeper").is_empty());
        assert_eq!(
            spec.child("labels").entries().map(|(key, field)| (key, field.text())).collect::<Vec<_>>(),
            [("x.y/z", "1")]
        );
    }

    #[test]
    fn check_reports_violations_in_table_order() {
        let object = json!({"count": -1, "share": 101, "policy": "Maybe", "mode": "", "kept": "b"});
        let old = json!({"kept": "a"});
        let (object, old) = (Field::object(&object), Field::object(&old));
        let mut errors = Errors::default();
        let rules = [
            ("name", Rule::Required),
            ("count", Rule::NotNegative),
            ("share", Rule::Range(0, 100)),
            ("policy", Rule::OneOf(&["Always", "Never"])),
            ("mode", Rule::RequiredOneOf(&["A"])),
            ("absent", Rule::OneOf(&["A"])),
        ];
        object.check(&rules, &mut errors);
        for name in ["policy", "mode"] {
            object.child(name).required_text(dns_label, &mut errors);
            object.child(name).optional_text(|text| vec![format!("{text} is wrong")], &mut errors);
        }
        object.check_immutable(&old, &["kept", "absent"], &mut errors);
        assert!(errors.clone().check(&GroupKind::new("", "Thing"), "t").is_err());
        assert_eq!(
            messages(errors),
            [
                "name: Required value",
                "count: Invalid value: -1: must be greater than or equal to 0",
                "share: Invalid value: 101: must be between 0 and 100, inclusive",
                "policy: Unsupported value: \"Maybe\": supported values: \"Always\", \"Never\"",
                "mode: Required value",
                "policy: Invalid value: \"Maybe\": a lowercase RFC 1123 label must consist of lower case alphanumeric \
                 characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or \
                 '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                "policy: Invalid value: \"Maybe\": Maybe is wrong",
                "mode: Required value",
                "kept: Invalid value: \"b\": field is immutable",
            ]
        );
    }

    #[test]
    fn checks_report_only_fields_that_violate_them() {
        let object =
            json!({"empty": "", "text": "a", "number": 5, "list": ["a", "b", "a"], "items": [{"n": "x"}, {"n": "x"}]});
        let object = Field::object(&object);
        let (empty, text, number, absent) =
            (object.child("empty"), object.child("text"), object.child("number"), object.child("absent"));
        let mut errors = Errors::default();
        text.check_not_empty("no error", &mut errors);
        empty.check_not_empty("detail", &mut errors);
        empty.check_set("no error", &mut errors);
        absent.check_set("", &mut errors);
        absent.check_unset("no error", &mut errors);
        empty.check_unset("unset", &mut errors);
        empty.check_empty("no error", &mut errors);
        text.check_empty("empty", &mut errors);
        number.check_int(..=4, format_args!("at most {}", 4), &mut errors);
        absent.check_int(1.., "no error", &mut errors);
        absent.check_count(1.., "at least 1", &mut errors);
        absent.supported(&["a"], &mut errors);
        absent.supported_if_set(&["a"], &mut errors);
        empty.supported_if_set(&["a"], &mut errors);
        text.check_bytes(0, &mut errors);
        let wrong = |text: &str| vec![format!("{text:?} is wrong")];
        absent.check_text(wrong, &mut errors);
        absent.check_set_text(wrong, &mut errors);
        empty.check_set_text(wrong, &mut errors);
        object.check_not_negative(&["number", "absent"], &mut errors);
        object.child("list").each_unique(|item, errors| item.supported(&["a"], errors), &mut errors);
        let (items, mut seen) = (object.child("items"), DuplicateCheck::default());
        for item in items.items() {
            item.check_unique_by("n", &mut seen, &mut errors);
        }
        assert_eq!(
            messages(errors),
            [
                "empty: Required value: detail",
                "absent: Required value",
                "empty: Forbidden: unset",
                "text: Forbidden: empty",
                "number: Invalid value: 5: at most 4",
                "absent: Invalid value: 0: at least 1",
                "absent: Unsupported value: \"\": supported values: \"a\"",
                "empty: Unsupported value: \"\": supported values: \"a\"",
                "text: Too long: may not be more than 0 bytes",
                "absent: Invalid value: \"\": \"\" is wrong",
                "empty: Invalid value: \"\": \"\" is wrong",
                "list[1]: Unsupported value: \"b\": supported values: \"a\"",
                "list[2]: Duplicate value: \"a\"",
                "items[1].n: Duplicate value: \"x\"",
            ]
        );
    }
}
