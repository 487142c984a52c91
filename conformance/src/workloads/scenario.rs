//! The text format of scenarios: a title after `# `, then one step per line. Indented lines continue a step. `kinds A B
//! C` before the first title lists the compared kinds.
//!
//! In objects and patches, `NAMESPACE` is the scenario's namespace, and `uid of KIND NAME` a UID. A name `x:y` is `y`
//! in the namespace `NAMESPACE-x`. Cluster-scoped objects get the prefix `NAMESPACE-`, unless their name contains it,
//! and the label `of`.

use serde_json::{Value, json};

use super::kinds;

/// A sequence of steps for controllers.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The title.
    pub title: String,
    /// The compared kinds.
    pub(super) kinds: Vec<String>,
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// `create KIND NAME SPEC`, with `"template": POLICY` and `"selector": "app"` for common templates and selectors;
    /// or `make KIND NAME OBJECT` with everything but kind and name. `"pod"` extends the template's pod spec.
    Create { kind: String, name: String, object: Value },
    /// `patch KIND[/SUBRESOURCE] NAME PATCH` with a merge patch.
    Patch { kind: String, subresource: Option<String>, name: String, patch: Value },
    /// `delete KIND NAME [foreground|orphan|at-once]`
    Delete { kind: String, name: String, how: Option<String> },
    /// `finalize NAME` removes the finalizers in a namespace's spec.
    Finalize { name: String },
    /// `pods WHICH FATE`: all, a number, `ending`, `index=N`, `name=NAME`, `image=IMAGE`, or a number of these:
    /// `N/image=IMAGE`.
    Pods { selection: PodSelection, change: PodChange },
    /// `refused STEP` prints the server's error.
    Refused(Box<Self>),
    /// `until KIND` waits some minutes for an object of the kind.
    Until(String),
    /// `drop KIND` deletes all objects of the kind.
    Drop(String),
    /// `wait SECONDS`
    Wait(u64),
    /// `show TITLE`
    Show(String),
}

/// A selection of pods.
#[derive(Clone, Debug)]
pub(super) struct PodSelection {
    pub(super) at_most: Option<usize>,
    pub(super) filter: PodFilter,
}

#[derive(Clone, Debug)]
pub(super) enum PodFilter {
    All,
    /// Pods in deletion.
    Ending,
    Index(String),
    Name(String),
    Image(String),
}

/// The change of the selected pods.
#[derive(Clone, Copy, Debug)]
pub(super) enum PodChange {
    Run,
    /// Running but not ready.
    Falter,
    Succeed,
    Exit(i32),
    Delete,
    /// Deleted without a grace period.
    Go,
    /// Evicted, if the disruption budgets allow it.
    Evict,
}

impl Scenario {
    /// Reports whether a step creates an object of a kind.
    pub(super) fn makes(&self, wanted: &str) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Create { kind, .. } if kind == wanted))
    }

    /// Parses the scenarios of a text.
    ///
    /// # Errors
    ///
    /// Returns the line that cannot be parsed.
    pub fn read(text: &str) -> Result<Vec<Self>, String> {
        let mut lines: Vec<String> = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("//")) {
            match lines.last_mut() {
                Some(last) if line.starts_with(' ') => last.push_str(line.trim_start()),
                _ => lines.push(line.to_owned()),
            }
        }
        let mut kinds: Vec<String> = kinds::USUAL.map(str::to_owned).to_vec();
        let mut scenarios: Vec<Self> = Vec::new();
        for line in lines {
            if let Some(title) = line.strip_prefix("# ") {
                scenarios.push(Self { title: title.to_owned(), kinds: kinds.clone(), steps: Vec::new() });
                continue;
            }
            if let Some(named) = line.strip_prefix("kinds ").filter(|_| scenarios.is_empty()) {
                kinds = named.split(' ').map(str::to_owned).collect();
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
                Self::Create { kind, name, object: json!({ "spec": spec }) }
            }
            "make" => {
                let (kind, name, object) = (next()?, next()?, next()?);
                let mut object: Value = serde_json::from_str(&object).ok()?;
                if object.get("spec").is_some() {
                    object["spec"] = expand(object["spec"].take(), &name);
                }
                Self::Create { kind, name, object }
            }
            "patch" => {
                let (kind, name, patch) = (next()?, next()?, next()?);
                let (kind, subresource) = match kind.split_once('/') {
                    Some((kind, subresource)) => (kind.to_owned(), Some(subresource.to_owned())),
                    None => (kind, None),
                };
                Self::Patch { kind, subresource, name, patch: serde_json::from_str(&patch).ok()? }
            }
            "delete" => Self::Delete { kind: next()?, name: next()?, how: next() },
            "finalize" => Self::Finalize { name: next()? },
            "pods" => Self::Pods {
                selection: PodSelection::read(&next()?)?,
                change: PodChange::read(&next()?, next().as_deref())?,
            },
            "refused" => Self::Refused(Box::new(Self::read(rest)?)),
            "until" => Self::Until(next()?),
            "drop" => Self::Drop(next()?),
            "wait" => Self::Wait(rest.parse().ok()?),
            "show" => Self::Show(rest.to_owned()),
            _ => return None,
        })
    }
}

impl PodSelection {
    fn read(text: &str) -> Option<Self> {
        if let Some((number, by)) = text.split_once('/') {
            return Some(Self { at_most: Some(number.parse().ok()?), filter: PodFilter::read(by)? });
        }
        match text.parse() {
            Ok(number) => Some(Self { at_most: Some(number), filter: PodFilter::All }),
            Err(_) => Some(Self { at_most: None, filter: PodFilter::read(text)? }),
        }
    }
}

impl PodFilter {
    fn read(text: &str) -> Option<Self> {
        match text.split_once('=') {
            None if text == "ending" => Some(Self::Ending),
            None => (text == "all").then_some(Self::All),
            Some(("index", index)) => Some(Self::Index(index.to_owned())),
            Some(("name", name)) => Some(Self::Name(name.to_owned())),
            Some(("image", image)) => Some(Self::Image(image.to_owned())),
            Some(_) => None,
        }
    }
}

impl PodChange {
    fn read(word: &str, argument: Option<&str>) -> Option<Self> {
        Some(match word {
            "run" => Self::Run,
            "falter" => Self::Falter,
            "succeed" => Self::Succeed,
            "exit" => Self::Exit(argument?.parse().ok()?),
            "delete" => Self::Delete,
            "go" => Self::Go,
            "evict" => Self::Evict,
            _ => return None,
        })
    }
}

/// Expands the common templates and selectors.
fn expand(mut spec: Value, name: &str) -> Value {
    let Some(fields) = spec.as_object_mut() else { return spec };
    let name = name.rsplit(':').next().unwrap_or(name);
    let labels = json!({"app": name});
    if fields.get("selector").is_some_and(|selector| selector == "app") {
        fields.insert("selector".to_owned(), json!({ "matchLabels": labels }));
    }
    if let Some(policy) = fields.get("template").and_then(Value::as_str).map(str::to_owned) {
        let containers = json!([{"name": "c", "image": "one"}]);
        let template =
            json!({"metadata": {"labels": labels}, "spec": {"restartPolicy": policy, "containers": containers}});
        fields.insert("template".to_owned(), template);
    }
    if let Some(pod) = fields.remove("pod") {
        for (field, value) in pod.as_object().into_iter().flatten() {
            fields["template"]["spec"][field] = value.clone();
        }
    }
    spec
}
