use std::{fs, sync::Arc as StdArc};

use http::Response;

use super::*;
use crate::{
    body::Body,
    testing::{Fake, Folder},
};

const GROUPS: &str = r#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"apps"},"versions":[
  {"version":"v1","freshness":"Current","resources":[
    {"resource":"deployments","responseKind":{"group":"apps","version":"v1","kind":"Deployment"},"scope":"Namespaced",
     "singularResource":"deployment","verbs":["list"],"shortNames":["deploy"],"categories":["all"],"subresources":[
       {"subresource":"scale","responseKind":{"group":"autoscaling","version":"v1","kind":"Scale"},"verbs":["get"]},
       {"subresource":"status","responseKind":{"group":"apps","version":"v1","kind":"Deployment"},"verbs":["get"]}]}]}]}]}"#;
const CORE: &str = r#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{},"versions":[
  {"version":"v1","freshness":"Current","resources":[
    {"resource":"nodes","responseKind":{"group":"","version":"v1","kind":"Node"},"scope":"Cluster","verbs":["get"]}]}]}]}"#;
const HOUR: Duration = Duration::from_hours(1);

fn server() -> Fake {
    Fake::new(|request| {
        Response::new(match request.uri().path() {
            "/api" => CORE.into(),
            "/apis" => GROUPS.into(),
            "/apis/apps/v1" => r#"{"resources":[{"name":"deployments","namespaced":true,"kind":"Deployment"}]}"#.into(),
            _ => return Response::builder().status(404).body(Body::empty()).unwrap(),
        })
    })
}

/// Returns a clock that is ahead of the files by some hours.
fn hours_ahead(hours: i64) -> Clock {
    let system = Clock::system();
    Clock::from_fn(move || system.now() + jiff::SignedDuration::from_hours(hours))
}

#[tokio::test(start_paused = true)]
async fn discovery_is_cached_until_invalidated() {
    let fake = server();
    let cached = CachedDiscovery::in_memory(fake.client());
    assert_eq!(cached.age(), None);
    let (one, two) = futures::join!(cached.get(), cached.get());
    assert!(StdArc::ptr_eq(&one.unwrap(), &two.unwrap()));
    tokio::time::advance(HOUR * 1000).await;
    cached.get().await.unwrap();
    assert_eq!((fake.seen(), cached.age()), (vec!["GET /api".to_owned(), "GET /apis".to_owned()], Some(HOUR * 1000)));
    cached.invalidate();
    assert_eq!(cached.age(), None);
    cached.clone().get().await.unwrap();
    assert_eq!((fake.seen().len(), cached.age()), (4, Some(Duration::ZERO)));
}

#[tokio::test(start_paused = true)]
async fn expired_discovery_is_requested_again() {
    let fake = server();
    let cached = CachedDiscovery::in_memory(fake.client()).with_time_to_live(HOUR);
    cached.get().await.unwrap();
    tokio::time::advance(HOUR / 2).await;
    cached.get().await.unwrap();
    assert_eq!(fake.seen().len(), 2);
    tokio::time::advance(HOUR / 2).await;
    cached.get().await.unwrap();
    assert_eq!(fake.seen().len(), 4);
}

#[tokio::test]
async fn failures_are_not_remembered() {
    let fake = Fake::failure(500, "");
    let cached = CachedDiscovery::in_memory(fake.client());
    cached.get().await.unwrap_err();
    let asked = fake.seen().len();
    cached.get().await.unwrap_err();
    assert!(fake.seen().len() > asked);
}

#[tokio::test]
async fn discovery_cache_is_shared_between_processes() {
    let (fake, folder) = (server(), Folder::new("discovery-disk"));
    let first = CachedDiscovery::on_disk(fake.client(), folder.path(), HOUR, Clock::system());
    let written = first.get().await.unwrap();
    let second = CachedDiscovery::on_disk(fake.client(), folder.path(), HOUR, Clock::system());
    let read = second.get().await.unwrap();
    assert_eq!(read.groups, written.groups);
    assert_eq!((fake.seen().len(), second.age()), (2, None), "no request, and read from disk");
    let text = fs::read_to_string(folder.path().join("apps/v1/serverresources.json")).unwrap();
    assert!(
        text.contains(r#""name":"deployments/scale","singularName":"","namespaced":true,"group":"autoscaling""#),
        "{text}"
    );
    assert!(folder.path().join("servergroups.json").exists() && folder.path().join("v1/serverresources.json").exists());
    // After invalidation, files are ignored.
    second.invalidate();
    second.get().await.unwrap();
    assert_eq!(fake.seen().len(), 4);
}

#[tokio::test]
async fn expired_and_broken_cache_files_are_ignored() {
    let (fake, folder) = (server(), Folder::new("discovery-broken"));
    let cached = |clock| CachedDiscovery::on_disk(fake.client(), folder.path(), HOUR, clock);
    cached(Clock::system()).get().await.unwrap();
    cached(hours_ahead(2)).get().await.unwrap();
    assert_eq!(fake.seen().len(), 4);
    // Only the broken part is requested.
    folder.write("apps/v1/serverresources.json", "{\"kind\":");
    let discovery = cached(Clock::system()).get().await.unwrap();
    assert_eq!(fake.seen()[4..], ["GET /apis/apps/v1"]);
    assert!(discovery.find_kind("apps", "v1", "Deployment").is_some());
    // Without the list of groups, everything is requested.
    folder.write("servergroups.json", "no json");
    assert_eq!(cached(Clock::system()).get().await.unwrap().groups.len(), 2);
    assert_eq!(fake.seen()[5..], ["GET /api", "GET /apis"]);
}

#[tokio::test]
async fn unwritable_cache_folder_is_no_error() {
    let folder = Folder::new("discovery-readonly");
    let file = folder.write("file", "");
    let cached = CachedDiscovery::on_disk(server().client(), file.join("below"), HOUR, Clock::system());
    assert_eq!(cached.get().await.unwrap().groups.len(), 2);
}
