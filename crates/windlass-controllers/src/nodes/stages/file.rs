//! Reads files of stages.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, de::IgnoredAny};
use serde_saphyr::Spanned;
use windlass_api::PatchKind;

use super::{
    super::yaml,
    StagePlace, Stages, StagesError, environment,
    jq::Query,
    rules::{Delay, Operator, Patch, Requirement, Selector, Stage, Step, Time},
    template::Template,
};

const API_VERSION: &str = "kwok.x-k8s.io/v1alpha1";

/// The identity of a document, which decides whether it is a stage.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    metadata: Metadata,
    spec: Spec,
    /// Written by kwok.
    #[serde(rename = "status")]
    _status: Option<IgnoredAny>,
}

/// The metadata, of which only the name matters.
#[derive(Debug, Deserialize)]
struct Metadata {
    name: Spanned<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Spec {
    resource_ref: ResourceRef,
    selector: Option<SelectorSpec>,
    #[serde(default)]
    weight: u64,
    weight_from: Option<ExpressionFrom>,
    #[serde(default)]
    delay: DelaySpec,
    next: Option<Next>,
    /// The change of an object always leads to its next stage at once.
    #[serde(rename = "immediateNextStage")]
    _immediate_next_stage: Option<bool>,
    #[serde(default)]
    steps: Vec<StepSpec>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ResourceRef {
    #[serde(default = "v1")]
    api_group: String,
    kind: String,
}

fn v1() -> String {
    "v1".to_owned()
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SelectorSpec {
    #[serde(default)]
    match_labels: BTreeMap<String, String>,
    #[serde(default)]
    match_annotations: BTreeMap<String, String>,
    #[serde(default)]
    match_expressions: Vec<MatchExpression>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MatchExpression {
    key: Option<Spanned<String>>,
    operator: Option<String>,
    #[serde(default)]
    values: Vec<String>,
    jq: Option<JqSelector>,
    cel: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JqSelector {
    key: Spanned<String>,
    operator: String,
    #[serde(default)]
    values: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DelaySpec {
    duration_milliseconds: Option<u64>,
    duration_from: Option<ExpressionFrom>,
    jitter_duration_milliseconds: Option<u64>,
    jitter_duration_from: Option<ExpressionFrom>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExpressionFrom {
    expression_from: Option<Spanned<String>>,
    jq: Option<JqExpression>,
    cel: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JqExpression {
    expression: Spanned<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Next {
    event: Option<EventSpec>,
    finalizers: Option<FinalizersSpec>,
    #[serde(default)]
    delete: bool,
    #[serde(default)]
    patches: Vec<PatchSpec>,
    status_template: Option<Spanned<String>>,
    status_subresource: Option<String>,
    status_patch_as: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepSpec {
    event: Option<EventSpec>,
    finalizers: Option<FinalizersSpec>,
    #[serde(default)]
    delete: bool,
    patch: Option<PatchSpec>,
    apply: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EventSpec {
    #[serde(rename = "type", default)]
    type_: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FinalizersSpec {
    #[serde(default)]
    add: Vec<FinalizerItem>,
    #[serde(default)]
    remove: Vec<FinalizerItem>,
    #[serde(default)]
    empty: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FinalizerItem {
    value: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PatchSpec {
    #[serde(default)]
    subresource: String,
    #[serde(default)]
    root: String,
    template: Spanned<String>,
    #[serde(rename = "type")]
    type_: Option<String>,
    impersonation: Option<IgnoredAny>,
}

/// Parses the stages of a file.
pub(super) fn parse(file: &str, text: &str) -> Result<Stages, StagesError> {
    let file: Arc<str> = file.into();
    let invalid = |error: serde_saphyr::Error| {
        let (line, message) = yaml::problem(&error);
        StagesError::Invalid { place: StagePlace { file: Arc::clone(&file), line, stage: None }, message }
    };
    // Another kind is a better explanation than its first unknown field.
    let headers: Vec<Spanned<Header>> =
        serde_saphyr::from_multiple_with_options(text, yaml::options()).map_err(invalid)?;
    for Spanned { value: header, referenced, .. } in &headers {
        if header.api_version != API_VERSION || header.kind != "Stage" {
            let place = StagePlace { file: Arc::clone(&file), line: Some(referenced.line()), stage: None };
            let message = format!(
                "the kind {:?} of the API version {:?} is not supported; expected Stage of {API_VERSION}",
                header.kind, header.api_version
            );
            return Err(StagesError::Invalid { place, message });
        }
    }
    let documents: Vec<Document> = serde_saphyr::from_multiple_with_options(text, yaml::options()).map_err(invalid)?;
    let mut stages = Stages::default();
    for document in documents {
        let mut reader = Reader { file: &file, text, stage: &document.metadata.name, kind: Kind::Pod };
        let (kind, stage) = reader.stage(&document.spec)?;
        let stage = Arc::new(stage);
        let (pods, nodes) = match kind {
            Kind::Pod => (vec![stage], Vec::new()),
            Kind::Node => (Vec::new(), vec![stage]),
        };
        stages = stages.and(Stages { pods, nodes })?;
    }
    Ok(stages)
}

/// The kinds that have stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Pod,
    Node,
}

/// Reads one stage.
struct Reader<'a> {
    file: &'a Arc<str>,
    text: &'a str,
    stage: &'a Spanned<String>,
    kind: Kind,
}

impl Reader<'_> {
    /// Returns an error about a field.
    fn error(&self, line: u64, field: &str, message: impl AsRef<str>) -> StagesError {
        let stage = Some(self.stage.value.clone());
        let place = StagePlace { file: Arc::clone(self.file), line: Some(line), stage };
        StagesError::Invalid { place, message: format!("{field}: {}", message.as_ref()) }
    }

    /// Returns an error about a field whose line is not known.
    fn wrong(&self, field: &str, message: impl AsRef<str>) -> StagesError {
        self.error(self.stage.referenced.line(), field, message)
    }

    /// Returns an error if a field that is not supported is set.
    fn refuse<T>(&self, field: &str, value: Option<&T>) -> Result<(), StagesError> {
        value.map_or(Ok(()), |_| Err(self.wrong(field, "this field is not supported")))
    }

    fn stage(&mut self, spec: &Spec) -> Result<(Kind, Stage), StagesError> {
        if self.stage.value.is_empty() {
            return Err(self.wrong("metadata.name", "the name is empty"));
        }
        let ResourceRef { api_group, kind } = &spec.resource_ref;
        self.kind = match (&**api_group, &**kind) {
            ("v1" | "", "Pod") => Kind::Pod,
            ("v1" | "", "Node") => Kind::Node,
            _ => {
                let message = format!("{kind} of {api_group} has no stages; expected Pod or Node of v1");
                return Err(self.wrong("spec.resourceRef", message));
            }
        };
        let Some(selector) = &spec.selector else {
            return Err(self.wrong("spec.selector", "without a selector, the stage selects nothing; {} selects all"));
        };
        let delay = &spec.delay;
        let jitter = Time {
            milliseconds: delay.jitter_duration_milliseconds,
            from: self.from("spec.delay.jitterDurationFrom", delay.jitter_duration_from.as_ref())?,
        };
        let stage = Stage {
            name: self.stage.value.clone(),
            file: Arc::clone(self.file),
            line: self.stage.referenced.line(),
            selector: self.selector(selector)?,
            weight: spec.weight,
            weight_from: self.from("spec.weightFrom", spec.weight_from.as_ref())?,
            delay: Delay {
                duration: Time {
                    milliseconds: delay.duration_milliseconds,
                    from: self.from("spec.delay.durationFrom", delay.duration_from.as_ref())?,
                },
                jitter: Some(jitter).filter(|jitter| *jitter != Time::default()),
            },
            steps: self.steps(spec)?,
        };
        Ok((self.kind, stage))
    }

    fn selector(&self, spec: &SelectorSpec) -> Result<Selector, StagesError> {
        let requirements = spec.match_expressions.iter().enumerate().map(|(index, expression)| {
            let field = format!("spec.selector.matchExpressions[{index}]");
            self.refuse(&format!("{field}.cel"), expression.cel.as_ref())?;
            let (key, operator, values) = match expression {
                MatchExpression { jq: Some(jq), key: None, operator: None, .. } if expression.values.is_empty() => {
                    (&jq.key, &jq.operator, &jq.values)
                }
                MatchExpression { jq: None, key: Some(key), operator: Some(operator), values, .. } => {
                    (key, operator, values)
                }
                _ => return Err(self.wrong(&field, "expected key and operator, or jq")),
            };
            let line = key.referenced.line();
            let query = self.query(&format!("{field}.key"), key)?;
            let operator = match &**operator {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    let message = format!("{other:?} is not one of In, NotIn, Exists, DoesNotExist");
                    return Err(self.error(line, &format!("{field}.operator"), message));
                }
            };
            let needs_values = matches!(operator, Operator::In | Operator::NotIn);
            if needs_values == values.is_empty() {
                let message =
                    if needs_values { "In and NotIn need values" } else { "Exists and DoesNotExist have none" };
                return Err(self.error(line, &format!("{field}.values"), message));
            }
            Ok(Requirement { query, operator, values: values.clone() })
        });
        Ok(Selector {
            labels: spec.match_labels.clone(),
            annotations: spec.match_annotations.clone(),
            requirements: requirements.collect::<Result<_, _>>()?,
        })
    }

    fn from(&self, field: &str, from: Option<&ExpressionFrom>) -> Result<Option<Query>, StagesError> {
        let Some(from) = from else { return Ok(None) };
        self.refuse(&format!("{field}.cel"), from.cel.as_ref())?;
        match (&from.expression_from, &from.jq) {
            (Some(expression), None) => self.query(&format!("{field}.expressionFrom"), expression).map(Some),
            (None, Some(jq)) => self.query(&format!("{field}.jq.expression"), &jq.expression).map(Some),
            _ => Err(self.wrong(field, "expected expressionFrom or jq")),
        }
    }

    fn query(&self, field: &str, text: &Spanned<String>) -> Result<Query, StagesError> {
        Query::parse(&text.value).map_err(|message| self.error(text.referenced.line(), field, message))
    }

    /// Reads the steps. `next` is the older form of them.
    fn steps(&self, spec: &Spec) -> Result<Vec<Step>, StagesError> {
        let Some(next) = &spec.next else {
            return spec.steps.iter().enumerate().try_fold(Vec::new(), |mut steps, (index, step)| {
                let field = format!("spec.steps[{index}]");
                self.refuse(&format!("{field}.apply"), step.apply.as_ref())?;
                steps.extend(step.event.as_ref().map(|event| self.event(&field, event)).transpose()?);
                steps.extend(step.finalizers.as_ref().map(finalizers));
                steps.extend(step.delete.then_some(Step::Delete));
                steps
                    .extend(step.patch.as_ref().map(|patch| self.patch(&format!("{field}.patch"), patch)).transpose()?);
                Ok(steps)
            });
        };
        if !spec.steps.is_empty() {
            return Err(self.wrong("spec.steps", "cannot be combined with spec.next"));
        }
        self.refuse("spec.next.statusPatchAs", next.status_patch_as.as_ref())?;
        let mut steps = Vec::new();
        steps.extend(next.event.as_ref().map(|event| self.event("spec.next", event)).transpose()?);
        steps.extend(next.finalizers.as_ref().map(finalizers));
        for (index, patch) in next.patches.iter().enumerate() {
            steps.push(self.patch(&format!("spec.next.patches[{index}]"), patch)?);
        }
        if let Some(template) = next.status_template.as_ref().filter(|template| !template.value.is_empty()) {
            if !next.patches.is_empty() {
                return Err(self.wrong("spec.next.statusTemplate", "cannot be combined with spec.next.patches"));
            }
            let subresource = next.status_subresource.as_deref().unwrap_or("status");
            let is_status = self.is_status("spec.next.statusSubresource", subresource)?;
            let root = Some("status".to_owned());
            steps.push(self.patched("spec.next.statusTemplate", template, is_status, PatchKind::Strategic, root)?);
        }
        steps.extend(next.delete.then_some(Step::Delete));
        Ok(steps)
    }

    fn event(&self, field: &str, event: &EventSpec) -> Result<Step, StagesError> {
        let is_warning = match &*event.type_ {
            "Normal" => false,
            "Warning" => true,
            other => {
                let message = format!("{other:?} is not one of Normal, Warning");
                return Err(self.wrong(&format!("{field}.event.type"), message));
            }
        };
        Ok(Step::Event { is_warning, reason: event.reason.clone(), message: event.message.clone() })
    }

    fn patch(&self, field: &str, patch: &PatchSpec) -> Result<Step, StagesError> {
        self.refuse(&format!("{field}.impersonation"), patch.impersonation.as_ref())?;
        let kind = match patch.type_.as_deref() {
            Some("json") => PatchKind::Json,
            Some("merge") => PatchKind::Merge,
            Some("strategic" | "") | None => PatchKind::Strategic,
            Some(other) => {
                let message = format!("{other:?} is not one of json, merge, strategic");
                return Err(self.wrong(&format!("{field}.type"), message));
            }
        };
        let is_status = self.is_status(&format!("{field}.subresource"), &patch.subresource)?;
        let root = Some(patch.root.clone()).filter(|root| !root.is_empty());
        self.patched(&format!("{field}.template"), &patch.template, is_status, kind, root)
    }

    fn is_status(&self, field: &str, subresource: &str) -> Result<bool, StagesError> {
        match subresource {
            "" => Ok(false),
            "status" => Ok(true),
            other => Err(self.wrong(field, format!("the subresource {other:?} is not supported; expected status"))),
        }
    }

    fn patched(
        &self,
        field: &str,
        template: &Spanned<String>,
        is_status: bool,
        kind: PatchKind,
        root: Option<String>,
    ) -> Result<Step, StagesError> {
        let lines_before = yaml::lines_before(self.text, template);
        let functions = match self.kind {
            Kind::Pod => environment::OF_PODS,
            Kind::Node => environment::OF_NODES,
        };
        let template = Template::parse(&template.value, functions)
            .map_err(|error| self.error(lines_before + error.line as u64, field, error.message))?;
        Ok(Step::Patch(Patch { is_status, kind, root, template, lines_before }))
    }
}

fn finalizers(spec: &FinalizersSpec) -> Step {
    let values = |items: &[FinalizerItem]| items.iter().map(|item| item.value.clone()).collect();
    Step::Finalizers { add: values(&spec.add), remove: values(&spec.remove), empty: spec.empty }
}

#[cfg(test)]
mod tests;
