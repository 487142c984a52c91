//! Revisions: the history of a set's templates, stored as ControllerRevisions.
//!
//! A revision holds a strategic merge patch that restores its template. Revisions are compared as JSON and named by a
//! hash of their bytes. The bytes and hashes equal those of kube-controller-manager, so an existing cluster's history
//! stays valid.

use std::{cmp::Ordering, collections::BTreeMap};

use k8s_openapi::{
    api::{apps::v1::ControllerRevision, core::v1::PodTemplateSpec},
    apimachinery::pkg::runtime::RawExtension,
};
use serde_json::{Map, Value, json};
use windlass_api::{LabelSelector, ObjectExt, Resource};
use windlass_runtime::{CachedClient, Context};

use crate::{error::ReconcileError, ownership};

/// The label with a revision's hash.
pub(crate) const HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// The maximum length of the owner's name within the name of its revision.
const LONGEST_PREFIX: usize = 223;
/// The characters of generated names: no vowels, so that no words appear.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Returns the cached revisions of an owner, oldest first, after adopting orphans.
pub(crate) async fn of<O: Resource>(
    cx: &Context,
    owner: &O,
    selector: &LabelSelector,
) -> Result<Vec<ControllerRevision>, ReconcileError> {
    let candidates = ownership::candidates::<O, ControllerRevision>(cx, owner)?;
    let claimed = ownership::claim_all(cx.live(), owner, selector, candidates).await?;
    let mut revisions = Vec::with_capacity(claimed.len());
    for revision in &claimed {
        revisions.push((*revision.get()?).clone());
    }
    revisions.sort_by(by_age);
    Ok(revisions)
}

fn by_age(a: &ControllerRevision, b: &ControllerRevision) -> Ordering {
    let age = a.metadata.creation_timestamp.cmp(&b.metadata.creation_timestamp);
    a.revision.cmp(&b.revision).then(age).then_with(|| a.name().cmp(b.name()))
}

/// Returns the data of a revision for a template.
pub(crate) fn data(template: &PodTemplateSpec) -> Value {
    let mut template = serde_json::to_value(template).unwrap_or_default();
    if let Some(fields) = template.as_object_mut() {
        fields.insert("$patch".to_owned(), json!("replace"));
    }
    sorted(json!({"spec": {"template": template}}))
}

/// Returns the template in a revision, or `None` if it holds other data.
pub(crate) fn template(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = revision.data.as_ref()?.0.pointer("/spec/template")?.clone();
    template.as_object_mut()?.remove("$patch");
    serde_json::from_value(template).ok()
}

/// Returns `true` if the revision holds this template.
pub(crate) fn holds(revision: &ControllerRevision, wanted: &PodTemplateSpec) -> bool {
    template(revision).is_some_and(|template| template == *wanted)
}

/// Returns the next revision number.
pub(crate) fn next_number(revisions: &[ControllerRevision]) -> i64 {
    revisions.last().map_or(1, |newest| newest.revision + 1)
}

/// The hash of a revision, and the label that holds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'n> {
    pub(crate) label: &'n str,
    pub(crate) hash: &'n str,
}

/// Builds a revision of the owner with its name, labels and annotations.
pub(crate) fn new<O: Resource>(
    owner: &O,
    template: &PodTemplateSpec,
    number: i64,
    Named { label, hash }: Named<'_>,
) -> ControllerRevision {
    let mut labels = template.metadata.as_ref().and_then(|metadata| metadata.labels.clone()).unwrap_or_default();
    labels.insert(label.to_owned(), hash.to_owned());
    let mut revision = ControllerRevision {
        data: Some(RawExtension(data(template))),
        revision: number,
        ..ControllerRevision::default()
    };
    revision.metadata.name = Some(name(owner.name(), hash));
    revision.metadata.namespace = owner.namespace().map(str::to_owned);
    revision.metadata.labels = Some(labels);
    revision.metadata.annotations = Some(owner.annotations().clone()).filter(|annotations| !annotations.is_empty());
    revision.metadata.owner_references = Some(vec![owner.controller_ref()]);
    revision
}

fn name(owner: &str, hash: &str) -> String {
    let end = owner.floor_char_boundary(LONGEST_PREFIX);
    format!("{}-{hash}", &owner[..end])
}

