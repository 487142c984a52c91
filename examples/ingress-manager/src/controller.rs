//! The controller: creates, updates and deletes Ingresses.

use windlass::{
    Cached, ObjectBuilder as _, Runnable, Watch,
    k8s::{
        core::v1::Service,
        networking::v1::{Ingress, IngressRule, IngressSpec},
    },
    prelude::*,
    runtime::events::Note,
};

use crate::desired_rules;

/// Returns a controller that maintains an Ingress for each annotated Service. The Ingress has the name of the Service.
///
/// An Ingress of that name with another owner is not changed; an event on the Service reports it. Of its own Ingresses,
/// the controller only writes the rules. Other fields, such as certificates, can be set by other clients.
pub fn controller() -> impl Runnable {
    Controller::<Service>::new()
        .named("ingress-manager")
        .watches_with(Watch::<Ingress>::all(), namesake)
        .reconcile(reconcile)
}

/// Returns the Service with the name of an Ingress, regardless of the owner: when an Ingress with another owner is
/// deleted, the name becomes free.
fn namesake(ingress: &Cached<Ingress>) -> Option<ObjectRef<Service>> {
    let meta = ingress.meta();
    Some(ObjectRef::new(meta.name().clone()).within(meta.namespace()?.clone()))
}

async fn reconcile(service: Arc<Service>, cx: Context) -> windlass::Result<Action> {
    if service.is_deleting() {
        // The garbage collector deletes the Ingress with its owner.
        return Ok(Action::await_change());
    }
    let found = cx.client().get_opt(service.object_ref().cast::<Ingress>()).await?;
    match (desired_rules(&service), found) {
        (Ok(None), None) => {}
        (Ok(None), Some(found)) if !found.is_controlled_by(&*service) => {}
        (Ok(None), Some(found)) => remove(&service, &found, &cx).await?,
        (Ok(Some(rules)), None) => create(&service, rules, &cx).await?,
        (Ok(Some(_)), Some(found)) if !found.is_controlled_by(&*service) => {
            let why = format!("the Ingress {} has another owner and is not changed", found.name());
            cx.recorder().record(&*service, Note::warning("IngressTaken", why));
        }
        (Ok(Some(rules)), Some(found)) => correct(&service, &found, rules, &cx).await?,
        (Err(refusal), _) => cx.recorder().record(&*service, Note::warning("IngressRefused", refusal.to_string())),
    }
    Ok(Action::await_change())
}

async fn create(service: &Service, rules: Vec<IngressRule>, cx: &Context) -> windlass::Result<()> {
    let ingress = Ingress::named(service.name())
        .in_namespace(service.namespace().unwrap_or_default())
        .with(|ingress| ingress.spec = Some(IngressSpec { rules: Some(rules), ..IngressSpec::default() }))
        .controlled_by(service);
    match cx.client().create(&ingress).await {
        Ok(_) => tell(service, "IngressCreated", cx),
        // The cache is stale; the event of the existing Ingress triggers another reconcile.
        Err(error) if error.is_already_exists() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

async fn correct(service: &Service, found: &Ingress, rules: Vec<IngressRule>, cx: &Context) -> windlass::Result<()> {
    let has = found.spec.as_ref().and_then(|spec| spec.rules.as_ref());
    if has == Some(&rules) || found.is_deleting() {
        return Ok(());
    }
    // The update contains the version that was read. If the object has changed since, the update conflicts, and the
    // next reconcile sees the change.
    let mut corrected = found.clone();
    corrected.spec.get_or_insert_default().rules = Some(rules);
    cx.client().update(&corrected).await?;
    tell(service, "IngressUpdated", cx);
    Ok(())
}

async fn remove(service: &Service, found: &Ingress, cx: &Context) -> windlass::Result<()> {
    // The UID prevents the deletion of a recreated Ingress of the same name.
    let deletion = cx.client().delete::<Ingress>(found.object_ref()).uid(found.uid().unwrap_or_default());
    match deletion.await {
        Ok(_) => tell(service, "IngressRemoved", cx),
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn tell(service: &Service, reason: &'static str, cx: &Context) {
    cx.recorder().record(service, Note::normal(reason, format!("the Ingress {}", service.name())));
}
