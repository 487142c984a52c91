//! What is done about it.

use windlass::{
    Cached, ObjectBuilder as _, Runnable, Watch,
    k8s::{
        core::v1::Service,
        networking::v1::{Ingress, IngressRule, IngressSpec},
    },
    prelude::*,
    runtime::events::Note,
};

use crate::wish;

/// Keeps for each Service that asks for it an Ingress of its name.
///
/// An Ingress of that name that is somebody else's stays as it is, and the Service is told by an event. Of its own it keeps the
/// rules and leaves the rest, such as certificates, to others.
pub fn controller() -> impl Runnable {
    Controller::<Service>::new()
        .named("ingress-manager")
        .watches_with(Watch::<Ingress>::all(), namesake)
        .reconcile(reconcile)
}

/// The Service of an Ingress, whoever owns it: one that is in the way matters, too, when it goes.
fn namesake(ingress: &Cached<Ingress>) -> Option<ObjectRef<Service>> {
    let meta = ingress.meta();
    Some(ObjectRef::new(meta.name().clone()).within(meta.namespace()?.clone()))
}

async fn reconcile(service: Arc<Service>, cx: Context) -> windlass::Result<Action> {
    if service.is_deleting() {
        // The garbage collector takes the Ingress with its owner.
        return Ok(Action::await_change());
    }
    let found = cx.client().get_opt(service.object_ref().cast::<Ingress>()).await?;
    match (wish(&service), found) {
        (Ok(None), None) => {}
        (Ok(None), Some(found)) if !found.is_controlled_by(&*service) => {}
        (Ok(None), Some(found)) => remove(&service, &found, &cx).await?,
        (Ok(Some(rules)), None) => create(&service, rules, &cx).await?,
        (Ok(Some(_)), Some(found)) if !found.is_controlled_by(&*service) => {
            let why = format!("the Ingress {} is not of this Service, and is left as it is", found.name());
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
        // The cache is behind; what it will see is a reason to look again.
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
    // With the version that was read: a change in between is a conflict, and the next reconcile sees it.
    let mut corrected = found.clone();
    corrected.spec.get_or_insert_default().rules = Some(rules);
    cx.client().update(&corrected).await?;
    tell(service, "IngressUpdated", cx);
    Ok(())
}

async fn remove(service: &Service, found: &Ingress, cx: &Context) -> windlass::Result<()> {
    // This one, and not another that has got its name since.
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
