//! The report as JUnit XML.

use super::{escaped, replays};
use crate::exploration::{FindingGroup, Results};

/// Returns the results as JUnit XML. Each finding is a failed test case, named by its first plan. A finding that no
/// replay has confirmed is a skipped test case. All plans without findings are one test case that passes.
#[must_use]
pub fn junit(results: &Results) -> String {
    let failures = results.findings.iter().filter(|group| group.is_confirmed()).count();
    let (tests, skipped) = (results.findings.len() + 1, results.findings.len() - failures);
    let name = escaped(&results.program.join(" "));
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let seconds = results.seconds;
    xml.push_str(&format!(
        "<testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\" time=\"{seconds:.3}\">\n"
    ));
    let summary = escaped(&super::summary(results));
    xml.push_str(&format!("  <testcase classname=\"windlass explore\" name=\"plans without findings\"><system-out>{summary}</system-out></testcase>\n"));
    for group in &results.findings {
        case(&mut xml, group);
    }
    xml.push_str("</testsuite>\n");
    xml
}

fn case(xml: &mut String, group: &FindingGroup) {
    let name = group.runs.first().map(|run| run.plan.to_string()).unwrap_or_default();
    xml.push_str(&format!("  <testcase classname=\"windlass explore\" name=\"{}\">", escaped(&name)));
    let message = escaped(&group.text);
    if group.is_confirmed() {
        let mut details: Vec<String> =
            group.runs.iter().map(|run| format!("--plan '{}' ({})", run.plan, replays(run))).collect();
        details.push(String::new());
        let entry = |entry: &crate::exploration::Entry| {
            format!("{:>9.3} s {:<8} {:<10} {}", entry.at, entry.kind.as_str(), entry.actor, entry.text)
        };
        details.extend(group.timeline.iter().map(entry));
        let (kind, details) = (group.finding.kind(), escaped(&details.join("\n")));
        xml.push_str(&format!("<failure type=\"{kind}\" message=\"{message}\">{details}</failure>"));
    } else {
        xml.push_str(&format!("<skipped message=\"no replay has confirmed: {message}\"/>"));
    }
    xml.push_str("</testcase>\n");
}
