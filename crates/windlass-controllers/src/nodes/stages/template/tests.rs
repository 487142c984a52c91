use serde_json::json;

use super::*;

struct Fixed;

impl Environment for Fixed {
    fn call(&self, name: &str, arguments: &[&Value]) -> Result<Value, String> {
        match (name, arguments) {
            ("Now", []) => Ok(json!("2026-01-01T00:00:00Z")),
            ("Port", []) => Ok(json!(0)),
            ("Ip", [Value::String(node)]) => Ok(json!(format!("ip of {node}"))),
            _ => Err("wrong arguments".to_owned()),
        }
    }
}

fn pod() -> Value {
    json!({
        "metadata": {"name": "web", "generation": 0, "annotations": {"a.b/c": "d"}},
        "spec": {
            "nodeName": "node-0",
            "containers": [{"name": "main", "image": "nginx"}, {"name": "side", "image": "b\"usy"}],
            "resources": {"cpu": "1", "list": [1, {"x": null}]},
        },
    })
}

fn render(text: &str) -> Result<String, SyntaxError> {
    Template::parse(text, &["Now", "Port", "Ip"])?.render(&pod(), &Fixed)
}

#[track_caller]
fn assert_renders(text: &str, expected: &str) {
    assert_eq!(render(text).as_deref(), Ok(expected), "{text}");
}

#[test]
fn actions_render_as_in_go() {
    for (template, expected) in [
        ("a{{ .metadata.name }}b", "awebb"),
        ("{{ .status.phase }}", "<no value>"),
        ("{{ .metadata.annotations }} {{ .spec.resources.list }}", "map[a.b/c:d] [1 map[x:<nil>]]"),
        ("{{ (index .spec.containers 1).name }}", "side"),
        ("{{ index .metadata.annotations \"a.b/c\" }}{{ index .metadata.annotations \"x\" }}", "d<no value>"),
        ("{{ range .spec.containers }}[{{ .name }}]{{ end }}", "[main][side]"),
        ("{{ range $i, $c := .spec.containers }}{{ $i }}={{ $c.name }} {{ end }}", "0=main 1=side "),
        ("{{ range $k, $v := .spec.resources }}{{ $k }} {{ end }}", "cpu list "),
        ("{{ range .status.x }}a{{ else }}none{{ end }}", "none"),
        ("{{ range 3 }}{{ . }}{{ end }}", "012"),
        (
            "{{ range $i := 5 }}{{ if eq $i 1 }}{{ continue }}{{ end }}{{ if gt $i 3 }}{{ break }}{{ end }}{{ $i }}{{ end }}",
            "023",
        ),
        ("{{ with .status }}a{{ else with .metadata }}{{ .name }}{{ end }}", "web"),
        ("{{ if .x }}a{{ else if .metadata }}b{{ else }}c{{ end }}", "b"),
        ("{{ $x := false }}{{ range .spec.containers }}{{ $x = true }}{{ end }}{{ $x }}", "true"),
        ("{{ $r := . }}{{ with .spec }}{{ $r.metadata.name }} {{ $.metadata.name }}{{ end }}", "web web"),
        ("{{ Now | Quote }} {{ Ip .spec.nodeName | printf \"%s!\" }}", "\"2026-01-01T00:00:00Z\" ip of node-0!"),
        ("{{ with Port }}a{{ else }}no port{{ end }}", "no port"),
        ("{{ $a := or .status.x dict }}{{ or (index $a \"k\") \"default\" }}", "default"),
        ("{{ and 1 0 }} {{ and 1 2 }} {{ or 0 \"\" }}{{ not 0 }}", "0 2 true"),
        // Go's templates get the numbers of objects as text, so zero is not empty.
        ("{{ if .metadata.generation }}yes{{ end }}{{ if 0 }}no{{ end }}", "yes"),
    ] {
        assert_renders(template, expected);
    }
}

