//! The informer's handler, and its progress.

use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use clap::ValueEnum;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use serde::Deserialize;
use tokio::sync::Notify;
use windlass_api::{DynamicObject, Object};
use windlass_cache::{Cached, Handler, Notification};
use windlass_views::{
    HasView, View,
    core::v1::{ConfigMapView, PodView, SecretView},
    meta::v1::ObjectMetaView,
};

/// A kind with five fields that a controller is likely to read.
pub(super) trait FiveFields: HasView {
    fn read_five(view: Self::View<'_>);
}

/// The work for each object.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Work {
    /// Produces its key
    Key,
    /// Decodes one field
    Project,
    /// Reads five fields through a view
    View,
    /// Decodes the object
    Decode,
}

/// Counters of the handler.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) awaited: u64,
    updates: AtomicU64,
    begun: Notify,
    done: Notify,
}

/// Returns a handler that processes each object and counts the updates.
pub(super) fn handler<K: Object + FiveFields>(work: Work, progress: Arc<Progress>) -> impl Handler<K> {
    move |notification: Notification<K>| {
        let (is_update, object) = match &notification {
            Notification::Added { object, .. } => (false, object),
            Notification::Updated { new, .. } => (true, new),
            Notification::Deleted(deleted) => (false, &deleted.object),
        };
        work.deal_with(object);
        if is_update {
            progress.count();
        }
    }
}

impl Progress {
    pub(super) fn new(awaited: u64) -> Self {
        Self { awaited, updates: AtomicU64::new(0), begun: Notify::new(), done: Notify::new() }
    }

    fn count(&self) {
        let seen = self.updates.fetch_add(1, Ordering::Relaxed) + 1;
        if seen == 1 {
            self.begun.notify_one();
        }
        if seen == self.awaited {
            self.done.notify_one();
        }
    }

    /// Returns the number of updates.
    pub(super) fn seen(&self) -> u64 {
        self.updates.load(Ordering::Relaxed)
    }

    /// Waits for the first update, without using CPU time.
    pub(super) async fn begun(&self) {
        self.begun.notified().await;
    }

    /// Waits until all expected updates have arrived.
    pub(super) async fn all(&self) {
        self.done.notified().await;
    }
}

impl Work {
    fn deal_with<K: Object + FiveFields>(self, object: &Cached<K>) {
        #[derive(Deserialize)]
        struct Projection {
            status: Option<Status>,
        }
        #[derive(Deserialize)]
        struct Status {
            phase: Option<String>,
        }
        match self {
            Self::Key => {
                black_box(object.object_ref());
            }
            Self::Project => {
                let read = object.project::<Projection>().ok().and_then(|read| read.status);
                black_box(read.and_then(|status| status.phase));
            }
            Self::View => {
                black_box(object.view(|view| K::read_five(view)).is_ok());
            }
            Self::Decode => {
                black_box(object.get().is_ok());
            }
        }
    }
}

impl FiveFields for Pod {
    fn read_five(view: PodView<'_>) {
        let (metadata, spec, status) = (view.metadata(), view.spec(), view.status());
        let ready = status.conditions().iter().find(|condition| condition.type_() == "Ready");
        black_box((
            metadata.labels().get("app"),
            spec.node_name(),
            spec.containers().first().and_then(windlass_views::core::v1::ContainerView::image),
            status.phase(),
            ready.map(|ready| ready.status() == "True"),
        ));
    }
}

impl FiveFields for Secret {
    fn read_five(view: SecretView<'_>) {
        black_box((view.type_(), view.immutable(), view.data().len()));
        read_metadata(view.metadata());
    }
}

impl FiveFields for ConfigMap {
    fn read_five(view: ConfigMapView<'_>) {
        black_box((view.immutable(), view.data().len(), view.binary_data().is_empty()));
        read_metadata(view.metadata());
    }
}

impl FiveFields for DynamicObject {
    fn read_five(view: View<'_>) {
        black_box((view.get::<View<'_>>("spec").is_present(), view.get::<View<'_>>("status").is_present()));
        read_metadata(view.get("metadata"));
    }
}

fn read_metadata(metadata: ObjectMetaView<'_>) {
    black_box((metadata.name(), metadata.labels().get("app"), metadata.generation()));
}
