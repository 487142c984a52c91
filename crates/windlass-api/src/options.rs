//! What can be asked of each verb beside the object itself.
//!
//! Each type turns itself into the query parameters of its request (`query_pairs`); values are not percent-encoded yet.

use std::{borrow::Cow, time::Duration};

use serde::Serialize;

/// Which objects to list, and how fresh.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Label selector in its string form.
    pub labels: Option<String>,
    /// Field selector in its string form.
    pub fields: Option<String>,
    /// Shard selector, an expression over the object's uid. Servers without the feature `ShardedListAndWatch` pass it over.
    pub shard: Option<String>,
    /// How much of each object is asked for.
    pub content: Content,
    /// How many objects a page may hold; `None` for all at once.
    pub limit: Option<u32>,
    /// Where to go on, from the page before.
    pub continue_token: Option<String>,
    /// `None`: the most recent state; "0": any cached state; else see [`Self::version_match`].
    pub resource_version: Option<String>,
    /// How [`Self::resource_version`] is meant.
    pub version_match: Option<VersionMatch>,
    /// How long the server may take.
    pub timeout: Option<Duration>,
}

/// How much of each object is asked for. Not a parameter of the request: it is in what the caller accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// All of it.
    #[default]
    Object,
    /// Its metadata only, as `PartialObjectMetadata`.
    Metadata,
    /// What people look at first, in columns, as a `Table`.
    Table,
}

/// How a list's resourceVersion is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    /// That version or any later one.
    NotOlderThan,
    /// That version.
    Exact,
}

/// Which objects to watch, and from where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchOptions {
    /// Label selector in its string form.
    pub labels: Option<String>,
    /// Field selector in its string form.
    pub fields: Option<String>,
    /// Shard selector, an expression over the object's uid. Servers without the feature `ShardedListAndWatch` pass it over.
    pub shard: Option<String>,
    /// How much of each object is asked for.
    pub content: Content,
    /// Changes after this version; `None` or "0" starts with the present state as ADDED events.
    pub resource_version: Option<String>,
    /// Whether the server may send bookmarks.
    pub bookmarks: Bookmarks,
    /// Whether the present state comes first, closed by a bookmark (WatchList).
    pub initial_events: InitialEvents,
    /// When the server is to end the watch.
    pub timeout: Option<Duration>,
}

/// Whether a watch carries bookmarks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bookmarks {
    /// None are sent.
    #[default]
    No,
    /// The server may send them.
    Allow,
}

/// Whether a watch starts with the present state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InitialEvents {
    /// Only changes, unless no version is given.
    #[default]
    No,
    /// The present state as ADDED events, then a bookmark annotated `k8s.io/initial-events-end`, then changes.
    Send,
}

/// Whether a write is carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DryRun {
    /// It is.
    #[default]
    No,
    /// Everything but the storing.
    All,
}

/// What becomes of unknown and duplicate fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// Dropped in silence.
    Ignore,
    /// Dropped with a warning.
    Warn,
    /// Refused.
    Strict,
}

/// How to create or update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Whether the write is carried out.
    pub dry_run: DryRun,
    /// In whose name the fields are owned; `None`: the user agent's first part.
    pub field_manager: Option<String>,
    /// What becomes of unknown and duplicate fields; `None`: the server's default.
    pub field_validation: Option<FieldValidation>,
}

/// How to patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchOptions {
    /// As for every write.
    pub write: WriteOptions,
    /// Whether to take fields from other owners; server-side apply only.
    pub force: Option<bool>,
}

/// How to delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// How long the object may take to end, in seconds on the wire; `None`: the kind's default.
    pub grace_period: Option<Duration>,
    /// What becomes of the objects that it owns; `None`: the kind's default.
    pub propagation: Option<Propagation>,
    /// What must hold of the object.
    pub preconditions: Option<Preconditions>,
    /// Whether the deletion is carried out.
    pub dry_run: DryRun,
}

/// What becomes of the objects that a deleted object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Propagation {
    /// They lose their owner and stay.
    Orphan,
    /// They are deleted after it, by the garbage collector.
    Background,
    /// They are deleted before it.
    Foreground,
}

/// What must hold of an object to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preconditions {
    /// It is this object, not a later one of the same name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// It is in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

type Pairs<'o> = Vec<(&'static str, Cow<'o, str>)>;

// === impl ListOptions ===

impl ListOptions {
    /// The query parameters.
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
    /// As the API spells it.
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
    /// The query parameters.
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
    /// As the API spells it.
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
    /// The query parameters.
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
    /// The query parameters.
    #[must_use]
    pub fn query_pairs(&self) -> Vec<(&'static str, Cow<'_, str>)> {
        let mut pairs = self.write.query_pairs();
        push(&mut pairs, "force", self.force.map(|it| it.to_string()));
        pairs
    }
}

// === impl DeleteOptions ===

impl DeleteOptions {
    /// The request body: a `DeleteOptions` of meta/v1.
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

/// Servers count in seconds; a part of one counts as a whole, so that a short timeout does not become none.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_set_is_asked() {
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
