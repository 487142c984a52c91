use super::*;

fn numbered(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}{number}")).collect()
}

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str], names: &[&str]) -> Rule {
    let all = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Rule { groups: all(groups), resources: all(resources), verbs: all(verbs), names: all(names), paths: Vec::new() }
}

/// A rule with 2.56 million permissions in 1,180 bytes.
fn large() -> Rule {
    Rule {
        groups: numbered("g", 40),
        resources: numbered("r", 40),
        verbs: numbered("v", 40),
        names: numbered("n", 40),
        paths: Vec::new(),
    }
}

#[test]
fn rules_are_compared_without_expansion() {
    let held: Vec<Rule> = (0..40).map(|number| Rule { names: vec![format!("n{number}")], ..large() }).collect();
    let requested = [large()];
    let mut comparison = Comparison::new(&held);
    assert!(comparison.missing(&requested).describe().is_empty());
    assert!(comparison.work < 20_000, "{}", comparison.work);
}

#[test]
fn list_of_missing_permissions_is_bounded() {
    let requested = [large()];
    let mut comparison = Comparison::new(&[]);
    let missing = comparison.missing(&requested);
    assert!(missing.truncated && missing.bytes < 2 * MAX_TEXT);
    let lines = missing.describe();
    assert_eq!(lines.last().map(String::as_str), Some("~ and more"));
    assert!(lines.iter().map(String::len).sum::<usize>() < 3 * MAX_TEXT);
}

#[test]
fn overlapping_rules_are_rejected_within_bounded_work() {
    // Each held rule covers another corner of the requested permissions.
    let corner = |number: usize| {
        let half = |prefix: &str, shift: usize| {
            (0..40)
                .filter(|at| !(number * 7 + at * shift).is_multiple_of(3))
                .map(|at| format!("{prefix}{at}"))
                .collect()
        };
        Rule {
            groups: half("g", 1),
            resources: half("r", 2),
            verbs: half("v", 5),
            names: half("n", 7),
            ..Rule::default()
        }
    };
    let held: Vec<Rule> = (0..20_000).map(corner).collect();
    let requested = vec![large(); 200];
    let mut comparison = Comparison::new(&held);
    drop(comparison.missing(&requested));
    assert!(comparison.work < MAX_WORK + MAX_WORK / 2, "{}", comparison.work);
    assert!(!missing(&held, &requested).is_empty());
}

#[test]
fn missing_permissions_keep_the_order_of_the_rule() {
    let held = [rule(&["a"], &["pods"], &["get"], &["x"]), rule(&["a"], &["*/log"], &["*"], &[])];
    let requested = [rule(&["a"], &["pods", "pods/log"], &["list", "get", "watch"], &["y", "x"])];
    let lines: Vec<String> = missing(&held, &requested).into_iter().collect();
    assert_eq!(
        lines,
        [
            r#"{APIGroups:["a"], Resources:["pods"], ResourceNames:["x"], Verbs:["list" "watch"]}"#,
            r#"{APIGroups:["a"], Resources:["pods"], ResourceNames:["y"], Verbs:["list" "get" "watch"]}"#,
        ]
    );
}

#[test]
fn rule_with_resource_names_covers_no_paths() {
    let path = |names: &[&str]| Rule { paths: vec!["/a".into()], ..rule(&[], &[], &["get"], names) };
    assert!(missing(&[path(&[])], &[path(&[])]).is_empty());
    assert_eq!(missing(&[path(&["x"])], &[path(&[])]).len(), 1);
}

#[test]
fn path_is_covered_by_a_matching_prefix() {
    let paths = ["/a*", "/ab*", "/b/", "/c*"].map(str::to_owned);
    let paths = Paths::new(&paths);
    assert_eq!(paths.prefixes, ["/a", "/c"]);
    for (path, covered) in [("/abc", true), ("/b/", true), ("/b/x", false), ("/c", true), ("/", false), ("/d", false)] {
        assert_eq!(paths.contains(path), covered, "{path}");
    }
}
