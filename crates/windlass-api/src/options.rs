//! The options of verbs.
//!
//! Each type converts itself to the query parameters of its request (`query_pairs`). The values are not
//! percent-encoded.

use std::{borrow::Cow, time::Duration};

use serde::Serialize;

/// The options of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// The label selector as text.
    pub labels: Option<String>,
    /// The field selector as text.
    pub fields: Option<String>,
    /// The shard selector, an expression over the object's UID. Servers without the feature `ShardedListAndWatch`
    /// ignore it.
    pub shard: Option<String>,
    /// The requested content of each object.
    pub content: Content,
    /// The maximum number of objects per page; `None` for all in one response.
    pub limit: Option<u32>,
    /// The continue token of the previous page.
    pub continue_token: Option<String>,
    /// The resource version. `None` requests the most recent state, and `"0"` any cached state. Otherwise, see
    /// [`Self::version_match`].
    pub resource_version: Option<String>,
    /// The interpretation of [`Self::resource_version`].
    pub version_match: Option<VersionMatch>,
    /// The time limit for the server.
    pub timeout: Option<Duration>,
}

/// The requested content of each object. It is sent in the `Accept` header, not as a query parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// The whole object, in the encoding that the client prefers. In protobuf, fields that are newer than this library
    /// are lost, as a type of this library would lose them.
    #[default]
    Object,
    /// The whole object in JSON, with fields that are newer than this library.
    AllFields,
    /// Only the metadata, as `PartialObjectMetadata`.
    Metadata,
    /// The columns that kubectl prints, as a `Table`.
    Table,
}

/// The interpretation of a list's resource version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    /// This version or any later one.
    NotOlderThan,
    /// Exactly this version.
    Exact,
}

/// The options of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchOptions {
    /// The label selector as text.
    pub labels: Option<String>,
    /// The field selector as text.
    pub fields: Option<String>,
    /// The shard selector, an expression over the object's UID. Servers without the feature `ShardedListAndWatch`
    /// ignore it.
    pub shard: Option<String>,
    /// The requested content of each object.
    pub content: Content,
    /// The resource version to start after. With `None` or `"0"`, the watch starts with the current objects as ADDED
    /// events.
    pub resource_version: Option<String>,
    /// The permission to send bookmarks.
    pub bookmarks: Bookmarks,
    /// Requests the current objects first, followed by a bookmark (WatchList).
    pub initial_events: InitialEvents,
    /// The time after which the server ends the watch.
    pub timeout: Option<Duration>,
}

/// Bookmarks in a watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bookmarks {
    /// The server sends no bookmarks.
    #[default]
    No,
    /// The server may send bookmarks.
    Allow,
}

/// Initial events in a watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InitialEvents {
    /// Only changes are sent, unless no resource version is given.
    #[default]
    No,
    /// The current objects are sent as ADDED events, then a bookmark with the annotation `k8s.io/initial-events-end`,
    /// then changes.
    Send,
}

/// The dry-run setting of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DryRun {
    /// The write is carried out.
    #[default]
    No,
    /// The write is processed but not stored.
    All,
}

/// The treatment of unknown and duplicate fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// The fields are dropped silently.
    Ignore,
    /// The fields are dropped with a warning.
    Warn,
    /// The write is rejected.
    Strict,
}

/// The options of a create or update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// The dry-run setting.
    pub dry_run: DryRun,
    /// The field manager. `None` stands for the first part of the user agent.
    pub field_manager: Option<String>,
    /// The treatment of unknown and duplicate fields. `None` stands for the server's default.
    pub field_validation: Option<FieldValidation>,
}

/// The options of a patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchOptions {
    /// The options of all writes.
    pub write: WriteOptions,
    /// Takes ownership of fields from other managers. Only valid for server-side apply.
    pub force: Option<bool>,
}

/// The options of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// The grace period, sent in whole seconds. `None` stands for the kind's default.
    pub grace_period: Option<Duration>,
    /// The propagation policy. `None` stands for the kind's default.
    pub propagation: Option<Propagation>,
    /// The preconditions of the deletion.
    pub preconditions: Option<Preconditions>,
    /// The dry-run setting.
    pub dry_run: DryRun,
}

/// The propagation policy of a deletion: the treatment of the object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Propagation {
    /// The dependents lose their owner reference and are retained.
    Orphan,
    /// The garbage collector deletes the dependents after the object.
    Background,
    /// The garbage collector deletes the dependents before the object.
    Foreground,
}

/// Preconditions of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preconditions {
    /// The required UID, so that a recreated object of the same name is not deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The required resource version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

type Pairs<'o> = Vec<(&'static str, Cow<'o, str>)>;

// === impl ListOptions ===

