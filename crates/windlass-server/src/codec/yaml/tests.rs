use serde_json::json;

use super::*;

fn read(text: &str) -> Value {
    parse(text.as_bytes()).unwrap().value
}

#[test]
fn scalars_follow_yaml_1_1() {
    let value = read(concat!(
        "a: [yes, No, on, off, y, n, 'yes']\n",
        "b: [0644, 0x1F, 0b101, 0o17, 08, 1_000, +5, -7, 18446744073709551615]\n",
        "c: [1.5, 1.0, 1e3, .5, 1e400]\n",
        "d: [~, null, '', 2026-01-01, 1:30, !!str 5, !!float 3]\n",
    ));
    assert_eq!(value["a"], json!([true, false, true, false, true, false, "yes"]));
    assert_eq!(value["b"], json!([420, 31, 5, 15, 8, 1000, 5, -7, u64::MAX]));
    assert_eq!(value["c"], json!([1.5, 1, 1000, 0.5, "1e400"]));
    assert_eq!(value["d"], json!([null, null, "", "2026-01-01", "1:30", "5", 3]));
}

#[test]
fn keys_become_strings_and_later_documents_are_ignored() {
    assert_eq!(read("1: a\ntrue: b\nyes: c\n1.5: d\n---\nother: x\n"), json!({"1": "a", "true": "c", "1.5": "d"}));
    assert_eq!(read(""), json!(null));
    assert_eq!(read("{\"a\": [1, \"b\"]}"), json!({"a": [1, "b"]}));
}

#[test]
fn comments_are_ignored() {
    let text = format!("# first\n{}a: 1 # one\nb:\n# before\n- 2\n# last\n", "# and more\n".repeat(200));
    assert_eq!(read(&text), json!({"a": 1, "b": [2]}));
}

#[test]
fn anchors_and_merges_are_expanded() {
    let value = read("base: &b {a: 1, c: 2}\nx:\n  <<: *b\n  a: 3\nw: *b\nz: {<<: [*b, {a: 9, d: 4}]}\n");
    assert_eq!(value["x"], json!({"a": 3, "c": 2}));
    assert_eq!(value["w"], json!({"a": 1, "c": 2}));
    assert_eq!(value["z"], json!({"a": 1, "c": 2, "d": 4}));
}

