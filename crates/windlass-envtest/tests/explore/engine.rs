//! The engine itself: plans, replays, reports.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use windlass_api::{
    DynamicObject, GroupVersionResource, ObjectBuilder as _, ObjectExt as _,
    k8s_openapi::api::core::v1::{ConfigMap, Secret},
};
use windlass_envtest::explore::{EntryKind, ObjectChange, Plan, Scenario, explore, replay};
use windlass_runtime::{Action, Context, Controller, Result, Watch};

use crate::app;

async fn reconcile(app: Arc<ConfigMap>, cx: Context) -> Result<Action> {
    let secret = Secret::named(app.name()).in_namespace("default").controlled_by(&*app);
    cx.client().apply(&secret).await?;
    Ok(Action::await_change())
}

/// Performs two writes, and retries only the first of them.
async fn reconcile_once(app: Arc<ConfigMap>, cx: Context) -> Result<Action> {
    if cx.live().get_opt::<Secret>("web").await?.is_none() {
        cx.client().create(&Secret::named("web").in_namespace("default")).await?;
        cx.client().create(&Secret::named("web-extra").in_namespace("default").controlled_by(&*app)).await?;
    }
    Ok(Action::await_change())
}

fn scenario(name: &str) -> Scenario {
    Scenario::new(name).step("an app", |client| async move {
        client.create(&app("a secret")).await?;
        Ok(())
    })
}

fn right() -> Scenario {
    scenario("right")
        .step("delete the Secret", |client| async move {
            client.delete::<Secret>("web").await?;
            Ok(())
        })
        .step("another app", |client| async move {
            client.create(&ConfigMap::named("other").in_namespace("default")).await?;
            Ok(())
        })
        .settled("there is a secret", |state| state.get::<Secret>("web").is_some())
        .order(ObjectChange::created::<ConfigMap>(), ObjectChange::created::<Secret>())
        .controller(|manager| {
            manager
                .add(Controller::<ConfigMap>::watching(Watch::within("default")).owns::<Secret>().reconcile(reconcile));
        })
}

fn wrong() -> Scenario {
    scenario("wrong").controller(|manager| {
        manager.add(Controller::<ConfigMap>::watching(Watch::within("default")).reconcile(reconcile_once));
    })
}

#[test]
fn correct_controller_survives_two_faults() {
    let report = explore(right().pairs(30));
    report.assert();
    assert!(report.runs > 60, "{report}");
    assert_eq!(report.timeline.iter().filter(|entry| entry.kind == EntryKind::Step).count(), 4);
}

#[test]
fn every_fault_kind_is_injected() {
    let plans = [
        ("crash@1", "the program crashes after it"),
        ("lose@1", "the response is lost"),
        ("refuse@1", "the server rejects it with an internal error"),
        ("depose@1", "its delayed write arrives"),
        ("rewind@3", "lists secrets as of version"),
        ("freeze@secrets:1", "the cache of secrets catches up"),
        ("lag@configmaps:1", "the cache of configmaps catches up"),
        ("skip@secrets:2", "the cache of secrets loses its watch"),
        ("miss@secrets:2", "the cache of secrets loses its watch"),
        ("cut@configmaps:1", "the cache of configmaps loses its watch"),
    ];
    for (plan, words) in plans {
        let plan: Plan = plan.parse().unwrap();
        let report = replay(wrong_when_disturbed(), &plan);
        let story: Vec<_> = report.failures.iter().flat_map(|failure| &failure.timeline).collect();
        assert!(
            story.iter().any(|entry| entry.kind == EntryKind::Fault && entry.what.contains(words)),
            "{plan}: {report}"
        );
        assert_eq!(report.not_reached, 0, "{plan}");
    }
}

/// The correct program in a scenario that fails every run with a fault, so that its event log is reported.
fn wrong_when_disturbed() -> Scenario {
    let runs = AtomicUsize::new(0);
    right().settled("it is one of the first two runs", move |_| runs.fetch_add(1, Ordering::SeqCst) < 2)
}