impl ListOptions {
    /// Returns the query parameters.
    #[must_use]
    pub fn query_pairs(&self) -> Vec<(&'static str, Cow<'_, str>)> {
        let mut pairs = Pairs::new();
        push(&mut pairs, "labelSelector", self.labels.as_deref());
        push(&mut pairs, "fieldSelector", self.fields.as_deref());
        push(&mut pairs, "shardSelector", self.shard.as_deref());
        push(&mut pairs, "limit", self.limit.map(|it| it.to_string()));
        push(&mut pairs, "continue", self.continue_token.as_deref());
        push(&mut pairs, "resourceVersion", self.resource_version.as_deref());
        push(&mut pairs, "resourceVersionMatch", self.version_match.map(VersionMatch::as_str));
        push(&mut pairs, "timeoutSeconds", self.timeout.map(|it| whole_seconds(it).to_string()));
        pairs
    }
}

impl VersionMatch {
    /// Returns the API's spelling.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotOlderThan => "NotOlderThan",
            Self::Exact => "Exact",
        }
    }
}

// === impl WatchOptions ===

impl WatchOptions {
    /// Returns the query parameters.
    #[must_use]
    pub fn query_pairs(&self) -> Vec<(&'static str, Cow<'_, str>)> {
        let mut pairs = vec![("watch", "true".into())];
        push(&mut pairs, "labelSelector", self.labels.as_deref());
        push(&mut pairs, "fieldSelector", self.fields.as_deref());
        push(&mut pairs, "shardSelector", self.shard.as_deref());
        push(&mut pairs, "resourceVersion", self.resource_version.as_deref());
        if self.bookmarks == Bookmarks::Allow {
            pairs.push(("allowWatchBookmarks", "true".into()));
        }
        if self.initial_events == InitialEvents::Send {
            pairs.push(("sendInitialEvents", "true".into()));
            pairs.push(("resourceVersionMatch", VersionMatch::NotOlderThan.as_str().into()));
        }
        push(&mut pairs, "timeoutSeconds", self.timeout.map(|it| whole_seconds(it).to_string()));
        pairs
    }
}

// === impl WriteOptions, PatchOptions ===

impl FieldValidation {
    /// Returns the API's spelling.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::Warn => "Warn",
            Self::Strict => "Strict",
        }
    }
}

impl WriteOptions {
    /// Returns the query parameters.
    #[must_use]
    pub fn query_pairs(&self) -> Vec<(&'static str, Cow<'_, str>)> {
        let mut pairs = Pairs::new();
        if self.dry_run == DryRun::All {
            pairs.push(("dryRun", "All".into()));
        }
        push(&mut pairs, "fieldManager", self.field_manager.as_deref());
        push(&mut pairs, "fieldValidation", self.field_validation.map(FieldValidation::as_str));
        pairs
    }
}

impl PatchOptions {
    /// Returns the query parameters.
    #[must_use]
    pub fn query_pairs(&self) -> Vec<(&'static str, Cow<'_, str>)> {
        let mut pairs = self.write.query_pairs();
        push(&mut pairs, "force", self.force.map(|it| it.to_string()));
        pairs
    }
}

// === impl DeleteOptions ===

impl DeleteOptions {
    /// Returns the request body: a `DeleteOptions` of meta/v1.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Body<'o> {
            kind: &'static str,
            api_version: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            grace_period_seconds: Option<u64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            preconditions: Option<&'o Preconditions>,
            #[serde(skip_serializing_if = "Option::is_none")]
            propagation_policy: Option<Propagation>,
            #[serde(skip_serializing_if = "Option::is_none")]
            dry_run: Option<[&'static str; 1]>,
        }
        let body = Body {
            kind: "DeleteOptions",
            api_version: "v1",
            grace_period_seconds: self.grace_period.map(|grace| grace.as_secs()),
            preconditions: self.preconditions.as_ref(),
            propagation_policy: self.propagation,
            dry_run: (self.dry_run == DryRun::All).then_some(["All"]),
        };
        serde_json::to_vec(&body).expect("strings and numbers always encode")
    }
}

fn push<'o>(pairs: &mut Pairs<'o>, name: &'static str, value: Option<impl Into<Cow<'o, str>>>) {
    pairs.extend(value.map(|value| (name, value.into())));
}

/// Converts a duration to whole seconds. Rounds up, so that a short timeout does not become zero.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_set_options_are_sent() {
        assert_eq!(ListOptions::default().query_pairs(), []);
        let options =
            ListOptions { limit: Some(5), version_match: Some(VersionMatch::Exact), ..ListOptions::default() };
        assert_eq!(options.query_pairs(), [("limit", "5".into()), ("resourceVersionMatch", "Exact".into())]);
    }

    #[test]
    fn initial_events_name_their_match() {
        let options = WatchOptions {
            bookmarks: Bookmarks::Allow,
            initial_events: InitialEvents::Send,
            timeout: Some(Duration::from_millis(1_500)),
            ..WatchOptions::default()
        };
        let query: Vec<_> = options.query_pairs().into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            query.join("&"),
            "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=2"
        );
    }

    #[test]
    fn delete_options_are_a_body() {
        let options = DeleteOptions { propagation: Some(Propagation::Foreground), ..DeleteOptions::default() };
        let body: serde_json::Value = serde_json::from_slice(&options.body()).unwrap();
        assert_eq!(
            body,
            serde_json::json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"})
        );
    }
}
