//! Certificates that a program creates.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use conformance::{eventually, on_each_target, unique};
use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        core::v1::ConfigMap,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use parking_lot::Mutex;
use serde_json::json;
use windlass_api::{ObjectExt as _, Patch};
use windlass_webhook::{Webhooks, admission::Request};

use super::{
    Program, ca_bundle_targets, config_map, in_force, kept, namespace, register_mutating, register_validating,
    register_websites, unregister,
};

#[tokio::test]
async fn replicas_share_a_certificate_and_inject_its_ca() {
    on_each_target(|target| async {
        let (client, ns, name) = (&target.client, namespace(&target).await, unique("trust"));
        let webhooks = || Webhooks::builder().mutator(|_: &mut ConfigMap, _: &Request| Ok(())).build().unwrap();
        let start = || Program::start(&target, &ns, webhooks(), |made| made.inject_into(ca_bundle_targets(&name)));
        let (one, two) = tokio::join!(start(), start());
        let shown = [one.served_with(client).await, two.served_with(client).await];
        assert!(shown[0].is_some());
        assert_eq!(shown[0], shown[1], "both serve with what is in the Secret");
        let ca = kept(client, &ns, "ca.crt").await.unwrap();

        // The configurations may be created after the program has started.
        register_mutating(client, &name, json!([one.webhook("/mutate--v1-configmap", &["CREATE"])])).await;
        register_validating(client, &name, one.webhook("/validate--v1-configmap", &["CREATE"])).await;
        let webhook = json!({"clientConfig": one.client_config("/convert"), "conversionReviewVersions": ["v1"]});
        let group = format!("{name}.example.com");
        register_websites(client, &group, json!({"strategy": "Webhook", "webhook": webhook})).await;
        let told = async || {
            let mutating = client.get::<MutatingWebhookConfiguration>(&*name).await.unwrap().webhooks?.pop()?;
            let validating = client.get::<ValidatingWebhookConfiguration>(&*name).await.unwrap().webhooks?.pop()?;
            let definition = client.get::<CustomResourceDefinition>(format!("websites.{group}")).await.unwrap();
            let converting = definition.spec.conversion?.webhook?.client_config?;
            let bundles =
                [mutating.client_config.ca_bundle?, validating.client_config.ca_bundle?, converting.ca_bundle?];
            bundles.iter().all(|bundle| bundle.0 == ca.as_bytes()).then_some(())
        };
        eventually("all three are told", told).await;

        let forget = json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]);
        client.patch::<MutatingWebhookConfiguration>(&*name, Patch::Json(forget)).await.unwrap();
        eventually("what was taken away is put back", told).await;
        unregister(client, &name).await;
        one.stop().await;
        two.stop().await;
        target
    })
    .await;
}

#[tokio::test]
async fn certificate_rotation_under_load_fails_no_call() {
    on_each_target(|target| async {
        let (client, ns, name) = (&target.client, namespace(&target).await, unique("rotation"));
        let webhooks = Webhooks::builder()
            .mutator(|config: &mut ConfigMap, _: &Request| {
                config.labels_mut().insert("seen".to_owned(), "yes".to_owned());
                Ok(())
            })
            .build()
            .unwrap();
        let program = Program::start(&target, &ns, webhooks, |made| {
            let (authority, serving) = (Duration::from_secs(12), Duration::from_secs(6));
            made.inject_into(ca_bundle_targets(&name)).lifetimes(authority, serving).settle(Duration::from_secs(1))
        })
        .await;
        register_mutating(client, &name, json!([program.webhook("/mutate--v1-configmap", &["CREATE"])])).await;
        let call = async || client.create(&config_map(&ns, "load", &[])).dry_run().await;
        in_force(&target, &name, async || call().await.ok()?.labels().contains_key("seen").then_some(())).await;

        let (failed, calls, enough) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        let load = async || {
            while !enough.load(Relaxed) {
                let seen = call().await.is_ok_and(|made| made.labels().contains_key("seen"));
                calls.fetch_add(1, Relaxed);
                failed.fetch_add(usize::from(!seen), Relaxed);
            }
        };
        let seen = Mutex::new((BTreeSet::new(), BTreeSet::new()));
        // Three successive CAs sign the serving certificate while calls continue.
        let watch = async {
            eventually("three authorities", async || {
                let (issuer, served) = (kept(client, &ns, "issuer.crt").await?, program.served_with(client).await?);
                let mut seen = seen.lock();
                seen.0.insert(issuer);
                seen.1.insert(served);
                (seen.0.len() >= 3 && seen.1.len() >= 4).then_some(())
            })
            .await;
            enough.store(true, Relaxed);
        };
        tokio::join!(watch, load(), load());
        let (calls, failed) = (calls.into_inner(), failed.into_inner());
        println!("{calls} calls, {failed} failed");
        assert_eq!(failed, 0);
        assert!(calls > 100);
        unregister(client, &name).await;
        program.stop().await;
        target
    })
    .await;
}
