//! JSONPath in the dialect of kubectl and printer columns: `.spec.replicas`,
//! `.status.conditions[?(@.type=="Ready")].status`.
//!
//! Supported are fields (also quoted, `['a.b']`, and with escaped dots, `a\.b`), indices, slices, unions, wildcards,
//! recursive descent and comparing filters. A path may be enclosed in braces. Text around paths, and ranges, need a
//! [`JsonPathTemplate`].

mod template;

use serde_json::Value;

use crate::JsonType;

pub use template::JsonPathTemplate;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Wildcard,
    /// Recursive descent, including the value itself.
    Descend,
    Slice {
        start: Option<i64>,
        end: Option<i64>,
        step: i64,
    },
    Index(i64),
    Union(Vec<Self>),
    Filter {
        left: Operand,
        comparison: Option<(Comparison, Operand)>,
    },
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    /// A path relative to the filtered item.
    Path(JsonPath),
    Literal(Value),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The treatment of missing fields.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Missing {
    Allowed,
    Refused,
}

/// The error of an invalid path, or of a path without a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonPathError(String);

impl JsonPath {
    /// Parses a path. Braces around it and a leading `$` or `@` are optional.
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        let text = text.trim();
        let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
        let mut parser = Parser { rest: inner, whole: text };
        let steps = parser.steps()?;
        if parser.rest.is_empty() { Ok(Self(steps)) } else { Err(parser.error("unexpected text")) }
    }

    /// Returns all values at the path, in document order. Missing fields have no values.
    #[must_use]
    pub fn find<'v>(&self, root: &'v Value) -> Vec<&'v Value> {
        self.follow(root, Missing::Allowed).unwrap_or_default()
    }

    /// Returns all values at the path, in document order. Returns an error if a field is missing in all values on its
    /// path, or an index exceeds its list, as in kubectl with `--allow-missing-template-keys=false`.
    ///
    /// ```
    /// use serde_json::json;
    /// use windlass_api::JsonPath;
    ///
    /// let path = JsonPath::parse(".spec.replicas")?;
    /// assert_eq!(path.find_strictly(&json!({"spec": {"replicas": 3}}))?, [3]);
    /// let error = path.find_strictly(&json!({"spec": {}})).unwrap_err();
    /// assert_eq!(error.to_string(), "replicas is not found");
    /// # Ok::<_, windlass_api::JsonPathError>(())
    /// ```
    pub fn find_strictly<'v>(&self, root: &'v Value) -> Result<Vec<&'v Value>, JsonPathError> {
        self.follow(root, Missing::Refused)
    }

    fn follow<'v>(&self, root: &'v Value, missing: Missing) -> Result<Vec<&'v Value>, JsonPathError> {
        self.0.iter().try_fold(vec![root], |values, step| step.apply_to_all(&values, missing))
    }
}

