use super::*;
use crate::{
    exploration::{CleanRun, Entry, EntryKind, FindingGroup, Replays},
    findings::Finding,
};

fn group(text: &str, plans: &[&str], reproduced: usize) -> FindingGroup {
    let run = |plan: &&str| FindingRun {
        plan: plan.parse().unwrap(),
        findings: vec![text.to_owned(), "another <finding>".to_owned()],
        replays: Replays { reproduced, of: 3 },
    };
    let entry = |at: f64, kind, text: &str| Entry { at, kind, actor: "process 1".to_owned(), text: text.to_owned() };
    FindingGroup {
        finding: Finding::NotSettled { step: 1 },
        text: text.to_owned(),
        found_after_seconds: 0.0,
        runs: plans.iter().map(run).collect(),
        timeline: vec![
            entry(1.0, EntryKind::Request, "PUT /api → 200"),
            entry(1.5, EntryKind::Fault, "killed"),
            entry(2.0, EntryKind::Log, "starting \u{1b}[1m<script>alert(1)</script>"),
        ],
    }
}

fn results() -> Results {
    let clean_run = CleanRun { seconds: 9.0, changes: 40, changes_by_program: 12, requests: 200 };
    let mut results = Results {
        program: vec!["operator".to_owned(), "--name=\"a&b\"".to_owned()],
        clean_runs: vec![clean_run],
        planned: 10,
        finished: 8,
        not_reached: vec!["lag@1:create:pods/a/c".parse().unwrap()],
        skipped: [("changes that are not in all runs without faults".to_owned(), 3)].into(),
        effects: [("crash".to_owned(), 5), ("lag".to_owned(), 3)].into(),
        left: [("delayed".to_owned(), 2)].into(),
        findings: vec![
            group("secret is left over", &["crash@1:create:pods/a/b", "lag@1:create:pods/a/b"], 3),
            group("flaky", &["conflict@1:update:pods/a/b:spec.x"], 0),
        ],
        seconds: 300.0,
        ..Results::default()
    };
    let secret = "secrets/a/b".parse().unwrap();
    results.mask.fields.insert(secret, ["data/token".to_owned()].into());
    results
}

#[test]
fn text_has_findings_coverage_and_mask() {
    let text = text(&results());
    let expected = [
        "8 of 10 plans have run in 5 min; 1 finding, and 1 that no replay has confirmed; the time limit was reached.",
        "✗ secret is left over\n    --plan 'crash@1:create:pods/a/b'\n    --plan 'lag@1:create:pods/a/b'\n",
        "reproduced in 3 of 3 replays: the program is killed after it has made this change",
        "    also: another <finding>",
        "    1.500 s ⚡ process 1  killed",
        "- plans by effect: 5 crash, 3 lag",
        "- 2 plans with delayed are left",
        "- not planned: 3 changes that are not in all runs without faults",
        "- 1 plans did not reach the point of their fault",
        "- secrets/a/b: data/token",
        "12 of them by the program",
    ];
    for expected in expected {
        assert!(text.contains(expected), "{expected:?} is not in:\n{text}");
    }
}

#[test]
fn long_event_logs_are_printed_around_the_fault() {
    let mut results = results();
    let entry = |kind, text: String| Entry { at: 1.0, kind, actor: String::new(), text };
    let mut timeline: Vec<_> = (0..200).map(|line| entry(EntryKind::Log, format!("line {line}."))).collect();
    timeline[100].kind = EntryKind::Fault;
    timeline.push(entry(EntryKind::Finding, "leaked".to_owned()));
    results.findings[0].timeline = timeline;
    let text = text(&results);
    assert!(text.contains("… 88 entries\n") && text.contains("line 88.") && !text.contains("line 87."), "{text}");
    assert!(text.contains("… 60 entries\n") && text.contains("line 139.") && !text.contains("line 140."), "{text}");
    assert!(text.contains("✗             leaked\n"), "{text}");
}

#[test]
fn findings_with_the_same_plans_are_one_block() {
    let mut results = results();
    results.findings.insert(1, group("another <finding>", &["lag@1:create:pods/a/b", "crash@1:create:pods/a/b"], 3));
    let text = text(&results);
    assert!(
        text.contains("✗ secret is left over\n✗ another <finding>\n    --plan 'crash@1:create:pods/a/b'\n"),
        "{text}"
    );
    assert_eq!(text.matches("--plan 'crash@").count(), 1);
    assert_eq!(text.matches("also:").count(), 1, "only the last finding has another one");
    assert!(html(&results).contains("<b>secret is left over</b><br><b>another &lt;finding&gt;</b>"));
}

#[test]
fn json_can_be_read_again() {
    let results = results();
    let json = json(&results);
    let read: Results = serde_json::from_str(&json).unwrap();
    assert_eq!(read.findings[0].finding, results.findings[0].finding);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["findings"][0]["finding"], serde_json::json!({"kind": "notSettled", "step": 1}));
    assert_eq!(value["findings"][0]["runs"][1]["plan"], "lag@1:create:pods/a/b");
    assert_eq!(value["findings"][0]["timeline"][1]["kind"], "fault");
    assert_eq!(value["mask"]["fields"]["secrets/a/b"][0], "data/token");
    assert_eq!(value["cleanRuns"][0]["changesByProgram"], 12);
}

#[test]
fn junit_has_failures_and_skipped_cases() {
    let xml = junit(&results());
    assert!(xml.contains("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\""), "{xml}");
    assert!(xml.contains("name=\"operator --name=&quot;a&amp;b&quot;\""));
    assert!(xml.contains("<failure type=\"notSettled\" message=\"secret is left over\">"));
    assert!(xml.contains("<skipped message=\"no replay has confirmed: flaky\"/>"));
    assert!(!xml.contains('\u{1b}') && !xml.contains("<script>"));
    let open = xml.matches("<testcase").count();
    assert_eq!((open, xml.matches("</testcase>").count()), (3, 3));
}

#[test]
fn html_is_self_contained_and_escaped() {
    let page = html(&results());
    assert!(page.contains("<b>secret is left over</b>") && page.contains("2 plans, reproduced in 3 of 3 replays"));
    assert!(page.contains("<tr class=\"log\"><td>2.000 s</td>") && page.contains("<tr class=\"fault\">"));
    assert!(page.contains("<li>secrets/a/b: data/token</li>"));
    assert!(page.contains("prefers-color-scheme: dark"));
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    for forbidden in ["<script", "http:", "https:", "src=", "@import", "url("] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    let clean = Results { findings: Vec::new(), ..results() };
    assert!(html(&clean).contains("All runs ended like the runs without faults."));
}
