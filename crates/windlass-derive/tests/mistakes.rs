//! Compile errors of the macros: their messages and positions.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::{
    env, fs,
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
};

/// The source, and the compiler's errors: `line:column: error: message`.
const MISTAKES: &[(&str, &str)] = &[
    (
        "#[resource(version = \"v1\")]\nstruct Site { metadata: () }",
        "4:8: error: the group of the kind is missing: #[resource(group = \"example.com\", version = \"v1\")]",
    ),
    (
        "#[resource(group = \"x.io\")]\nstruct Site { metadata: () }",
        "4:8: error: the version of the kind is missing: #[resource(group = \"example.com\", version = \"v1\")]",
    ),
    (
        "#[resource(group = \"x.io\", version = \"V1\")]\nstruct Site { metadata: () }",
        "3:38: error: \"V1\" is not a valid name: names consist of lower-case letters, digits and '-', and begin \
         and end with a letter or digit",
    ),
    (
        "#[resource(group = \"x.io\", version = \"v1\", group = \"y.io\")]\nstruct Site { metadata: () }",
        "3:44: error: given twice",
    ),
    (
        "#[resource(group = \"x.io\", version = \"v1\", scope = \"Galaxy\")]\nstruct Site { metadata: () }",
        "3:52: error: the scope is \"Namespaced\" or \"Cluster\"",
    ),
    (
        "#[resource(group = \"x.io\", version = \"v1\", color = \"red\")]\nstruct Site { metadata: () }",
        "3:44: error: expected group, version, kind, plural, scope, short_names, verbs, client, k8s_openapi or crate",
    ),
    (
        "#[resource(group = \"x.io\", version = \"v1\", verbs(\"fetch\"))]\nstruct Site { metadata: () }",
        "3:50: error: unknown verb \"fetch\": expected one of get, list, watch, create, update, patch, delete, \
         delete_collection, status, scale",
    ),
    (
        "#[resource(group = \"x.io\", version = \"v1\")]\nstruct Site { name: () }",
        "4:8: error: missing metadata: add a field `metadata: ObjectMeta`",
    ),
    ("#[resource(group = \"x.io\", version = \"v1\")]\nenum Site { A }", "4:6: error: a kind must be a struct"),
    (
        "#[resource(group = \"x.io\", version = \"v1\")]\nstruct Site<T> { metadata: T }",
        "4:12: error: a kind cannot have type parameters",
    ),
];

/// The same for `#[derive(CustomResource)]`, in `#[resource(group = "x.io", version = "v1", …)]`.
const MISTAKES_OF_DEFINITIONS: &[(&str, &str)] = &[
    (
        "color = \"red\"",
        "3:44: error: expected group, version, kind, plural, scope, short_names, verbs, client, k8s_openapi, crate, singular, \
        list_kind, categories, storage, served, deprecated, status, scale, column, selectable, labels or annotations",
    ),
    ("categories(\"All\")", "3:55: error: a category is one lower-case word"),
    (
        "scale(spec = \".spec.replicas\")",
        "3:44: error: expected scale(spec = \".spec.replicas\", status = \".status.replicas\"), optionally with a selector",
    ),
    ("scale(specs = \".spec.replicas\")", "3:50: error: expected spec, status, selector"),
    (
        "column(name = \"A\", path = \".a\")",
        "3:44: error: expected column(name = \"Replicas\", type = \"integer\", path = \".spec.replicas\")",
    ),
    (
        "column(name = \"A\", type = \"text\", path = \".a\")",
        "3:70: error: the type of a column is one of boolean, date, integer, number, string",
    ),
    ("column(name = \"A\", width = 1)", "3:63: error: expected name, type, path, format, description, priority"),
    ("selectable(\"spec.color\")", "3:55: error: a path must start with a dot: \".spec.replicas\""),
];

