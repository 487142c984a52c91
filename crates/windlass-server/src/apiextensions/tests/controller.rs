//! Tests of the CRD controller: its results, and the amount of work.

use super::*;
use crate::{
    apiextensions::{
        controller::instance_deletion::InstanceDeletion,
        crd::{Crd, reads},
    },
    registry::ListParams,
};

fn bar(number: usize) -> Value {
    let (plural, kind) = (format!("bars{number}"), format!("Bar{number}"));
    json!({"metadata": {"name": format!("{plural}.ex.io")}, "spec": {
        "group": "ex.io", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}})
}

async fn delete(registry: &Registry, name: &str) {
    registry.delete(&definition_named(registry, name), DeleteParams::default()).await.unwrap();
    until("the end of the definition", async || {
        get(registry, &definition_named(registry, name)).await.is_err_and(|status| status.is_not_found()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn instance_deletion_spares_a_recreated_crd() {
    let registry = registry().await;
    create(&registry, &definitions(&registry), &foos()).await.unwrap();
    let new = established(&registry, "foos.ex.io").await;
    let object = json!({"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": {"size": 1}});
    let collection = collection(&registry, "ex.io", "v1", "foos").unwrap();
    create(&registry, &collection, &object).await.unwrap();

    let old = Crd { uid: "that of the first".to_owned(), ..Crd::read(&new) };
    InstanceDeletion::new(&registry, &old).unwrap().run().await;
    assert_eq!(get(&registry, &definition_named(&registry, "foos.ex.io")).await.unwrap(), new);
    let left = registry.list(&collection, ListParams::default()).await.unwrap();
    assert_eq!(left.items.len(), 1);
}

#[tokio::test]
async fn crd_recreated_immediately_accepts_objects() {
    let registry = registry().await;
    for round in 0..20 {
        create(&registry, &definitions(&registry), &bar(0)).await.unwrap();
        established(&registry, "bars0.ex.io").await;
        let collection = collection(&registry, "ex.io", "v1", "bars0").unwrap();
        for name in ["a", "b", "c"] {
            let object = json!({"apiVersion": "ex.io/v1", "kind": "Bar0", "metadata": {"name": name}});
            create(&registry, &collection, &object).await.unwrap_or_else(|status| panic!("round {round}: {status:?}"));
        }
        delete(&registry, "bars0.ex.io").await;
    }
}

#[tokio::test]
async fn reads_for_one_crd_are_independent_of_other_crds() {
    let registry = registry().await;
    let mut counts = Vec::new();
    for number in 0..60 {
        let before = reads();
        let name = format!("bars{number}.ex.io");
        create(&registry, &definitions(&registry), &bar(number)).await.unwrap();
        established(&registry, &name).await;
        if number % 2 == 0 {
            delete(&registry, &name).await;
        }
        counts.push(reads() - before);
    }
    let most = counts.iter().max().unwrap();
    assert!(*most <= 12, "definitions were read so often for one: {counts:?}");
}

#[tokio::test]
async fn simultaneous_crds_are_each_read_a_few_times() {
    let registry = registry().await;
    let before = reads();
    for number in 0..60 {
        create(&registry, &definitions(&registry), &bar(number)).await.unwrap();
    }
    for number in 0..60 {
        established(&registry, &format!("bars{number}.ex.io")).await;
    }
    let count = reads() - before;
    assert!(count <= 60 * 8, "{count} reads of 60 definitions");
}