impl Step {
    fn apply_to_all<'v>(&self, values: &[&'v Value], missing: Missing) -> Result<Vec<&'v Value>, JsonPathError> {
        let mut found = Vec::new();
        for value in values {
            self.apply(value, missing, &mut found)?;
        }
        match self {
            // At least one value must have the field: `.items[*].metadata.labels` is valid even if some items have no
            // labels.
            Self::Field(name) if missing == Missing::Refused && found.is_empty() && !values.is_empty() => {
                Err(JsonPathError(format!("{name} is not found")))
            }
            _ => Ok(found),
        }
    }

    fn apply<'v>(&self, value: &'v Value, missing: Missing, found: &mut Vec<&'v Value>) -> Result<(), JsonPathError> {
        match self {
            Self::Field(name) => found.extend(value.get(name)),
            Self::Wildcard => children(value, found),
            Self::Descend => {
                found.push(value);
                let mut below = Vec::new();
                children(value, &mut below);
                for child in below {
                    self.apply(child, missing, found)?;
                }
            }
            Self::Index(index) => {
                if let Some(items) = list(value, missing)? {
                    match position(*index, items.len()).and_then(|at| items.get(at)) {
                        None if missing == Missing::Refused => return Err(out_of_bounds(*index, items.len())),
                        item => found.extend(item),
                    }
                }
            }
            Self::Slice { start, end, step } => {
                if let Some(items) = list(value, missing)? {
                    if missing == Missing::Refused {
                        let beyond = |index: &i64| position(*index, items.len()).is_none_or(|at| at > items.len());
                        if let Some(index) = [start, end].into_iter().flatten().find(|index| beyond(index)) {
                            return Err(out_of_bounds(*index, items.len()));
                        }
                    }
                    let bound = |index: i64| position(index, items.len()).unwrap_or(0).min(items.len());
                    let (start, end) = (start.map_or(0, bound), end.map_or(items.len(), bound));
                    let step = usize::try_from(*step).unwrap_or(1).max(1);
                    found.extend(items.iter().take(end).skip(start).step_by(step));
                }
            }
            Self::Union(steps) => {
                for step in steps {
                    found.extend(step.apply_to_all(&[value], missing)?);
                }
            }
            Self::Filter { left, comparison } => {
                for item in list(value, missing)?.into_iter().flatten() {
                    if holds(item, left, comparison.as_ref(), missing)? {
                        found.push(item);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns the items of a list.
fn list(value: &Value, missing: Missing) -> Result<Option<&Vec<Value>>, JsonPathError> {
    match value {
        Value::Array(items) => Ok(Some(items)),
        Value::Null => Ok(None),
        _ if missing == Missing::Allowed => Ok(None),
        other => Err(JsonPathError(format!("{} is not an array", JsonType::of(other)))),
    }
}

fn out_of_bounds(index: i64, length: usize) -> JsonPathError {
    JsonPathError(format!("array index out of bounds: index {index}, length {length}"))
}

fn children<'v>(value: &'v Value, found: &mut Vec<&'v Value>) {
    match value {
        Value::Array(items) => found.extend(items),
        Value::Object(fields) => found.extend(fields.values()),
        _ => {}
    }
}

/// Resolves an index. A negative index counts from the end.
fn position(index: i64, length: usize) -> Option<usize> {
    let at = usize::try_from(index.unsigned_abs()).ok()?;
    if index < 0 { length.checked_sub(at) } else { Some(at) }
}

fn holds(
    item: &Value,
    left: &Operand,
    comparison: Option<&(Comparison, Operand)>,
    missing: Missing,
) -> Result<bool, JsonPathError> {
    // Without a comparison, the filter tests for existence, so a missing field is no error.
    let Some((comparison, right)) = comparison else {
        return Ok(left.value(item, Missing::Allowed)?.is_some());
    };
    let (Some(left), Some(right)) = (left.value(item, missing)?, right.value(item, missing)?) else {
        return Ok(false);
    };
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            _ => left.as_f64().partial_cmp(&right.as_f64()),
        },
        _ => None,
    };
    Ok(order.is_some_and(|order| match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    }))
}

impl Operand {
    fn value<'v>(&'v self, item: &'v Value, missing: Missing) -> Result<Option<&'v Value>, JsonPathError> {
        match self {
            Self::Path(path) => path.follow(item, missing).map(|values| values.first().copied()),
            Self::Literal(value) => Ok(Some(value)),
        }
    }
}

// === Parsing ===

struct Parser<'t> {
    rest: &'t str,
    whole: &'t str,
}