/// A complete source with `#[derive(CustomResource)]`.
const OF_NO_GROUP: (&str, &str) = (
    "#[resource(group = \"\", version = \"v1\")]\nstruct Site { metadata: () }",
    "4:8: error: a custom resource needs a group: the core group is reserved",
);

/// The same for `#[derive(Schema)]`.
const MISTAKES_OF_SCHEMAS: &[(&str, &str)] = &[
    ("struct A { #[schema(minimum = \"1\")] a: i32 }", "3:31: error: expected a number"),
    (
        "struct A { #[schema(minimum = 2, maximum = 1)] a: i32 }",
        "3:34: error: maximum is less than minimum: no value satisfies both",
    ),
    (
        "struct A { #[schema(exclusive_minimum = 2, maximum = 1)] a: i32 }",
        "3:44: error: maximum is less than minimum: no value satisfies both",
    ),
    ("struct A { #[schema(min_length = 1.5)] a: String }", "3:34: error: expected a whole number that is not negative"),
    ("struct A { #[schema(max_items = -1)] a: Vec<i32> }", "3:33: error: expected a whole number that is not negative"),
    ("struct A { #[schema(nullable, nullable)] a: i32 }", "3:31: error: given twice"),
    (
        "struct A { #[schema(type = \"text\")] a: i32 }",
        "3:28: error: expected one of \"array\", \"boolean\", \"integer\", \
        \"number\", \"object\", \"string\"",
    ),
    (
        "struct A { #[schema(list_type = \"bag\")] a: Vec<i32> }",
        "3:33: error: expected one of \"atomic\", \"map\", \"set\"",
    ),
    (
        "struct A { #[schema(list_type = \"map\")] a: Vec<i32> }",
        "3:33: error: a list of type \"map\" needs keys: map_keys(\"name\")",
    ),
    ("struct A { #[schema(map_keys(\"name\"))] a: Vec<i32> }", "3:21: error: map_keys requires list_type = \"map\""),
    ("struct A { #[schema(map_keys())] a: Vec<i32> }", "3:21: error: the list is empty"),
    ("struct A { #[schema(enum())] a: i32 }", "3:21: error: expected at least one value"),
    ("struct A { #[schema(any_of())] a: i32 }", "3:21: error: expected at least one value"),
    ("struct A { #[schema(default = )] a: i32 }", "3:31: error: unexpected end of input, expected a value"),
    ("struct A { #[schema(optional, required)] a: i32 }", "3:31: error: a field is optional or required, not both"),
    (
        "struct A { #[schema(at_most_one_of(\"b\"))] a: i32 }",
        "3:21: error: `at_most_one_of` is only valid for types: it names their fields",
    ),
    ("struct A { #[schema(crate = x)] a: i32 }", "3:21: error: `crate` is only valid for types"),
    ("#[schema(optional)] struct A { a: i32 }", "3:10: error: `optional` is only valid for fields"),
    ("#[schema(exactly_one_of(\"a\", \"b\"))] struct A { a: i32 }", "3:30: error: no field is serialized as \"b\""),
    ("struct A { #[schema(rule(message = \"no\"))] a: i32 }", "3:21: error: the rule is missing: rule(rule = \"…\")"),
    ("struct A { #[schema(rule(rule = \" \"))] a: i32 }", "3:33: error: the text is empty"),
    (
        "struct A { #[schema(rule(rule = \"true\", reason = \"Bad\"))] a: i32 }",
        "3:50: error: expected one of \
        \"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\"",
    ),
    (
        "struct A { #[schema(rule(text = \"true\"))] a: i32 }",
        "3:26: error: expected one of rule, message, message_expression, \
        reason, field_path, optional_old_self",
    ),
    ("struct A { #[schema(external_docs(link = \"x\"))] a: i32 }", "3:35: error: expected url or description"),
    ("struct A { #[schema(items(skip))] a: Vec<i32> }", "3:27: error: `skip` is only valid for fields"),
    (
        "struct A { #[schema(color = 1)] a: i32 }",
        "3:21: error: expected one of all_of, any_of, as, at_least_one_of, at_most_one_of, crate, default, \
        description, embedded_resource, enum, exactly_one_of, example, exclusive_maximum, exclusive_minimum, external_docs, format, \
        immutable, int_or_string, items, list_type, map_keys, map_type, max_items, max_length, max_properties, maximum, min_items, \
        min_length, min_properties, minimum, multiple_of, not, nullable, one_of, optional, pattern, preserve_unknown_fields, raw, required, rule, \
        schemaless, skip, title, type, unique_items, values",
    ),
    (
        "struct A { #[serde(with = \"x\")] a: i32 }",
        "3:20: error: the output of the function is unknown: declare it with \
        #[schema(as = Type)] or #[schema(type = \"…\")]",
    ),
    (
        "#[serde(rename_all = \"odd\")] struct A { a: i32 }",
        "3:22: error: expected one of lowercase, UPPERCASE, PascalCase, \
        camelCase, snake_case, SCREAMING_SNAKE_CASE, kebab-case, SCREAMING-KEBAB-CASE",
    ),
    (
        "struct A { #[serde(rename(serialize = \"a\", deserialize = \"b\"))] a: i32 }",
        "3:58: error: the names for serialization and deserialization differ, but an API server accepts only one",
    ),
    ("struct A { #[serde(rename)] a: i32 }", "3:20: error: expected a string"),
    (
        "#[serde(transparent)] struct A { a: i32, b: i32 }",
        "3:32: error: a transparent struct must have one serialized field",
    ),
    (
        "struct A(i32, i32);",
        "3:8: error: several unnamed fields are serialized as a list of different types, which a structural schema \
        cannot describe: name the fields",
    ),
    ("struct A;", "3:8: error: a unit struct is serialized as null, which has no schema: add braces"),
    ("union A { a: i32 }", "3:7: error: only structs and enums have schemas"),
    ("enum A {}", "3:6: error: an enum without variants has no values"),
    (
        "enum A { B(i32, i32) }",
        "3:11: error: several unnamed fields are serialized as a list of different types, which a structural schema \
        cannot describe: name the fields",
    ),
    (
        "enum A { B, C { c: i32 } }",
        "3:10: error: it is serialized as a string and others as objects, which a structural schema cannot describe: \
        add braces, or #[serde(tag = \"…\")] to the enum",
    ),
    (
        "#[serde(untagged)] enum A { B, C { c: i32 } }",
        "3:29: error: without a tag it is serialized as null, which has no schema",
    ),
    (
        "#[serde(tag = \"t\")] enum A { B { b: i32 }, #[serde(untagged)] C { c: i32 } }",
        "3:52: error: either all variants or no variants must have tags",
    ),
];

