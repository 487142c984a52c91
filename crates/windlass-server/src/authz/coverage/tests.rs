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
fn products_are_compared_without_expansion() {
    let held: Vec<Rule> = (0..40).map(|number| Rule { names: vec![format!("n{number}")], ..large() }).collect();
    let wanted = [large()];
    let mut comparison = Comparison::new(&held);
    assert!(comparison.missing(&wanted).describe().is_empty());
    assert!(comparison.work < 20_000, "{}", comparison.work);
}

#[test]
fn the_list_of_missing_permissions_is_bounded() {
    let wanted = [large()];
    let mut comparison = Comparison::new(&[]);
    let missing = comparison.missing(&wanted);
    assert!(missing.cut && missing.bytes < 2 * MAX_TEXT);
    let lines = missing.describe();
    assert_eq!(lines.last().map(String::as_str), Some("~ and more"));
    assert!(lines.iter().map(String::len).sum::<usize>() < 3 * MAX_TEXT);
}

#[test]
fn rules_that_cut_each_other_to_pieces_are_refused_in_bounded_work() {
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
    let wanted = vec![large(); 200];
    let mut comparison = Comparison::new(&held);
    drop(comparison.missing(&wanted));
    assert!(comparison.work < MAX_WORK + MAX_WORK / 2, "{}", comparison.work);
    assert!(!missing(&held, &wanted).is_empty());
}

#[test]
fn what_is_left_is_listed_in_the_order_of_the_rule() {
    let held = [rule(&["a"], &["pods"], &["get"], &["x"]), rule(&["a"], &["*/log"], &["*"], &[])];
    let wanted = [rule(&["a"], &["pods", "pods/log"], &["list", "get", "watch"], &["y", "x"])];
    let lines: Vec<String> = missing(&held, &wanted).into_iter().collect();
    assert_eq!(
        lines,
        [
            r#"{APIGroups:["a"], Resources:["pods"], ResourceNames:["x"], Verbs:["list" "watch"]}"#,
            r#"{APIGroups:["a"], Resources:["pods"], ResourceNames:["y"], Verbs:["list" "get" "watch"]}"#,
        ]
    );
}

#[test]
fn a_rule_for_names_covers_no_paths() {
    let path = |names: &[&str]| Rule { paths: vec!["/a".into()], ..rule(&[], &[], &["get"], names) };
    assert!(missing(&[path(&[])], &[path(&[])]).is_empty());
    assert_eq!(missing(&[path(&["x"])], &[path(&[])]).len(), 1);
}

#[test]
fn a_path_is_covered_by_the_beginning_it_has() {
    let paths = ["/a*", "/ab*", "/b/", "/c*"].map(str::to_owned);
    let paths = Paths::new(&paths);
    assert_eq!(paths.beginnings, ["/a", "/c"]);
    for (path, covered) in [("/abc", true), ("/b/", true), ("/b/x", false), ("/c", true), ("/", false), ("/d", false)] {
        assert_eq!(paths.cover(path), covered, "{path}");
    }
}
