//! Paths in JSON documents: `items[0].metadata.name`, `conditions[type=Ready].status`, `groups[*].name`,
//! `annotations[example.com/a]`.

use serde_json::Value;

/// A path from the root to one or several values.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    Field(String),
    Index(usize),
    Where(String, String),
    Each,
}

impl Path {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix('[') {
                let (inside, after) = inner.split_once(']').ok_or_else(|| format!("no end of [ in {text}"))?;
                parts.push(match (inside, inside.split_once('=')) {
                    ("*", _) => Part::Each,
                    (_, Some((key, value))) => Part::Where(key.to_owned(), value.to_owned()),
                    (index, None) => index.parse().map_or_else(|_| Part::Field(index.to_owned()), Part::Index),
                });
                rest = after.strip_prefix('.').unwrap_or(after);
            } else {
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                parts.push(Part::Field(rest[..end].to_owned()));
                rest = rest[end..].strip_prefix('.').unwrap_or(&rest[end..]);
            }
        }
        Ok(Self { text: text.to_owned(), parts })
    }

    /// Returns the source text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the path with all placeholders of its filters filled in.
    pub(crate) fn filled(&self, fill: impl Fn(&str) -> String) -> Self {
        let filled = |part: &Part| match part {
            Part::Where(key, wanted) => Part::Where(key.clone(), fill(wanted)),
            part => part.clone(),
        };
        Self { text: self.text.clone(), parts: self.parts.iter().map(filled).collect() }
    }

    /// Returns the values at the path: one value, or any number with `[*]`.
    pub(crate) fn find<'a>(&self, root: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![root];
        for part in &self.parts {
            found = found.into_iter().flat_map(|value| part.inside(value)).collect();
        }
        found
    }

    /// Replaces the values at the path, if there are any.
    pub(crate) fn replace(&self, root: &mut Value, with: &Value) {
        replace(&self.parts, root, with);
    }

    /// Reports whether the path can match several values.
    pub(crate) fn is_many(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Each))
    }
}

impl Part {
    fn inside<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Index(index) => value.get(index).into_iter().collect(),
            Self::Where(..) => {
                value.as_array().into_iter().flatten().find(|item| self.admits(item)).into_iter().collect()
            }
            Self::Each => value.as_array().into_iter().flatten().collect(),
        }
    }

    /// Reports whether the item matches the filter.
    fn admits(&self, item: &Value) -> bool {
        match self {
            Self::Where(key, wanted) => {
                key.split('.').try_fold(item, |at, name| at.get(name)).is_some_and(|at| is(at, wanted))
            }
            _ => true,
        }
    }
}

fn replace(parts: &[Part], value: &mut Value, with: &Value) {
    let Some((part, rest)) = parts.split_first() else {
        *value = with.clone();
        return;
    };
    match part {
        Part::Field(name) => {
            if let Some(inner) = value.get_mut(name) {
                replace(rest, inner, with);
            }
        }
        Part::Index(index) => {
            if let Some(inner) = value.get_mut(index) {
                replace(rest, inner, with);
            }
        }
        Part::Where(..) | Part::Each => {
            let items = value.as_array_mut().into_iter().flatten();
            items.filter(|item| part.admits(item)).for_each(|item| replace(rest, item, with));
        }
    }
}

/// Reports whether a value equals the text of a case.
pub(crate) fn is(value: &Value, text: &str) -> bool {
    value.as_str().map_or_else(|| *value.to_string() == *text, |value| value == text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_finds_fields_items_and_filtered_items() {
        let mut root = json!({"a": [{"n": "x", "v": 1}, {"n": "y", "v": {"p.q/r": true}}]});
        let find =
            |path: &str, root: &Value| Path::parse(path).unwrap().find(root).into_iter().cloned().collect::<Vec<_>>();
        assert_eq!(find("a[0].v", &root), [json!(1)]);
        assert_eq!(find("a[n=y].v[p.q/r]", &root), [json!(true)]);
        assert_eq!(find("a[*].n", &root), [json!("x"), json!("y")]);
        assert!(find("a[n=z].v", &root).is_empty());
        Path::parse("a[n=x].v").unwrap().replace(&mut root, &json!("hidden"));
        assert_eq!(find("a[0].v", &root), [json!("hidden")]);
        assert!(Path::parse("a[0").is_err());
    }
}
