//! The equivalent of `windlass-bench informer`: a reflector with its store, the key of every object, and the same
//! output.

use std::{fmt::Debug, hash::Hash, hint::black_box, time::Duration};

use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::{
    Api, Client, Config, Resource,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{WatchStreamExt, reflector, reflector::ObjectRef, watcher},
};
use kube_rs_peer::{Outcome, cpu, keep_little, memory, trim};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::Instant;

/// The time that all clients wait before their memory is measured.
const SETTLING: Duration = Duration::from_millis(200);

// The program mostly waits for the network, so a second thread would only cost wake-ups.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    keep_little();
    let arguments: Vec<String> = std::env::args().collect();
    let flag = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let config = match (flag("--server"), flag("--kubeconfig")) {
        (Some(server), _) => Config::new(server.parse()?),
        (None, Some(path)) => {
            Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &KubeConfigOptions::default()).await?
        }
        (None, None) => return Err("expected --server URL or --kubeconfig PATH".into()),
    };
    let updates: u64 = flag("--updates").map_or(Ok(0), |updates| updates.parse())?;
    let client = Client::try_from(config)?;
    match flag("--resource").as_deref().unwrap_or("pods") {
        "pods" => follow(Api::<Pod>::all(client), (), updates).await,
        "secrets" => follow(Api::<Secret>::all(client), (), updates).await,
        "configmaps" => follow(Api::<ConfigMap>::all(client), (), updates).await,
        "widgets" => {
            let kind = GroupVersionKind::gvk("bench.windlass.dev", "v1", "Widget");
            let widgets = ApiResource::from_gvk_with_plural(&kind, "widgets");
            follow(Api::<DynamicObject>::all_with(client, &widgets), widgets, updates).await
        }
        other => Err(format!("no reflector of {other} here").into()),
    }
}

async fn follow<K>(api: Api<K>, resource: K::DynamicType, updates: u64) -> Outcome<()>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Clone + Debug + Eq + Hash + Unpin,
{
    // Loads the program's own pages, which are not a cost of objects.
    drop(black_box(api.list(&ListParams::default().limit(4)).await?));
    trim();
    let (before, cpu_before, started) = (memory("VmRSS:")?, cpu()?, Instant::now());
    let writer = reflector::store::Writer::new(resource.clone());
    let reader = writer.as_reader();
    let events = reflector(writer, watcher(api, watcher::Config::default().page_size(500)));
    pin_mut!(events);
    loop {
        match events.next().await.ok_or("the watch ended")?? {
            watcher::Event::InitApply(object) => drop(black_box(ObjectRef::from_obj_with(&object, resource.clone()))),
            watcher::Event::InitDone => break,
            _ => {}
        }
    }
    let (took, cpu_used, peak) = (started.elapsed(), cpu()? - cpu_before, memory("VmHWM:")?);
    tokio::time::sleep(SETTLING).await;
    trim();
    let (objects, after) = (reader.len() as u64, memory("VmRSS:")?);
    println!(
        "{}",
        json!({
            "bench": "informer", "objects": objects, "sync_seconds": took.as_secs_f64(), "cpu_seconds": cpu_used,
            "rss_bytes": after, "rss_bytes_per_object": after.saturating_sub(before) / objects.max(1), "peak_rss_bytes": peak,
        })
    );
    if updates > 0 {
        let cpu_before = cpu()?;
        let (mut seen, mut started) = (0, Instant::now());
        let events = events.applied_objects();
        pin_mut!(events);
        while seen < updates {
            let object = events.next().await.ok_or("the watch ended")??;
            black_box(ObjectRef::from_obj_with(&object, resource.clone()));
            if seen == 0 {
                started = Instant::now();
            }
            seen += 1;
        }
        let (took, cpu_used) = (started.elapsed().as_secs_f64(), cpu()? - cpu_before);
        tokio::time::sleep(SETTLING).await;
        let untrimmed = memory("VmRSS:")?;
        trim();
        println!(
            "{}",
            json!({
                "bench": "updates", "events": seen, "seconds": took, "cpu_us_per_event": cpu_used * 1e6 / seen as f64,
                "events_per_second": seen as f64 / took, "rss_bytes": memory("VmRSS:")?,
                "untrimmed_rss_bytes": untrimmed,
            })
        );
    }
    Ok(())
}