/// Creates a revision under the first free name, or finds an equal one under it. `collisions` counts the occupied
/// names.
pub(crate) async fn create<O: Resource>(
    cx: &Context,
    owner: &O,
    template: &PodTemplateSpec,
    number: i64,
    collisions: &mut i32,
) -> Result<ControllerRevision, ReconcileError> {
    let data = data(template);
    let named = hash(&data, *collisions);
    let mut revision = new(owner, template, number, Named { label: HASH_LABEL, hash: &named });
    loop {
        match cx.client().create(&revision).await {
            Err(error) if error.is_already_exists() => {}
            outcome => return Ok(outcome?),
        }
        let found = cx.live().get_opt::<ControllerRevision>(revision.object_ref()).await?;
        let Some(found) = found else { continue };
        if found.data == revision.data {
            return Ok(found);
        }
        *collisions += 1;
        revision.metadata.name = Some(name(owner.name(), &hash(&data, *collisions)));
    }
}

/// Gives the revision the newest number.
pub(crate) async fn renumber(
    client: &CachedClient,
    revision: &ControllerRevision,
    number: i64,
) -> Result<ControllerRevision, ReconcileError> {
    if revision.revision == number {
        return Ok(revision.clone());
    }
    let renumbered = ControllerRevision { revision: number, ..revision.clone() };
    Ok(client.update(&renumbered).await?)
}

/// Deletes the oldest unused revisions until at most the limit of unused ones remains.
pub(crate) async fn truncate(
    client: &CachedClient,
    revisions: &[ControllerRevision],
    is_live: impl Fn(&ControllerRevision) -> bool,
    limit: i32,
) -> Result<(), ReconcileError> {
    let Ok(limit) = usize::try_from(limit) else { return Ok(()) };
    let unused: Vec<_> = revisions.iter().filter(|revision| !is_live(revision)).collect();
    for revision in &unused[..unused.len().saturating_sub(limit)] {
        let uid = revision.uid().unwrap_or_default();
        match client.delete::<ControllerRevision>(revision.object_ref()).uid(uid).await {
            Err(error) if !error.is_not_found() && !error.is_conflict() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

/// Returns the FNV-1 hash of the data as Go encodes it and of the number of collisions, in letters.
fn hash(data: &Value, collisions: i32) -> String {
    let text = as_go_writes(data) + &collisions.to_string();
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(byte));
    hash.to_string().bytes().map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()])).collect()
}

/// Encodes JSON as Go does, which escapes HTML characters.
fn as_go_writes(data: &Value) -> String {
    const ESCAPED: [(char, &str); 5] =
        [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")];
    let mut text = data.to_string();
    for (character, escaped) in ESCAPED {
        text = text.replace(character, escaped);
    }
    text
}

/// Returns the value with the fields of its objects sorted.
fn sorted(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        Value::Object(fields) => {
            let fields: BTreeMap<_, _> = fields.into_iter().map(|(name, field)| (name, sorted(field))).collect();
            Value::Object(fields.into_iter().collect::<Map<_, _>>())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_holds_a_template_in_order() {
        let template: PodTemplateSpec = serde_json::from_value(json!({
            "metadata": {"labels": {"b": "2", "a": "1"}},
            "spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": "one"}]},
        }))
        .unwrap();
        let data = data(&template);
        let text = r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"a":"1","b":"2"}},"spec":{"containers":[{"image":"one","name":"c"}],"restartPolicy":"Always"}}}}"#;
        assert_eq!(data.to_string(), text);
        let revision = ControllerRevision { data: Some(RawExtension(data)), ..ControllerRevision::default() };
        assert!(holds(&revision, &template) && !holds(&revision, &PodTemplateSpec::default()));
    }

    #[test]
    fn names_are_made_of_the_hash_of_go() {
        let data = json!({"a": "<"});
        assert_eq!(as_go_writes(&data), r#"{"a":"\u003c"}"#);
        assert_eq!(hash(&data, 0), "7649c48bbf", "the letters of 3205704669, FNV-1 of the text and a 0");
        assert_ne!(hash(&data, 0), hash(&data, 1));
        assert_eq!(name(&"x".repeat(250), "h").len(), LONGEST_PREFIX + 2);
    }
}