/// The same for `#[derive(ApplyConfiguration)]`.
const MISTAKES_OF_APPLIES: &[(&str, &str)] = &[
    ("union A { a: i32 }", "3:7: error: a union has no fields that could be owned"),
    (
        "struct A<T> { a: T }",
        "3:9: error: a type with type parameters has no apply configuration: add #[apply(whole)] to apply it as a whole",
    ),
    ("#[apply(size = 1)] struct A { a: i32 }", "3:9: error: expected name, derive, whole or crate"),
    ("struct A { #[apply(name = \"B\")] a: i32 }", "3:20: error: expected whole or skip"),
    (
        "struct A { #[serde(with = \"x\")] a: i32 }",
        "3:20: error: the function serializes the type of the field, but a field of an apply configuration is an `Option`: \
         implement `Serialize` for the type instead, or omit the field with #[apply(skip)]",
    ),
];

/// The same for `#[derive(View)]`.
const MISTAKES_OF_VIEWS: &[(&str, &str)] = &[
    ("union A { a: i32 }", "3:7: error: a union has no fields that could be read"),
    ("struct A<T> { a: T }", "3:9: error: a type with type parameters has no view"),
    ("#[view(size = 1)] struct A { a: i32 }", "3:8: error: expected name, decode or crate"),
    ("struct A { #[view(name = \"B\")] a: i32 }", "3:19: error: expected decode or skip"),
    (
        "struct A { #[serde(with = \"x\")] a: i32 }",
        "3:20: error: the function decodes the field, but a view reads it by its type: implement `Deserialize` for the type \
         instead, or omit the field with #[view(skip)]",
    ),
];