#[test]
fn failure_is_reported_replayed_and_written_to_a_page() {
    let report = explore(wrong().pairs(20));
    let first = &report.failures[0];
    assert_eq!(first.plan.to_string(), "crash@1", "{report}");
    assert_eq!(first.findings, ["secrets default/web-extra is missing at the end"]);
    let plans: Vec<_> = report.failures.iter().map(|failure| failure.plan.perturbations()).collect();
    let holds_another =
        |plan: &[_]| plan.len() > 1 && plans.iter().any(|other| other.len() == 1 && plan.contains(&other[0]));
    assert!(!plans.iter().any(|plan| holds_another(plan)), "not the smallest plans: {report}");
    let text = report.to_string();
    assert!(
        text.contains("WINDLASS_PLAN='wrong: crash@1'") && text.contains("has crashed, and its memory is lost"),
        "{text}"
    );
    let page = report.html();
    assert!(page.contains("<code>crash@1</code>") && !page.contains("<script") && !page.contains("http"), "{page}");

    let again = replay(wrong(), &first.plan);
    assert_eq!(again.failures[0].timeline, first.timeline);
    assert!(replay(wrong(), &Plan::default()).is_clean());
}

#[test]
fn failing_first_run_is_not_explored() {
    let restless = scenario("restless").controller(|manager| {
        manager.add(Controller::<ConfigMap>::watching(Watch::within("default")).reconcile(
            |app: Arc<ConfigMap>, cx: Context| async move {
                cx.client().create(&Secret::with_generated_name(app.name()).in_namespace("default")).await?;
                Ok::<_, windlass_runtime::Error>(Action::requeue_after(std::time::Duration::from_secs(5)))
            },
        ));
    });
    let report = explore(restless);
    assert_eq!(report.runs, 0);
    assert!(report.reference[0].contains("it has not settled"), "{report}");
}

#[test]
fn lease_renewals_are_not_reported_as_a_loop() {
    // The lease is renewed every few seconds. In total, that is more than the maximum number of requests of a program
    // that does not settle.
    let patient = right().patience(Duration::from_hours(3)).step("time passes", |_| async {
        tokio::time::sleep(Duration::from_hours(2)).await;
        Ok(())
    });
    let report = replay(patient, &"depose@1".parse().unwrap());
    report.assert();
    assert_eq!(report.not_reached, 0, "{report}");
}

const WIDGETS: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object, properties: {size: {type: integer, maximum: 3}}}
";

#[test]
fn crds_in_a_folder_are_established_before_start() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("widgets.yaml"), WIDGETS).unwrap();
    let refused = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&refused);
    let report = explore(right().crds(folder.path()).step("a widget", move |client| {
        let refused = Arc::clone(&refused);
        async move {
            let widget = |name: &str, size: u32| -> DynamicObject {
                let metadata = json!({"name": name, "namespace": "default"});
                serde_json::from_value(
                    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "size": size}),
                )
                .unwrap()
            };
            let widgets =
                client.dynamic_at(&GroupVersionResource::new("example.com", "v1", "widgets")).within("default");
            widgets.create(&widget("small", 1)).await?;
            let too_large = widgets.create(&widget("large", 4)).await;
            refused.fetch_add(usize::from(too_large.is_err_and(|error| error.is_invalid())), Ordering::SeqCst);
            Ok(())
        }
    }));
    report.assert();
    assert!(report.runs > 5 && counted.load(Ordering::SeqCst) >= report.runs, "{report}");
}

#[test]
fn unreadable_crds_fail_the_first_run() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("widgets.yaml"), "kind: [").unwrap();
    let report = explore(right().crds(folder.path()));
    assert_eq!(report.runs, 0);
    assert!(report.reference[0].contains("widgets.yaml"), "{report}");
}
