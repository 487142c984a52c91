//! The report as a self-contained HTML page.

use super::{
    report::{Failure, Report},
    timeline::{Entry, EntryKind},
};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#1b2733;background:#fff}\
h1{font-size:1.4rem}code,td{font:13px/1.5 ui-monospace,monospace}\
details{border:1px solid #d5dde5;border-radius:6px;margin:.7rem 0;padding:.5rem .9rem}summary{cursor:pointer}\
ul{margin:.4rem 0;color:#a3161a}table{border-collapse:collapse;width:100%;margin:.6rem 0}\
td{padding:.1rem .6rem;vertical-align:top;overflow-wrap:anywhere}td:first-child{text-align:right;white-space:nowrap;color:#5b6b7b}\
td:nth-child(2){white-space:nowrap}.step td{font-weight:600;border-top:1px solid #d5dde5;padding-top:.4rem}\
.fault td{background:#fff3cd}.finding td{background:#fde2e2;color:#a3161a}.read td,.reconcile td,.event td{color:#5b6b7b}\
.change td{color:#0b6b3a}.ok{color:#0b6b3a}\
@media(prefers-color-scheme:dark){body{background:#12181f;color:#d7e0e8}details,.step td{border-color:#33404d}\
.fault td{background:#4a3c0a}.finding td{background:#561b1e;color:#ffb3b3}ul{color:#ff9a9a}.change td,.ok{color:#6fd39a}}";

impl Report {
    /// Returns the report as one HTML page without scripts.
    #[must_use]
    pub fn html(&self) -> String {
        let mut page = String::from("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">");
        page.push_str("<meta name=\"viewport\" content=\"width=device-width\">");
        let title = escaped(&self.scenario);
        page.push_str(&format!("<title>Exploration of {title}</title><style>{STYLE}</style>"));
        page.push_str(&format!("<h1>Exploration of {title}</h1><p>{}.</p>", escaped(&self.summary())));
        if self.is_clean() {
            page.push_str("<p class=\"ok\">All runs ended like the run without faults.</p>");
        }
        page.push_str(&list(&self.reference));
        for (index, failure) in self.failures.iter().enumerate() {
            page.push_str(&self.section(failure, index == 0));
        }
        page.push_str("<details><summary>The run without faults</summary>");
        page.push_str(&table(&self.timeline));
        page.push_str("</details></html>\n");
        page
    }

    fn section(&self, failure: &Failure, is_first: bool) -> String {
        let Failure { plan, findings, timeline } = failure;
        let explained: Vec<_> = plan.perturbations().iter().map(|one| escaped(&one.explained())).collect();
        format!(
            "<details{}><summary><code>{}</code> {}{}</summary><p><code>{}</code></p>{}</details>",
            if is_first { " open" } else { "" },
            escaped(&plan.to_string()),
            explained.join("; "),
            list(findings),
            escaped(&self.replayed_by(plan)),
            table(timeline),
        )
    }
}

fn list(lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let items: String = lines.iter().map(|line| format!("<li>{}</li>", escaped(line))).collect();
    format!("<ul>{items}</ul>")
}

fn table(timeline: &[Entry]) -> String {
    let row = |entry: &Entry| {
        let Entry { at, who, kind, what } = entry;
        let who = if *kind == EntryKind::Step { "step" } else { who };
        let (at, who, what) = (at.as_secs_f64(), escaped(who), escaped(what));
        format!("<tr class=\"{}\"><td>{at:.3} s<td>{who}<td>{what}", kind.word())
    };
    format!("<table>{}</table>", timeline.iter().map(row).collect::<String>())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