/// The same for `#[rbac(…)]`.
const MISTAKES_OF_RULES: &[(&str, &str)] = &[
    (
        "groups = \"apps\", resources = \"deployments\"",
        "2:25: error: the verbs are missing: verbs = \"get,list,watch\"",
    ),
    ("verbs = \"get\"", "2:25: error: a rule needs resources or urls: resources = \"deployments\""),
    (
        "resources = \"pods\", verbs = \"get\"",
        "2:25: error: the groups are missing: groups = \"apps\", or \"\" for the core group",
    ),
    ("urls = \"/a\", verbs = \"get\", namespace = \"a\"", "2:25: error: urls cannot have a namespace"),
    ("groups = \"\", resources = \"pods,\", verbs = \"get\"", "2:50: error: expected comma-separated words"),
    (
        "verb = \"get\"",
        "2:25: error: expected groups, resources, resource_names, urls, verbs, namespace, role_name, constant or crate",
    ),
];

/// Returns the path of the compiled derive beside this test; the newest if there are several.
fn the_derive() -> PathBuf {
    let folder = env::current_exe().unwrap().parent().unwrap().to_owned();
    let is_it = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(&format!("{}windlass_derive-", env::consts::DLL_PREFIX))
            && name.ends_with(env::consts::DLL_SUFFIX)
    };
    let found = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(is_it);
    found.max_by_key(|path| path.metadata().unwrap().modified().unwrap()).expect("the derive has been built")
}

fn errors(attribute: &str, source: &str) -> Vec<String> {
    let mut compiler = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["-", "--edition=2024", "--crate-type=lib", "--emit=metadata", "--error-format=short", "--out-dir"])
        .arg(env::temp_dir())
        .arg("--extern")
        .arg(format!("windlass_derive={}", the_derive().display()))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let source = format!("#![allow(dead_code)]\n#[{attribute}]\n{source}\n");
    compiler.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    let output = compiler.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    text.lines().filter_map(|line| Some(line.strip_prefix("<anon>:")?.to_owned())).collect()
}

#[test]
fn each_mistake_is_named_where_it_stands() {
    let derive = |name: &str| format!("derive(windlass_derive::{name})");
    let of_definitions = MISTAKES_OF_DEFINITIONS.iter().map(|(attribute, error)| {
        let attributes = format!("group = \"x.io\", version = \"v1\", {attribute}");
        (derive("CustomResource"), format!("#[resource({attributes})]\nstruct Site {{ metadata: () }}"), error)
    });
    let of =
        |name: &'static str| move |(source, error): &'static (&str, &str)| (derive(name), (*source).to_owned(), error);
    let of_rules = MISTAKES_OF_RULES
        .iter()
        .map(|(rule, error)| (format!("windlass_derive::rbac({rule})"), "fn reconcile() {}".to_owned(), error));
    let of_no_group = [&OF_NO_GROUP].into_iter().map(of("CustomResource"));
    let all = MISTAKES.iter().map(of("Resource")).chain(of_definitions).chain(of_no_group);
    let all = all.chain(MISTAKES_OF_SCHEMAS.iter().map(of("Schema"))).chain(of_rules);
    let all = all.chain(MISTAKES_OF_APPLIES.iter().map(of("ApplyConfiguration")));
    let all = all.chain(MISTAKES_OF_VIEWS.iter().map(of("View")));
    let wrong = all.filter_map(|(attribute, source, error)| {
        let told = errors(&attribute, &source);
        (told != [*error]).then(|| format!("{source}\n  {told:#?}\n  {error}"))
    });
    assert_eq!(wrong.collect::<Vec<_>>().join("\n"), "");
}

