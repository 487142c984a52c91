//! The console of a manager with each server: it must show the actual events.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use conformance::{eventually, on_each_target, unique};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    time::timeout,
};
use windlass_api::{ObjectBuilder as _, ObjectExt as _, Status};
use windlass_client::Client;
use windlass_runtime::{Action, Context, Controller, Manager, Watch};

/// Returns the controller's copy of a ConfigMap.
fn copy_of(original: &ConfigMap) -> ConfigMap {
    let copy = ConfigMap::named(format!("{}-copy", original.name())).in_namespace("default").controlled_by(original);
    labeled(copy, "copy-of", original.name())
}

fn labeled(mut map: ConfigMap, key: &str, value: &str) -> ConfigMap {
    map.metadata.labels = Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
    map
}

/// Returns the lines of the event stream until `enough` holds.
async fn story(address: SocketAddr, enough: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /api/events HTTP/1.0\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut story = Vec::new();
    let follow = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            let Some(data) = line.strip_prefix("data: ") else { continue };
            let data: Value = serde_json::from_str(data).unwrap();
            story.extend(data["lines"].as_array().into_iter().flatten().cloned());
            if enough(&story) {
                return;
            }
        }
        panic!("the stream ends");
    };
    timeout(conformance::PATIENCE, follow).await.expect("the story is told");
    story
}

async fn tell(client: &Client) {
    let app = unique("console");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut manager = Manager::builder(client.clone()).console(listener).build();
    let selected = Watch::<ConfigMap>::within("default").labels(format!("app={app}"));
    let copies = Watch::<ConfigMap>::within("default").labels(format!("copy-of={app}"));
    let copier = Controller::watching(selected).named("copier").owns_with(copies);
    manager.add(copier.reconcile(async |original: Arc<ConfigMap>, cx: Context| {
        match cx.client().create(&copy_of(&original)).await {
            Err(error) if error.status().is_some_and(Status::is_already_exists) => {}
            created => drop(created?),
        }
        Ok::<_, windlass_runtime::Error>(Action::await_change())
    }));
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(manager.run(async { drop(stopped.await) }));

    let original = labeled(ConfigMap::named(&*app).in_namespace("default"), "app", &app);
    client.create(&original).await.expect("a map can be made");
    let key = format!("default/{app}");
    let steps = |story: &[Value], step: &str| story.iter().filter(|line| line["step"] == step).count();
    let told = story(address, |story| steps(story, "finished") >= 2 && steps(story, "wrote") >= 2).await;
    assert!(told.iter().all(|line| line["key"] == *key), "{told:#?}");
    let wrote: Vec<_> = told.iter().filter(|line| line["step"] == "wrote").collect();
    assert_eq!([&wrote[0]["verb"], &wrote[0]["resource"]], ["create", "configmaps"], "{told:#?}");
    assert_eq!(wrote[0]["object"], format!("{key}-copy"));
    assert_eq!([&wrote[0]["status"], &wrote[1]["status"]], [201, 409], "made once, and there already: {told:#?}");
    let owned = told.iter().find(|line| line["object"] == format!("{key}-copy") && line["step"] == "triggered");
    assert!(owned.is_some_and(|line| line["change"] == "added"), "what was written comes back: {told:#?}");

    drop(stop);
    running.await.unwrap().unwrap();
    for map in [copy_of(&original), original] {
        client.delete::<ConfigMap>(map.object_ref()).await.unwrap();
    }
    eventually("nobody listens", || async { TcpStream::connect(address).await.is_err().then_some(()) }).await;
}

#[tokio::test]
async fn console_shows_events_and_writes() {
    on_each_target(|target| async {
        tell(&target.client).await;
        target
    })
    .await;
}
