use super::*;

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn each_selector_operator_matches() {
    let pod = labels(&[("app", "web"), ("tier", "2"), ("empty", "")]);
    for (selector, expected) in [
        ("", true),
        ("app=web", true),
        ("app==web,tier", true),
        ("app = db", false),
        ("app!=db", true),
        ("none!=x", true),
        ("app in (db, web)", true),
        ("app notin (db,web)", false),
        ("none notin (db)", true),
        ("!none", true),
        ("!app", false),
        ("none", false),
        ("tier>1", true),
        ("tier<2", false),
        ("app>1", false),
        ("empty=", true),
        ("empty in ()", true),
        ("app in (,web)", true),
        ("example.com/app", false),
    ] {
        let parsed: LabelSelector = selector.parse().unwrap();
        assert_eq!(parsed.matches_map(&pod), expected, "{selector}");
        assert_eq!(parsed.to_string().parse::<LabelSelector>().unwrap(), parsed, "{selector} → {parsed}");
    }
}

#[test]
fn requirements_print_by_key_with_sorted_values() {
    assert_eq!("b in (z,y,z),a,!c".parse::<LabelSelector>().unwrap().to_string(), "a,b in (y,z),!c");
}

#[test]
fn invalid_label_selectors_have_the_servers_errors() {
    for (selector, message) in [
        ("a in", "unable to parse requirement: found '' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a,", "found '', expected: identifier after ','"),
        ("=b", "found '=', expected: !, identifier, or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
    ] {
        assert_eq!(selector.parse::<LabelSelector>().unwrap_err().to_string(), message, "{selector}");
    }
    let error = "a=-b".parse::<LabelSelector>().unwrap_err().to_string();
    assert!(
        error.starts_with("unable to parse requirement: values[0][a]: Invalid value: \"-b\": a valid label"),
        "{error}"
    );
}

#[test]
fn field_selectors_match_and_print() {
    let selector: FieldSelector = "metadata.name=a,status.phase!=Running".parse().unwrap();
    let pod = |phase: &'static str| {
        move |field: &str| match field {
            "metadata.name" => "a",
            "status.phase" => phase,
            _ => "",
        }
    };
    assert!(selector.matches(pod("Pending")));
    assert!(!selector.matches(pod("Running")));
    assert_eq!(selector.exact("metadata.name"), Some("a"));
    assert_eq!(selector.to_string(), "metadata.name=a,status.phase!=Running");
    assert_eq!(r"a=x\,y\=z".parse::<FieldSelector>().unwrap().requirements()[0].value, "x,y=z");
}

#[test]
fn invalid_field_selectors_have_the_servers_errors() {
    let message = |text: &str| text.parse::<FieldSelector>().unwrap_err().to_string();
    assert_eq!(message("a"), "invalid selector: 'a'; can't understand 'a'");
    assert!(message(r"a=\x").contains("invalid escape sequence"));
}

#[test]
fn requirements_are_checked_with_gos_errors() {
    let error = |key: &str, operator, values: &[&str]| {
        Requirement::checked(key, operator, values.iter().copied()).unwrap_err().to_string()
    };
    assert_eq!(
        error("a", Operator::In, &[]),
        "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
    );
    assert_eq!(
        error("a", Operator::Equals, &["x", "y"]),
        "values: Invalid value: [\"x\",\"y\"]: exact-match compatibility requires one single value"
    );
    assert_eq!(
        error("a", Operator::Exists, &["x"]),
        "values: Invalid value: [\"x\"]: values set must be empty for exists and does not exist"
    );
    assert_eq!(
        error("a", Operator::LessThan, &["x"]),
        "values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"
    );
    assert!(
        error("a b", Operator::In, &["x", "-"]).starts_with("[key: Invalid value: \"a b\": name part must consist")
    );
    assert!(Requirement::checked("example.com/a", Operator::NotIn, ["x", ""]).is_ok());
}

#[test]
fn selectors_are_put_together() {
    let selector = LabelSelector::default().and(Requirement::new("tier", Operator::Exists, [])).and(Requirement::new(
        "app",
        Operator::In,
        ["web"],
    ));
    assert_eq!(selector.to_string(), "app in (web),tier");
    assert_eq!((selector.exact("app"), selector.exact("tier")), (Some("web"), None));
    let fields = FieldSelector::name("a").and_not_equal("status.phase", "x,y");
    assert_eq!(fields.to_string(), r"metadata.name=a,status.phase!=x\,y");
    assert_eq!(FieldSelector::default().and_equal("spec.nodeName", "n").exact("spec.nodeName"), Some("n"));
}

#[cfg(feature = "k8s-openapi")]
#[test]
fn structured_selectors_are_checked() {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
    let mut structured = meta::LabelSelector {
        match_labels: Some(labels(&[("app", "web")])),
        match_expressions: Some(vec![meta::LabelSelectorRequirement {
            key: "tier".to_owned(),
            operator: "In".to_owned(),
            values: Some(vec!["b".to_owned(), "a".to_owned()]),
        }]),
    };
    assert_eq!(LabelSelector::try_from(&structured).unwrap().to_string(), "app=web,tier in (a,b)");
    structured.match_expressions.as_mut().unwrap()[0].values = None;
    assert!(LabelSelector::try_from(&structured).unwrap_err().to_string().contains("values set can't be empty"));
}