/// The sources that contain error messages.
const SOURCES: &[(&str, &str)] = &[
    ("apply.rs", include_str!("../../windlass-derive-model/src/apply.rs")),
    ("case.rs", include_str!("../../windlass-derive-model/src/case.rs")),
    ("custom_resource.rs", include_str!("../../windlass-derive-model/src/custom_resource.rs")),
    ("identity.rs", include_str!("../../windlass-derive-model/src/identity.rs")),
    ("markers.rs", include_str!("../../windlass-derive-model/src/markers.rs")),
    ("rbac.rs", include_str!("../../windlass-derive-model/src/rbac.rs")),
    ("schema.rs", include_str!("../../windlass-derive-model/src/schema.rs")),
    ("serde_attributes.rs", include_str!("../../windlass-derive-model/src/serde_attributes.rs")),
    ("view.rs", include_str!("../../windlass-derive-model/src/view.rs")),
];

/// The code in front of an error message.
const BEFORE_WORDS: &[&str] = &[
    "Error::new(",
    ".error(",
    "let why =",
    "let rule =",
    "let expected =",
    "const EXPECTED: &str =",
    "const TUPLES: &str =",
    "only(Place::",
];

/// Returns the string literals up to the end of the bracket or statement.
fn literals(text: &str) -> Vec<String> {
    let (mut found, mut depth, mut letters) = (Vec::new(), 0, text.chars());
    while let Some(letter) = letters.next() {
        match letter {
            '(' | '{' => depth += 1,
            ')' | '}' if depth == 0 => break,
            ')' | '}' => depth -= 1,
            ';' => break,
            '"' => {
                let mut literal = String::new();
                while let Some(letter) = letters.next().filter(|letter| *letter != '"') {
                    match (letter, letter == '\\') {
                        (_, true) => match letters.next().unwrap() {
                            '\n' => {
                                let rest = letters.as_str().trim_start();
                                letters = rest.chars();
                            }
                            escaped => literal.push(escaped),
                        },
                        (letter, false) => literal.push(letter),
                    }
                }
                found.push(literal);
            }
            _ => {}
        }
    }
    found
}

/// Returns the constant parts of an error message, between its placeholders.
fn words(literal: &str) -> Vec<String> {
    let parts = literal.split(['{', '}']).step_by(2);
    parts.map(|part| part.trim().to_owned()).filter(|part| part.len() > 6).collect()
}

#[test]
fn each_error_of_the_derives_is_among_the_mistakes() {
    let tables = [
        MISTAKES,
        MISTAKES_OF_DEFINITIONS,
        MISTAKES_OF_SCHEMAS,
        MISTAKES_OF_APPLIES,
        MISTAKES_OF_VIEWS,
        MISTAKES_OF_RULES,
    ]
    .concat();
    let shown = tables.iter().chain([&OF_NO_GROUP]).map(|(_, error)| *error).collect::<Vec<_>>().join("\n");
    let (mut count, mut missing) = (0, Vec::new());
    for (file, text) in SOURCES {
        let text = text.split("#[cfg(test)]").next().unwrap();
        for before in BEFORE_WORDS {
            for (at, _) in text.match_indices(before) {
                for part in literals(&text[at + before.len()..]).iter().flat_map(|literal| words(literal)) {
                    count += 1;
                    if !shown.contains(&part) {
                        missing.push(format!("{file}: {part}"));
                    }
                }
            }
        }
    }
    assert!(count > 50, "{count} found: the sources are read otherwise than they are written");
    assert_eq!(missing, Vec::<String>::new());
}