#[test]
fn functions_have_the_results_of_go() {
    for (template, expected) in [
        ("{{ eq .metadata.name \"a\" \"web\" }} {{ eq .none \"a\" }} {{ ne 1 2 }}", "true false true"),
        ("{{ lt 9 10 }} {{ lt \"9\" \"10\" }} {{ ge 2.5 2 }}", "true false true"),
        ("{{ len .spec.containers }} {{ len \"abc\" }}", "2 3"),
        (
            "{{ printf \"%s-%d|%5d|%-4s|%03d|%q|%v|%%\" \"a\" 1 2 \"b\" 7 \"c\" true }}",
            "a-1|    2|b   |007|\"c\"|true|%",
        ),
        ("{{ print 1 2 \"a\" 3 }}", "1 2a3"),
        ("{{ Quote \"a\\\"b\" }} {{ Quote 1 }} {{ Quote .none }}", "\"a\\\"b\" \"1\" \"null\""),
        ("{{ YAML .spec.resources 1 }}", "\n  \"cpu\": \"1\"\n  \"list\":\n    - 1\n    -\n      \"x\": null\n"),
        (
            "{{ default \"x\" .none }} {{ \"y\" | default \"x\" }} {{ empty .none }} {{ coalesce 0 \"\" 3 }}",
            "x y true 3",
        ),
        ("{{ ternary 1 2 (hasKey .metadata \"name\") }} {{ get .metadata \"name\" }}", "1 web"),
        ("{{ upper \"a\" }}{{ trimPrefix \"a\" \"ab\" }}{{ replace \"a\" \"bb\" \"aca\" }}", "Abbbcbb"),
        ("{{ contains \"b\" \"abc\" }} {{ hasPrefix \"b\" \"abc\" }} {{ join \",\" (list 1 2) }}", "true false 1,2"),
        (
            "{{ add 1 2 3 }} {{ sub 5 1 }} {{ mul 2 3 }} {{ div 7 2 }} {{ mod 7 2 }} {{ max 1 4 }} {{ int \"5\" }}",
            "6 4 6 3 1 4 5",
        ),
        ("{{ dict \"a\" 1 | toJson }} {{ quote \"a\" 1 }}", "{\"a\":1} \"a\" \"1\""),
    ] {
        assert_renders(template, expected);
    }
}

#[test]
fn errors_have_line_and_cause() {
    for (template, line, message) in [
        ("a\n{{ if .x }}", 2, "no \"end\""),
        ("{{ end }}", 1, "unexpected \"end\""),
        ("{{ else }}", 1, "unexpected \"else\""),
        ("{{ if 1 }}{{ else }}{{ else }}{{ end }}", 1, "second \"else\""),
        ("\n\n{{ PodIP }}", 3, "the function \"PodIP\" is not supported"),
        ("{{ $x }}", 1, "undefined variable \"$x\""),
        ("{{ if 1 }}{{ $x := 1 }}{{ end }}{{ $x }}", 1, "undefined variable"),
        ("{{ $x = 1 }}", 1, "undefined variable"),
        ("{{ template \"x\" }}", 1, "\"template\" is not supported"),
        ("{{ break }}", 1, "outside of a range"),
        ("{{ .a 1 }}", 1, "has arguments"),
        ("{{ 1 | .a }}", 1, "needs a function"),
        ("{{ (1 }}", 1, "\")\" is missing"),
        ("{{ 1 ) }}", 1, "unexpected \")\""),
        ("{{ }}", 1, "missing"),
        ("{{ nil }}", 1, "nil is not a command"),
        ("{{ $a, $b := 1 }}", 1, "two variables need a range"),
        ("\n{{ .metadata.name.x }}", 2, "a string has no field \"x\""),
        ("{{ range .metadata.name }}{{ end }}", 1, "range over a string"),
        ("{{ index .spec.containers 2 }}", 1, "out of range: the list has 2"),
        ("{{ index .none 0 }}", 1, "a missing value has no index"),
        ("{{ eq 1 true }}", 1, "cannot be compared"),
        ("{{ printf \"%x\" 1 }}", 1, "%x is not supported"),
        ("{{ printf \"%d\" }}", 1, "no argument"),
        ("{{ div 1 0 }}", 1, "out of range"),
        ("{{ len }}", 1, "the function \"len\": expected 1 argument, found 0"),
        ("{{ Ip 1 }}", 1, "the function \"Ip\": wrong arguments"),
    ] {
        let error = render(template).unwrap_err();
        assert!(error.line == line && error.message.contains(message), "{template}: {error:?}");
    }
}

#[test]
fn time_and_output_are_limited() {
    let nested = format!("{}{}", "{{ if 1 }}".repeat(100), "{{ end }}".repeat(100));
    let parentheses = format!("{{{{ {}1{} }}}}", "(".repeat(1_000), ")".repeat(1_000));
    let doubled =
        "{{ $x := \"0123456789012345678901234567890123456789\" }}{{ range 64 }}{{ $x = print $x $x }}{{ end }}";
    for (template, message) in [
        ("{{ range 1000000000000 }}a{{ end }}", "more than 500000 steps"),
        ("{{ range 10000 }}{{ range 10000 }}{{ end }}{{ end }}", "steps"),
        ("{{ range 200000 }}abcdefghij{{ end }}", "the output is larger"),
        (doubled, "steps"),
        ("{{ $x := list 1 }}{{ range 64 }}{{ $x = list $x $x }}{{ end }}", "steps"),
        (&nested, "nested"),
        (&parentheses, "nested"),
    ] {
        let error = render(template).unwrap_err();
        assert!(error.message.contains(message), "{}: {error:?}", &template[..30]);
    }
}
