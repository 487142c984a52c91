//! The report as a self-contained HTML page without scripts.

use super::{blocks, escaped, masked, notes, others, plural, replays, summary};
use crate::exploration::{Entry, FindingGroup, Results};

/// The maximum number of listed plans per finding.
const PLANS: usize = 100;

const STYLE: &str = "
:root { color-scheme: light dark; --text: #1b2733; --page: #fff; --line: #d5dde5; --dim: #5b6b7b; --good: #0b6b3a;
  --bad: #a3161a; --bad-row: #fde2e2; --fault-row: #fff3cd; --log-row: #f4f7fa; }
@media (prefers-color-scheme: dark) { :root { --text: #d7e0e8; --page: #12181f; --line: #33404d; --dim: #93a3b3;
  --good: #6fd39a; --bad: #ff9a9a; --bad-row: #561b1e; --fault-row: #4a3c0a; --log-row: #1a222b; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem;
  color: var(--text); background: var(--page); }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; }
code, td { font: 13px/1.5 ui-monospace, monospace; overflow-wrap: anywhere; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .7rem 0; padding: .5rem .9rem; }
summary { cursor: pointer; } summary b { color: var(--bad); font-weight: 600; } .unconfirmed summary b { color: var(--dim); }
.good { color: var(--good); } .dim { color: var(--dim); }
table { border-collapse: collapse; width: 100%; margin: .6rem 0; }
td { padding: .1rem .6rem; vertical-align: top; white-space: pre-wrap; }
td:nth-child(-n+3) { white-space: nowrap; color: var(--dim); } td:first-child { text-align: right; }
.step td { border-top: 1px solid var(--line); font-weight: 600; }
.fault td { background: var(--fault-row); font-weight: 600; } .finding td { background: var(--bad-row); color: var(--bad); }
.log td { background: var(--log-row); } .change td:last-child { color: var(--good); } .process td { font-style: italic; }
";

/// Returns the results as one HTML page without scripts, in light and dark colors as the browser prefers. Each finding
/// has its plans and its event log, with the lines that the program printed next to its requests.
#[must_use]
pub fn html(results: &Results) -> String {
    let title = escaped(&results.program.join(" "));
    let mut page = String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    page.push_str(&format!("<title>Exploration of {title}</title><style>{STYLE}</style></head>\n<body>"));
    page.push_str(&format!("<h1>Exploration of <code>{title}</code></h1><p>{}.</p>\n", escaped(&summary(results))));
    if results.findings.is_empty() && !results.clean_runs.is_empty() {
        page.push_str("<p class=\"good\">All runs ended like the runs without faults.</p>\n");
    }
    for (index, block) in blocks(results).iter().enumerate() {
        page.push_str(&section(block, index == 0));
    }
    page.push_str("<h2>Coverage</h2>");
    page.push_str(&list(&notes(results)));
    let masked = masked(results);
    if !masked.is_empty() {
        page.push_str("<h2>Not compared</h2><p>The runs without faults differ in these fields and objects.</p>");
        page.push_str(&list(&masked));
    }
    page.push_str("<details><summary>The event log of the first run without faults</summary>");
    page.push_str(&table(&results.clean_timeline));
    page.push_str("</details>\n</body></html>\n");
    page
}

fn section(block: &[&FindingGroup], is_open: bool) -> String {
    let Some(group) = block.first() else { return String::new() };
    let texts: Vec<_> = block.iter().map(|group| format!("<b>{}</b>", escaped(&group.text))).collect();
    let first = group.runs.first();
    let number = group.runs.len();
    let count = format!("{number} {}, {}", plural(number, "plan", "plans"), first.map(replays).unwrap_or_default());
    let explained = first.map(|run| escaped(&run.plan.explained())).unwrap_or_default();
    let others: Vec<String> = others(block).into_iter().cloned().collect();
    let plans = group.runs.iter().take(PLANS);
    let plans = plans.map(|run| format!("<li><code>--plan '{}'</code></li>", escaped(&run.plan.to_string())));
    let more = if number > PLANS { format!("<li>and {} more</li>", number - PLANS) } else { String::new() };
    format!(
        "<details{}{}><summary>{} <span class=\"dim\">{}</span></summary><p>{explained}.</p>{}<ul>{}{more}</ul>{}</details>\n",
        if group.is_confirmed() { "" } else { " class=\"unconfirmed\"" },
        if is_open { " open" } else { "" },
        texts.join("<br>"),
        escaped(&count),
        if others.is_empty() { String::new() } else { format!("<p>The same run also has:</p>{}", list(&others)) },
        plans.collect::<String>(),
        table(&group.timeline),
    )
}

fn list(lines: &[String]) -> String {
    let items: String = lines.iter().map(|line| format!("<li>{}</li>", escaped(line))).collect();
    format!("<ul>{items}</ul>")
}

fn table(timeline: &[Entry]) -> String {
    let row = |Entry { at, kind, actor, text }: &Entry| {
        let kind = kind.as_str();
        let (actor, text) = (escaped(actor), escaped(text));
        format!("<tr class=\"{kind}\"><td>{at:.3} s</td><td>{kind}</td><td>{actor}</td><td>{text}</td></tr>\n")
    };
    format!("<table>{}</table>", timeline.iter().map(row).collect::<String>())
}