#[test]
fn duplicate_keys_are_listed_and_the_last_one_applies() {
    let document = parse(b"a: 1\nb:\n  c: 1\n  c: 2\na: 3\n").unwrap();
    assert_eq!(document.value, json!({"a": 3, "b": {"c": 2}}));
    assert_eq!(document.duplicates, [r#"line 4: key "c" already set in map"#, r#"line 5: key "a" already set in map"#]);
}

#[test]
fn hostile_documents_are_rejected() {
    for (text, part) in [
        ("a: &a [*a]".to_owned(), "contains itself"),
        ("a: .nan".into(), "json: unsupported value: NaN"),
        ("[a: b: c".into(), "yaml: "),
        ("<<: 5".into(), "map merge requires"),
        ("[".repeat(200) + &"]".repeat(200), "max depth"),
        ("{".repeat(100_000), "yaml: "),
    ] {
        let error = parse(text.as_bytes()).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let previous = format!("*a{}", level - 1);
        bomb.push_str(
            &["a", &level.to_string(), ": &a", &level.to_string(), " [", &vec![previous; 10].join(", "), "]\n"]
                .concat(),
        );
    }
    assert_eq!(parse(bomb.as_bytes()).unwrap_err(), "yaml: document contains excessive aliasing");
}

#[test]
fn yaml_output_equals_gos() {
    let value = json!({
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "data": {
            "bool": "yes", "int": "123", "time": "2026-01-01T00:00:00Z", "date": "2026-1-2", "sixty": "1:30",
            "empty": "", "plain": "a b", "colon": "a: b", "hash": "a #b", "lead": " a", "quote": "it's",
            "dash": "- a", "star": "*a", "tab": "a\tb", "multi": "a\nb\n", "open": "a\nb", "keep": "a\n\n",
            "hint": "  a\nb\n", "trail": "a \nb \n", "url": "http://x/y", "null": "~", "bell": "\u{7}", "float": "1e3"
        },
        "list": [1, {"b": 1, "a": [true, null]}, [1, [2]], {}, [], 0.5],
        "a10": 1, "a9": 2, "A": 3, "yes": 4
    });
    let expected = r#"A: 3
a9: 2
a10: 1
apiVersion: v1
data:
  bell: "\a"
  bool: "yes"
  colon: 'a: b'
  dash: '- a'
  date: "2026-1-2"
  empty: ""
  float: "1e3"
  hash: 'a #b'
  hint: |2
      a
    b
  int: "123"
  keep: |+
    a

  lead: ' a'
  multi: |
    a
    b
  "null": "~"
  open: |-
    a
    b
  plain: a b
  quote: it's
  sixty: "1:30"
  star: '*a'
  tab: "a\tb"
  time: "2026-01-01T00:00:00Z"
  trail: "a \nb \n"
  url: http://x/y
kind: ConfigMap
list:
- 1
- a:
  - true
  - null
  b: 1
- - 1
  - - 2
- {}
- []
- 0.5
"yes": 4
"#;
    assert_eq!(to_yaml(&value), expected);
    assert_eq!(read(expected), value);
}

#[test]
fn yaml_of_kube_apiserver_round_trips() {
    let value: Value = serde_json::from_str(include_str!("../../../testdata/scalars.json")).unwrap();
    let expected = include_str!("../../../testdata/scalars.yaml");
    for (ours, theirs) in to_yaml(&value).split('\n').zip(expected.split('\n')) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(to_yaml(&value), expected);
    // YAML 1.2 does not support Unicode line breaks, so this text is read back with the indentation in it.
    let mut read = read(expected);
    read["data"]["uni"] = value["data"]["uni"].clone();
    assert_eq!(read, value);
}

#[test]
fn common_errors_equal_those_of_go() {
    for (text, expected) in [
        ("a: b: c\n", "yaml: mapping values are not allowed in this context"),
        ("a: *x\n", "yaml: unknown anchor 'x' referenced"),
        ("a: 1\n b: 2\n", "yaml: line 2: mapping values are not allowed in this context"),
        ("~: a\n", r#"unsupported map key of type: %!s(<nil>), key: <nil>, value: "a""#),
    ] {
        assert_eq!(parse(text.as_bytes()).unwrap_err(), expected, "{text}");
    }
}

#[test]
fn long_lines_are_folded_at_80_columns() {
    let text = "word ".repeat(30).trim_end().to_owned();
    let yaml = to_yaml(&json!({ "a": text }));
    assert!(yaml.lines().count() > 1 && yaml.lines().skip(1).all(|line| line.starts_with("  word")), "{yaml}");
    assert_eq!(read(&yaml), json!({ "a": text }));
}

#[test]
fn aliases_are_expanded_up_to_gos_limit() {
    let document = |aliases: usize| format!("a: &a [{}]\nb: [{}]\n", "x, ".repeat(1_000), "*a, ".repeat(aliases));
    let expanded = parse(document(90).as_bytes()).unwrap().value;
    assert_eq!(expanded["b"].as_array().map(Vec::len), Some(90));
    assert_eq!(parse(document(150).as_bytes()).unwrap_err(), "yaml: document contains excessive aliasing");
}

#[test]
fn anchors_without_aliases_are_not_copied() {
    // A copy for each of a hundred anchors around a list of 200,000 elements would take gigabytes.
    let text =
        (0..100).map(|level| format!("&a{level} [")).collect::<String>() + &"0,".repeat(200_000) + &"]".repeat(100);
    let referenced = aliases::referenced(&(text.clone() + "\n# *a0")).unwrap();
    assert!(referenced.is_empty());
    assert!(parse(text.as_bytes()).is_ok());
}
