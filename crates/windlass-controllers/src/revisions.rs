//! Revisions: what the pods of a set were once made from, kept as ControllerRevisions.
//!
//! A revision holds a strategic merge patch that puts its template in place of the set's. It is compared as JSON, and named by
//! a hash of its bytes, which are those that the real controllers write: a cluster that is taken over keeps its history.

use std::{cmp::Ordering, collections::BTreeMap};

use k8s_openapi::{
    api::{apps::v1::ControllerRevision, core::v1::PodTemplateSpec},
    apimachinery::pkg::runtime::RawExtension,
};
use serde_json::{Map, Value, json};
use windlass_api::{LabelSelector, ObjectExt, Resource};
use windlass_client::Client;
use windlass_runtime::Context;

use crate::{error::ReconcileError, ownership};

/// The label of a revision that holds its hash.
pub(crate) const HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// The longest part of an owner's name in that of its revision.
const LONGEST_PREFIX: usize = 223;
/// What names are made of: no vowels, and so no words.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The revisions of an owner in the cache, the oldest first, after adopting those that are nobody's.
pub(crate) async fn of<O: Resource>(
    cx: &Context,
    owner: &O,
    selector: &LabelSelector,
) -> Result<Vec<ControllerRevision>, ReconcileError> {
    let candidates = ownership::candidates::<O, ControllerRevision>(cx, owner)?;
    let claimed = ownership::claim_all(cx.client(), owner, selector, candidates).await?;
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

/// What a revision holds of a template.
pub(crate) fn data(template: &PodTemplateSpec) -> Value {
    let mut template = serde_json::to_value(template).unwrap_or_default();
    if let Some(fields) = template.as_object_mut() {
        fields.insert("$patch".to_owned(), json!("replace"));
    }
    sorted(json!({"spec": {"template": template}}))
}

/// The template that a revision holds; nothing when it holds something else.
pub(crate) fn template(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = revision.data.as_ref()?.0.pointer("/spec/template")?.clone();
    template.as_object_mut()?.remove("$patch");
    serde_json::from_value(template).ok()
}

/// Whether pods of the revision are pods of the template.
pub(crate) fn holds(revision: &ControllerRevision, wanted: &PodTemplateSpec) -> bool {
    template(revision).is_some_and(|template| template == *wanted)
}

/// The revision that comes after those that there are.
pub(crate) fn next_number(revisions: &[ControllerRevision]) -> i64 {
    revisions.last().map_or(1, |newest| newest.revision + 1)
}

/// The hash of a revision, and the label that holds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'n> {
    pub(crate) label: &'n str,
    pub(crate) hash: &'n str,
}

/// A revision of the owner with its name, labels and annotations.
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

/// Creates a revision under the first name that is free, or finds it there. `collisions` counts the names that were not free.
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

/// Makes the revision the newest one.
pub(crate) async fn renumber(
    client: &Client,
    revision: &ControllerRevision,
    number: i64,
) -> Result<ControllerRevision, ReconcileError> {
    if revision.revision == number {
        return Ok(revision.clone());
    }
    let renumbered = ControllerRevision { revision: number, ..revision.clone() };
    Ok(client.update(&renumbered).await?)
}

/// Deletes the oldest revisions that nobody uses, until no more than the limit are left of those.
pub(crate) async fn truncate(
    client: &Client,
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

/// FNV-1 of the bytes as Go writes them and of the number of collisions, in letters.
fn hash(data: &Value, collisions: i32) -> String {
    let text = as_go_writes(data) + &collisions.to_string();
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(byte));
    hash.to_string().bytes().map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()])).collect()
}

/// Go escapes what means something in HTML.
fn as_go_writes(data: &Value) -> String {
    const ESCAPED: [(char, &str); 5] =
        [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")];
    let mut text = data.to_string();
    for (character, escaped) in ESCAPED {
        text = text.replace(character, escaped);
    }
    text
}

/// The same with the fields of objects in order.
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
