//! `windlass demo replicaset`: scales one ReplicaSet from 2 replicas to 3, step by step.
//!
//! Each step is a line that was observed in the running control plane: the watch event that becomes a delta, the store,
//! the key, the write, the expectation. If a step is not observed, the demo fails.

mod log;
mod recording;
mod walk;

use std::{error::Error, io::Write, sync::Arc, time::Duration};

use tokio::sync::oneshot;
use windlass_api::{ApiResource, ListWatch};
use windlass_client::Client;
use windlass_controllers::Controllers;
use windlass_runtime::Manager;
use windlass_server::Server;

use self::{log::Log, recording::RecordingListWatch, walk::Walk};
use super::view::View;

/// Starts a control plane and runs the walk-through on it. `pause` follows each act.
pub(super) async fn run<W: Write + Send>(
    view: View<W>,
    controllers: Controllers,
    pause: Duration,
) -> Result<(), Box<dyn Error>> {
    let server = Server::builder().build();
    let client = Client::from_service(server.service(), "default");
    let log = Log::new();
    let list_watch = {
        let (client, log) = (client.clone(), log.clone());
        move |resource: &ApiResource, namespace: Option<&str>| {
            let inner = client.list_watch(resource, namespace);
            Arc::new(RecordingListWatch::new(inner, resource, log.clone())) as Arc<dyn ListWatch>
        }
    };
    let mut manager = Manager::builder(client.clone()).list_watch(list_watch).build();
    manager.on_reconcile({
        let log = log.clone();
        move |event: &windlass_runtime::ReconcileEvent<'_>| log.reconcile(event)
    });
    controllers.add_to(&mut manager);
    let walk = Walk::new(client, &manager, log, view, pause);

    let (stop, stopped) = oneshot::channel::<()>();
    let mut control_plane = tokio::spawn(manager.run(async {
        // A message and a dropped sender both mean stop.
        let _ = stopped.await;
    }));
    let outcome = tokio::select! {
        outcome = walk.run() => outcome,
        ended = &mut control_plane => {
            ended??;
            return Err("the control plane ended by itself".into());
        }
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
    };
    drop(stop);
    control_plane.await??;
    server.stop();
    outcome
}

#[cfg(test)]
mod tests {
    use windlass_controllers::BuiltIn;

    use super::*;
    use crate::commands::demo::view::{Color, Mode};

    async fn walk(controllers: Controllers) -> (Result<(), String>, String) {
        let mut out = Vec::new();
        let view = View::new(&mut out, Mode::Plain, Color::No);
        let outcome = run(view, controllers, Duration::ZERO).await.map_err(|error| error.to_string());
        (outcome, String::from_utf8(out).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn walk_through_shows_each_step_in_order() {
        let (outcome, text) = walk(Controllers::all()).await;
        assert_eq!(outcome, Ok(()), "{text}");
        let steps: Vec<&str> = text.lines().filter_map(|line| line.get(9..)).collect();
        let mut rest = steps.iter();
        for step in [
            "watch       ReplicaSets and Pods are watched",
            "$ kubectl scale replicaset rs-a -n ns-a --replicas=3",
            "delta       Updated ReplicaSet ns-a/rs-a",
            "store       ReplicaSet ns-a/rs-a: spec.replicas 3, status.replicas 2",
            "key         ns-a/rs-a, because a ReplicaSet was updated",
            "write       create pods in ns-a: 201",
            "expectation 1 pod",
            "delta       Added Pod ns-a/rs-a-",
            "store       Pod ns-a/rs-a-",
            "key         ns-a/rs-a, because an owned Pod was added",
            "write       update replicasets.apps/status ns-a/rs-a: 200",
            "store       ReplicaSet ns-a/rs-a: spec.replicas 3, status.replicas 3",
            "seen      exactly one pod was created",
        ] {
            assert!(rest.any(|line| line.starts_with(step)), "{step:?} is missing or out of order in:\n{text}");
        }
        assert!(text.contains("; the index has 3 under the namespace ns-a\n"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn walk_through_without_the_controller_fails() {
        let all_but = [BuiltIn::Namespace, BuiltIn::ServiceAccount, BuiltIn::Nodes];
        let (outcome, text) = walk(Controllers::of(all_but)).await;
        assert_eq!(outcome, Err("not seen within 60 s: rs-a has 2 ready replicas".to_owned()));
        assert!(text.contains("MISSED    rs-a has 2 ready replicas") && !text.contains("expectation"), "{text}");
    }
}
