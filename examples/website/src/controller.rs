//! The controller of websites.

use serde_json::{Value, json};
use windlass::{
    Error, ObjectBuilder as _, Patch, Resource, Runnable, Watch,
    api::{Conditions as _, NewCondition},
    k8s::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Service},
    },
    predicate,
    prelude::*,
    rbac,
    runtime::{
        events::Note,
        finalizers::{Finalized, Finalizers},
        upsert::create_or_patch,
    },
};

use crate::api::{READY, Website};

/// The ConfigMap with an entry for each website of a namespace. It has no owner; a finalizer removes the entry of a
/// deleted website.
const DIRECTORY: &str = "websites";

/// Returns the controller. It reconciles a website when its spec or one of its dependents changes.
pub fn controller() -> impl Runnable {
    Controller::watching(Watch::<Website>::all().filter(predicate::generation_changed()))
        .owns::<ConfigMap>()
        .owns::<Deployment>()
        .owns::<Service>()
        .reconcile(reconcile)
}

#[rbac(groups = "shop.example.com", resources = "websites", verbs = "get,list,watch,patch")]
#[rbac(groups = "shop.example.com", resources = "websites/status", verbs = "patch")]
#[rbac(groups = "shop.example.com", resources = "websites/finalizers", verbs = "update")]
#[rbac(groups = "", resources = "configmaps,services", verbs = "get,list,watch,create,patch")]
#[rbac(groups = "apps", resources = "deployments", verbs = "get,list,watch,create,patch")]
#[rbac(groups = "core,events.k8s.io", resources = "events", verbs = "create,patch")]
async fn reconcile(website: Arc<Website>, cx: Context) -> windlass::Result<Action> {
    let finalizers = Finalizers::new().then("shop.example.com/directory", leave_directory);
    let Finalized::Live(website) = finalizers.finalize(website, &cx).await? else {
        return Ok(Action::await_change());
    };
    cx.client().apply(&page(&website)?).await?;
    cx.client().apply(&service(&website)?).await?;
    let deployment = cx.client().apply(&deployment(&website)?).await?;
    enter_directory(&website, &cx).await?;
    report(&website, &deployment, &cx).await?;
    Ok(Action::await_change())
}

// === the dependents of a website ===

fn page(website: &Website) -> windlass::Result<ConfigMap> {
    child(website, json!({"data": {"index.html": format!("<h1>{}</h1>\n", website.spec.greeting)}}))
}

fn service(website: &Website) -> windlass::Result<Service> {
    child(website, json!({"spec": {"selector": labels(website), "ports": [{"name": "http", "port": 80}]}}))
}

fn deployment(website: &Website) -> windlass::Result<Deployment> {
    let container = json!({
        "name": "server",
        "image": website.spec.image,
        "ports": [{"name": "http", "containerPort": 80}],
        "volumeMounts": [{"name": "page", "mountPath": "/usr/share/nginx/html"}],
    });
    let pod = json!({
        "containers": [container],
        "volumes": [{"name": "page", "configMap": {"name": website.name()}}],
    });
    child(
        website,
        json!({"spec": {
            "replicas": website.spec.replicas,
            "selector": {"matchLabels": labels(website)},
            "template": {"metadata": {"labels": labels(website)}, "spec": pod},
        }}),
    )
}

fn labels(website: &Website) -> Value {
    json!({"app.kubernetes.io/name": "website", "app.kubernetes.io/instance": website.name()})
}

/// Builds a dependent with the website's name. The garbage collector deletes it with the website.
fn child<K: Resource>(website: &Website, mut body: Value) -> windlass::Result<K> {
    body["metadata"] = json!({"name": website.name(), "namespace": website.namespace(), "labels": labels(website)});
    Ok(serde_json::from_value::<K>(body).map_err(Error::other)?.controlled_by(website))
}

// === the directory ===

async fn enter_directory(website: &Website, cx: &Context) -> windlass::Result<()> {
    let namespace = website.namespace().unwrap_or_default();
    create_or_patch(cx.live(), ConfigMap::named(DIRECTORY).in_namespace(namespace), |directory| {
        directory.data.get_or_insert_default().insert(website.name().to_owned(), website.spec.greeting.clone());
    })
    .await?;
    Ok(())
}

/// Finalizes a website: removes its entry from the directory. Retried if it fails.
async fn leave_directory(website: Arc<Website>, cx: Context) -> windlass::Result<()> {
    let directory = ObjectRef::<ConfigMap>::new(DIRECTORY).within(website.namespace().unwrap_or_default());
    let without = Patch::Merge(json!({"data": {website.name(): null}}));
    match cx.live().patch(directory, without).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

// === the status ===

/// Writes the status if it has changed.
async fn report(website: &Website, deployment: &Deployment, cx: &Context) -> windlass::Result<()> {
    let wanted = website.spec.replicas.unwrap_or(1);
    let there = deployment.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
    let (ready, reason) = if there >= wanted { (true, "Serving") } else { (false, "Starting") };
    let message = format!("{there} of {wanted} servers are ready");

    let mut status = website.status.clone().unwrap_or_default();
    let was_ready = status.conditions.is_true(READY);
    let condition = NewCondition::new(READY, ready, reason).message(&message);
    status.conditions.set(condition.observed(website.metadata.generation.unwrap_or_default()), cx.clock());
    status.observed_generation = website.metadata.generation;
    status.ready_replicas = there;
    if website.status.as_ref() == Some(&status) {
        return Ok(());
    }
    let patch = Patch::Merge(json!({"status": status}));
    cx.client().patch(website.object_ref(), patch).subresource("status").await?;
    if ready != was_ready {
        let note = if ready { Note::normal(reason, message) } else { Note::warning(reason, message) };
        cx.recorder().record(website, note);
    }
    Ok(())
}