impl Parser<'_> {
    fn error(&self, what: &str) -> JsonPathError {
        let at = self.whole.len() - self.rest.len();
        JsonPathError(format!("{what} at character {at} of the path {:?}", self.whole))
    }

    fn eat(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, text: &str) -> Result<(), JsonPathError> {
        if self.eat(text) { Ok(()) } else { Err(self.error(&format!("expected {text}"))) }
    }

    fn spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn steps(&mut self) -> Result<Vec<Step>, JsonPathError> {
        let mut steps = Vec::new();
        let rooted = self.eat("$") || self.eat("@");
        if !rooted && !self.rest.is_empty() && !self.rest.starts_with(['.', '[']) {
            steps.push(self.field()?);
        }
        loop {
            if self.eat("..") {
                steps.push(Step::Descend);
                if !self.rest.starts_with(['.', '[']) && !self.rest.is_empty() {
                    steps.push(self.field()?);
                }
            } else if self.eat(".") {
                if self.rest.is_empty() || self.rest.starts_with('[') {
                    continue;
                }
                steps.push(self.field()?);
            } else if self.eat("[") {
                steps.push(self.bracket()?);
            } else {
                return Ok(steps);
            }
        }
    }

    fn field(&mut self) -> Result<Step, JsonPathError> {
        if self.eat("*") {
            return Ok(Step::Wildcard);
        }
        let mut name = String::new();
        let mut characters = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
                '.' | '[' | ']' | ')' | '=' | '!' | '<' | '>' | ' ' | '{' | '}' | ',' | '@' | '$' | '\'' | '"' => {
                    end = at;
                    break;
                }
                other => name.push(other),
            }
        }
        if name.is_empty() {
            return Err(self.error("expected a field"));
        }
        self.rest = &self.rest[end..];
        Ok(Step::Field(name))
    }

    /// Parses a bracketed step, including its closing bracket.
    fn bracket(&mut self) -> Result<Step, JsonPathError> {
        if self.eat("?(") {
            let filter = self.filter()?;
            self.expect(")")?;
            self.spaces();
            self.expect("]")?;
            return Ok(filter);
        }
        let mut steps = Vec::new();
        loop {
            self.spaces();
            steps.push(self.subscript()?);
            self.spaces();
            if self.eat("]") {
                break;
            }
            self.expect(",")?;
        }
        Ok(if steps.len() == 1 { steps.remove(0) } else { Step::Union(steps) })
    }

    fn subscript(&mut self) -> Result<Step, JsonPathError> {
        if self.eat("*") {
            return Ok(Step::Wildcard);
        }
        if self.rest.starts_with(['\'', '"']) {
            return Ok(Step::Field(self.quoted()?));
        }
        let start = self.integer()?;
        if !self.eat(":") {
            return start.map(Step::Index).ok_or_else(|| self.error("expected an index"));
        }
        let end = self.integer()?;
        let step = if self.eat(":") { self.integer()?.unwrap_or(1) } else { 1 };
        Ok(Step::Slice { start, end, step })
    }

    fn integer(&mut self) -> Result<Option<i64>, JsonPathError> {
        let end = self.rest.find(|c: char| c != '-' && !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        if digits.is_empty() {
            return Ok(None);
        }
        let number = digits.parse().map_err(|_| self.error("expected a number"))?;
        self.rest = rest;
        Ok(Some(number))
    }

    fn quoted(&mut self) -> Result<String, JsonPathError> {
        let quote = self.rest.chars().next().ok_or_else(|| self.error("expected a quote"))?;
        let mut text = String::new();
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => text.extend(characters.next().map(|(_, escaped)| escaped)),
                _ if character == quote => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(text);
                }
                other => text.push(other),
            }
        }
        Err(self.error("unterminated text"))
    }

    fn filter(&mut self) -> Result<Step, JsonPathError> {
        self.spaces();
        let left = self.operand()?;
        self.spaces();
        let comparison = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ]
        .into_iter()
        .find(|(text, _)| self.eat(text));
        let comparison = match comparison {
            None => None,
            Some((_, comparison)) => {
                self.spaces();
                let right = self.operand()?;
                self.spaces();
                Some((comparison, right))
            }
        };
        Ok(Step::Filter { left, comparison })
    }

    fn operand(&mut self) -> Result<Operand, JsonPathError> {
        if self.rest.starts_with(['\'', '"']) {
            return Ok(Operand::Literal(self.quoted()?.into()));
        }
        if self.rest.starts_with(['@', '$', '.']) {
            return Ok(Operand::Path(JsonPath(self.steps()?)));
        }
        let end = self.rest.find([')', ' ', '=', '!', '<', '>']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        let literal = match word {
            "true" | "false" => Value::Bool(word == "true"),
            _ => word.parse::<serde_json::Number>().map(Value::Number).map_err(|_| self.error("expected a value"))?,
        };
        self.rest = rest;
        Ok(Operand::Literal(literal))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(path: &str, value: &Value) -> Vec<Value> {
        JsonPath::parse(path).unwrap().find(value).into_iter().cloned().collect()
    }

    #[test]
    fn paths_find_the_values_that_kubectl_finds() {
        let value = json!({
            "spec": {"size": 3, "tags": ["a", "b", "c"], "a.b/c": "dotted"},
            "conditions": [{"type": "Ready", "status": "True", "n": 1}, {"type": "Other", "status": "False", "n": 2}],
        });
        for (path, expected) in [
            (".spec.size", json!([3])),
            ("{.spec.size}", json!([3])),
            ("$.spec.size", json!([3])),
            ("spec.size", json!([3])),
            (".spec.nothing.below", json!([])),
            (".spec.tags[*]", json!(["a", "b", "c"])),
            (".spec.tags[1]", json!(["b"])),
            (".spec.tags[-1]", json!(["c"])),
            (".spec.tags[9]", json!([])),
            (".spec.tags[0:2]", json!(["a", "b"])),
            (".spec.tags[0,2]", json!(["a", "c"])),
            (r".spec.a\.b/c", json!(["dotted"])),
            (".spec['a.b/c']", json!(["dotted"])),
            (r#".conditions[?(@.type=="Ready")].status"#, json!(["True"])),
            (".conditions[?(@.type != 'Ready')].status", json!(["False"])),
            (".conditions[?(@.n>1)].type", json!(["Other"])),
            (".conditions[?(@.nothing)].type", json!([])),
            ("..status", json!(["True", "False"])),
        ] {
            assert_eq!(Value::Array(found(path, &value)), expected, "{path}");
        }
    }

    #[test]
    fn missing_value_is_an_error_in_strict_mode() {
        let value = json!({"items": [{"name": "a", "n": 1}, {"name": "b"}], "none": null, "text": "t"});
        let strictly = |path: &str| {
            let found = JsonPath::parse(path).unwrap().find_strictly(&value);
            found.map(|values| values.len()).map_err(|error| error.to_string())
        };
        assert_eq!((strictly(".items[*].n"), strictly(".items[1:]"), strictly(".none[0]")), (Ok(1), Ok(1), Ok(0)));
        assert_eq!((strictly(".items[?(@.n)].name"), strictly(".items[*]['name','n']").is_err()), (Ok(1), true));
        for (path, message) in [
            (".spec", "spec is not found"),
            (".items[*].spec", "spec is not found"),
            (".text.more", "more is not found"),
            (".items[?(@.n==1)].name", "n is not found"),
            (".items[2]", "array index out of bounds: index 2, length 2"),
            (".items[-3]", "array index out of bounds: index -3, length 2"),
            (".items[0:3]", "array index out of bounds: index 3, length 2"),
            (".text[0]", "string is not an array"),
        ] {
            assert_eq!(strictly(path), Err(message.to_owned()), "{path}");
        }
    }

    #[test]
    fn a_path_that_cannot_be_read_is_named() {
        for path in [".spec[", ".spec[?(@.a=='x'", ".a[b]", ".a b"] {
            let error = JsonPath::parse(path).unwrap_err().to_string();
            assert!(error.contains(path), "{error}");
        }
    }
}
