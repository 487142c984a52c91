//! Scenarios as text: a title after `# `, then steps, each on a line of its own; what is indented goes on with the step.

use serde_json::{Value, json};

/// What is asked of controllers, step by step.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it is about.
    pub title: String,
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// `create KIND NAME SPEC`, with `"template": POLICY` and `"selector": "app"` for those that everybody has; `"pod"` is more
    /// of the template's pods, and `NAMESPACE` where the scenario is played, also in names of nodes and in their label `of`.
    Create { kind: String, name: String, spec: Value },
    /// `patch KIND NAME PATCH`, a merge patch.
    Patch { kind: String, name: String, patch: Value },
    /// `delete KIND NAME [foreground|orphan]`
    Delete { kind: String, name: String, propagation: Option<String> },
    /// `pods WHICH FATE`: all of them, so many, `index=N`, or `name=NAME`.
    Pods { which: Which, fate: Fate },
    /// `wait SECONDS`
    Wait(u64),
    /// `show TITLE`
    Show(String),
}

#[derive(Clone, Debug)]
pub(super) enum Which {
    All,
    First(usize),
    Index(String),
    Named(String),
}

/// What becomes of pods.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    Run,
    /// Unready, though it runs.
    Falter,
    Succeed,
    Exit(i32),
    Delete,
}

impl Scenario {
    /// Those of a text.
    ///
    /// # Errors
    /// The line that makes no sense.
    pub fn read(text: &str) -> Result<Vec<Self>, String> {
        let mut lines: Vec<String> = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("//")) {
            match lines.last_mut() {
                Some(last) if line.starts_with(' ') => last.push_str(line.trim_start()),
                _ => lines.push(line.to_owned()),
            }
        }
        let mut scenarios: Vec<Self> = Vec::new();
        for line in lines {
            if let Some(title) = line.strip_prefix("# ") {
                scenarios.push(Self { title: title.to_owned(), steps: Vec::new() });
                continue;
            }
            let step = Step::read(&line).ok_or_else(|| format!("this is no step: {line}"))?;
            scenarios.last_mut().ok_or("a step stands before the first title")?.steps.push(step);
        }
        Ok(scenarios)
    }
}

impl Step {
    fn read(line: &str) -> Option<Self> {
        let (verb, rest) = line.split_once(' ')?;
        let mut parts = rest.splitn(3, ' ');
        let mut next = || parts.next().map(str::to_owned);
        Some(match verb {
            "create" => {
                let (kind, name, spec) = (next()?, next()?, next()?);
                let spec = expand(serde_json::from_str(&spec).ok()?, &name);
                Self::Create { kind, name, spec }
            }
            "patch" => {
                let (kind, name, patch) = (next()?, next()?, next()?);
                Self::Patch { kind, name, patch: serde_json::from_str(&patch).ok()? }
            }
            "delete" => Self::Delete { kind: next()?, name: next()?, propagation: next() },
            "pods" => Self::Pods { which: Which::read(&next()?)?, fate: Fate::read(&next()?, next().as_deref())? },
            "wait" => Self::Wait(rest.parse().ok()?),
            "show" => Self::Show(rest.to_owned()),
            _ => return None,
        })
    }
}

impl Which {
    fn read(text: &str) -> Option<Self> {
        if let Some(index) = text.strip_prefix("index=") {
            return Some(Self::Index(index.to_owned()));
        }
        if let Some(name) = text.strip_prefix("name=") {
            return Some(Self::Named(name.to_owned()));
        }
        if text == "all" { Some(Self::All) } else { text.parse().ok().map(Self::First) }
    }
}

impl Fate {
    fn read(word: &str, argument: Option<&str>) -> Option<Self> {
        Some(match word {
            "run" => Self::Run,
            "falter" => Self::Falter,
            "succeed" => Self::Succeed,
            "exit" => Self::Exit(argument?.parse().ok()?),
            "delete" => Self::Delete,
            _ => return None,
        })
    }
}

/// Puts in what everybody has.
fn expand(mut spec: Value, name: &str) -> Value {
    let labels = json!({"app": name});
    if spec["selector"] == "app" {
        spec["selector"] = json!({"matchLabels": labels});
    }
    if let Some(policy) = spec["template"].as_str().map(str::to_owned) {
        let containers = json!([{"name": "c", "image": "one"}]);
        spec["template"] =
            json!({"metadata": {"labels": labels}, "spec": {"restartPolicy": policy, "containers": containers}});
    }
    if let Some(pod) = spec.as_object_mut().and_then(|fields| fields.remove("pod")) {
        for (field, value) in pod.as_object().into_iter().flatten() {
            spec["template"]["spec"][field] = value.clone();
        }
    }
    // Asking for them has put them there.
    if let Some(fields) = spec.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    spec
}
