//! Makes the steps of a stage.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_api::{ObjectRef, Patch, PatchKind, Resource};
use windlass_runtime::{
    CachedClient,
    events::{Note, Recorder},
};

use super::{
    Scene, StagePlace, StagesError,
    rules::{self, Stage, Step},
};
use crate::error::ReconcileError;

/// The writers of a stage.
pub(crate) struct Writers {
    /// The node, which may write statuses.
    pub(crate) node: CachedClient,
    /// An administrator, who may also delete objects and change their finalizers, labels and specs.
    pub(crate) administrator: CachedClient,
    pub(crate) recorder: Recorder,
}

/// Makes the steps of a stage. `value` is the object as JSON, for the templates.
pub(crate) async fn play<K: Resource>(
    stage: &Stage,
    object: &K,
    value: &Value,
    scene: Scene,
    writers: &Writers,
) -> Result<(), ReconcileError> {
    let metadata = object.metadata();
    let mut key = ObjectRef::<K>::new(metadata.name.as_deref().unwrap_or_default());
    if let Some(namespace) = metadata.namespace.as_deref() {
        key = key.within(namespace);
    }
    let uid = metadata.uid.as_deref().unwrap_or_default();
    let (mut is_changed, mut is_deleted) = (false, false);
    for step in &stage.steps {
        match step {
            Step::Event { is_warning, reason, message } => {
                let note = if *is_warning { Note::warning } else { Note::normal };
                writers.recorder.record(object, note(reason.clone(), message.clone()));
            }
            // A deleted object cannot be changed.
            _ if is_deleted => {}
            Step::Finalizers { add, remove, empty } => {
                let before = metadata.finalizers.clone().unwrap_or_default();
                let mut after = if *empty { Vec::new() } else { before.clone() };
                after.retain(|finalizer| !remove.contains(finalizer));
                after.extend(add.iter().filter(|finalizer| !before.contains(finalizer) || *empty).cloned());
                if after != before {
                    // The list replaces the current one, which must be that of the cache, unless an earlier step has
                    // changed the object.
                    let mut body = json!({"metadata": {"finalizers": after, "uid": uid}});
                    if !is_changed {
                        body["metadata"]["resourceVersion"] = json!(metadata.resource_version);
                    }
                    is_changed = true;
                    writers.administrator.patch(&key, Patch::Merge(body)).discard_response().await?;
                }
            }
            Step::Patch(patch) => {
                let body = patch.render(stage, value, uid, scene)?;
                let client = if patch.is_status { &writers.node } else { &writers.administrator };
                let request = client.patch(&key, body);
                let request = if patch.is_status { request.subresource("status") } else { request };
                request.discard_response().await?;
                is_changed = true;
            }
            Step::Delete => {
                writers.administrator.delete(&key).grace_period(Duration::ZERO).uid(uid).await?;
                is_deleted = true;
            }
        }
    }
    Ok(())
}

impl rules::Patch {
    /// Renders the body of the patch. A patch that merges only applies to the object with this UID.
    pub(super) fn render(&self, stage: &Stage, object: &Value, uid: &str, scene: Scene) -> Result<Patch, StagesError> {
        let failed = |line: Option<usize>, message: String| {
            let line = line.map(|line| self.lines_before + line as u64);
            let place = StagePlace { line: line.or(Some(self.lines_before + 1)), ..stage.place() };
            StagesError::Invalid { place, message }
        };
        let text = self.template.render(object, &scene).map_err(|error| failed(Some(error.line), error.message))?;
        let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
        let mut value: Value = serde_saphyr::from_str_with_options(&text, options).map_err(|error| {
            failed(None, format!("the rendered template is not valid YAML: {error}; it is:\n{text}"))
        })?;
        if self.kind == PatchKind::Json {
            if let Some(root) = &self.root {
                for operation in value.as_array_mut().into_iter().flatten() {
                    let path = operation["path"].as_str().unwrap_or_default();
                    operation["path"] = json!(format!("/{root}{path}"));
                }
            }
            return Ok(Patch::Json(value));
        }
        if let Some(root) = &self.root {
            value = json!({ root: value });
        }
        let metadata = value.as_object_mut().map(|fields| fields.entry("metadata").or_insert_with(|| json!({})));
        let Some(Value::Object(metadata)) = metadata else {
            let message = format!("the rendered template is not a map, or its metadata is not one; it is:\n{text}");
            return Err(failed(None, message));
        };
        metadata.insert("uid".to_owned(), json!(uid));
        Ok(if self.kind == PatchKind::Merge { Patch::Merge(value) } else { Patch::Strategic(value) })
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::{Stages, nodes::addresses::Host};

    fn render(patch: &str) -> Result<Patch, String> {
        let text = format!(
            "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {{name: a}}\nspec:\n  resourceRef: {{kind: Pod}}\n\
             \x20 selector: {{}}\n  next:\n    patches:\n    - {patch}\n"
        );
        let stage = Stages::parse("s.yaml", &text).unwrap().pods.remove(0);
        let [Step::Patch(patch)] = &*stage.steps else { panic!("{stage:?}") };
        let host = Host::first(1).next().unwrap();
        let (now, started) = (Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH);
        let scene = Scene { now, started, host, nodes: 1, pod_ip: None };
        let object = json!({"spec": {"nodeName": "node-0"}});
        patch.render(&stage, &object, "1", scene).map_err(|error| error.to_string())
    }

    #[test]
    fn patches_have_root_and_uid() {
        for (patch, expected) in [
            (
                "{template: 'a: {{ Now }}', root: status}",
                Patch::Strategic(json!({"status": {"a": "1970-01-01T00:00:00Z"}, "metadata": {"uid": "1"}})),
            ),
            (
                "{template: 'metadata: {labels: {a: {{ NodeIPWith .spec.nodeName }}}}', type: merge}",
                Patch::Merge(json!({"metadata": {"labels": {"a": "172.18.0.2"}, "uid": "1"}})),
            ),
            (
                "{template: '[{op: add, path: /a, value: 1}]', root: status, type: json}",
                Patch::Json(json!([{"op": "add", "path": "/status/a", "value": 1}])),
            ),
        ] {
            assert_eq!(render(patch), Ok(expected), "{patch}");
        }
    }

    #[test]
    fn failing_templates_are_errors_with_their_place() {
        for (patch, message) in [
            ("{template: '{{ index .spec.x 0 }}'}", "s.yaml:9: stage \"a\": the function \"index\": a missing value"),
            ("{template: 'a: [', root: status}", "s.yaml:9: stage \"a\": the rendered template is not valid YAML"),
            ("{template: '[1]'}", "is not a map"),
            ("{template: 'metadata: 1'}", "is not a map"),
            ("{template: 'a: {{ PodIP }}'}", "node-0 has no address left"),
            ("{template: 'a: {{ NodeIPWith \"x\" }}'}", "\"x\" is not a simulated node"),
        ] {
            let error = render(patch).unwrap_err();
            assert!(error.contains(message), "{patch}: {error}");
        }
    }
}
