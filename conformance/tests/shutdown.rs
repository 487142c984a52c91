//! Graceful shutdown of busy managers with all usual components, with each server.

use std::{collections::BTreeSet, net::SocketAddr, sync::Arc, thread::JoinHandle, time::Duration};

use conformance::{PATIENCE, Target, eventually, on_each_target, unique};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ConfigMap, Namespace, Secret},
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    runtime::{Builder, Handle},
    sync::{oneshot, watch},
    time::Instant,
};
use windlass_api::{ObjectBuilder as _, ObjectExt as _, ObjectRef, Patch};
use windlass_client::{Client, Closing, Config};
use windlass_runtime::{
    Action, Context, Controller, Group, LeaderElection, Manager, Result, RunnableContext, Task, Watch,
    metrics::{MetricsServer, Registry},
    webhook::WebhookCertificates,
};
use windlass_webhook::{Server, Webhooks, admission::Request};

/// The number of objects, and of concurrent reconciles.
const OBJECTS: usize = 1500;
const IN_FLIGHT: usize = 250;

/// Longer than the test's timeout: the program must end on its own.
const LONG: Duration = Duration::from_mins(10);
const SHORT: Duration = Duration::from_secs(1);

const LEASE: &str = "shutdown";

/// The annotation that is a reconcile's last write.
const DONE: &str = "shutdown.example.com/done";

/// The started and the completed reconciles.
#[derive(Clone, Debug, Default)]
struct Log {
    begun: Arc<Mutex<BTreeSet<String>>>,
    ended: Arc<Mutex<BTreeSet<String>>>,
}

/// A running program, from the outside.
struct Program {
    namespace: String,
    log: Log,
    /// Opening the gate lets reconciles continue with their writes.
    gate: watch::Sender<bool>,
    metrics: SocketAddr,
    webhooks: SocketAddr,
    /// Dropping this stops the program.
    stop: Option<oneshot::Sender<()>>,
    /// Ends when the controllers have received the stop signal.
    heard: oneshot::Receiver<()>,
    /// Has its own runtime, so that its tasks can be counted.
    thread: Option<JoinHandle<Ended>>,
}

/// The components of a program.
struct Parts {
    namespace: String,
    grace: Duration,
    log: Log,
    gate: watch::Receiver<bool>,
    metrics: std::net::TcpListener,
    webhooks: std::net::TcpListener,
    stopped: oneshot::Receiver<()>,
    /// Dropped when the controllers have received the stop signal.
    hearing: oneshot::Sender<()>,
}

/// The result of a stopped program.
struct Ended {
    result: Result<()>,
    /// The time since the stop signal.
    took: Duration,
}

impl Program {
    /// Starts a program with objects that no controller has reconciled, and waits until all its workers are busy.
    async fn start(target: &Target, grace: Duration) -> Self {
        let namespace = unique("shutdown");
        target.client.create(&Namespace::named(&*namespace)).await.unwrap();
        let creates = stream::iter(0..OBJECTS).map(|at| {
            let object = ConfigMap::named(format!("object-{at}")).in_namespace(&*namespace);
            async move { target.client.create(&object).await.map(drop) }
        });
        creates.buffer_unordered(16).try_for_each(async |()| Ok(())).await.unwrap();

        let (log, gate) = (Log::default(), watch::Sender::new(false));
        let ((stop, stopped), (hearing, heard)) = (oneshot::channel(), oneshot::channel());
        let (metrics, webhooks) = (listener(), listener());
        let mut program = Self {
            metrics: metrics.local_addr().unwrap(),
            webhooks: webhooks.local_addr().unwrap(),
            namespace: namespace.clone(),
            log: log.clone(),
            stop: Some(stop),
            heard,
            thread: None,
            gate,
        };
        let gate = program.gate.subscribe();
        let parts = Parts { namespace, grace, log, gate, metrics, webhooks, stopped, hearing };
        let config = target.config.clone();
        program.thread = Some(std::thread::spawn(move || {
            let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.expect("a runtime can be made").block_on(parts.live(config))
        }));
        eventually("all workers are busy", async || (program.log.begun.lock().len() == IN_FLIGHT).then_some(())).await;
        assert!(program.queued().await >= OBJECTS - IN_FLIGHT, "the others wait in the queue");
        program
    }

    /// Returns the queue's length from the program's metrics.
    async fn queued(&self) -> usize {
        let mut connection = TcpStream::connect(self.metrics).await.unwrap();
        connection.write_all(b"GET /metrics HTTP/1.1\r\nHost: program\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.unwrap();
        let depths = answer.lines().filter_map(|line| line.strip_prefix("workqueue_depth{")?.rsplit_once("} "));
        depths.map(|(_, depth)| depth.parse::<usize>().unwrap()).sum()
    }

    /// Reports whether metrics and webhooks are served. It must be both or none.
    async fn serves(&self) -> bool {
        let metrics = TcpStream::connect(self.metrics).await.is_ok();
        assert_eq!(TcpStream::connect(self.webhooks).await.is_ok(), metrics);
        metrics
    }

    /// Returns the holder of the lease.
    async fn leader(&self, client: &Client) -> Option<String> {
        let lease = client.get(ObjectRef::<Lease>::new(LEASE).within(&*self.namespace)).await.unwrap();
        lease.spec.unwrap().holder_identity.filter(|holder| !holder.is_empty())
    }

    /// Returns the objects with a first write, and those with a last write.
    async fn written(&self, client: &Client) -> [BTreeSet<String>; 2] {
        let made = client.list::<Secret>().within(&*self.namespace).labels(DONE).await.unwrap();
        let marked = client.list::<ConfigMap>().within(&*self.namespace).await.unwrap();
        let marked = marked.items.iter().filter(|object| object.annotations().contains_key(DONE));
        [made.items.iter().map(name_of).collect(), marked.map(name_of).collect()]
    }

    async fn tell_to_stop(&mut self) {
        drop(self.stop.take());
        let heard = tokio::time::timeout(PATIENCE, &mut self.heard).await;
        heard.expect("the controllers hear of it").expect_err("nothing is sent");
    }

    async fn end(&mut self) -> Ended {
        let thread = self.thread.take().expect("it ends once");
        let ended = tokio::task::spawn_blocking(|| thread.join().expect("the program does not panic"));
        tokio::time::timeout(PATIENCE, ended).await.expect("it ends").unwrap()
    }

    /// Deletes the objects: the real server outlives its tests.
    async fn tidy(&self, client: &Client) {
        client.delete_collection::<ConfigMap>().within(&*self.namespace).await.unwrap();
        client.delete_collection::<Secret>().within(&*self.namespace).await.unwrap();
        client.delete::<Namespace>(&*self.namespace).await.unwrap();
    }
}

impl Parts {
    /// Runs the program until its last task has ended.
    async fn live(self, config: Config) -> Ended {
        let Self { namespace, grace, log, gate, metrics, webhooks, stopped, hearing } = self;
        let [metrics, webhooks] = [metrics, webhooks].map(|listener| TcpListener::from_std(listener).unwrap());
        let registry = Registry::new();
        let mut manager = Manager::builder(Client::new(config.clone()).unwrap())
            .registry(&registry)
            .leader_election(LeaderElection::new(LEASE).namespace(&*namespace).release_on_stop())
            .grace_period(grace)
            .build();
        manager.add(MetricsServer::on(metrics, &registry));
        let certificates = WebhookCertificates::in_secret(&*namespace, "certificates").for_names(["localhost"]);
        let server = Server::new(Webhooks::builder().mutator(|_: &mut ConfigMap, _: &Request| Ok(())).build().unwrap())
            .listener(webhooks)
            .certificate(certificates.serving());
        manager.add(server).add(certificates);
        let objects = Watch::<ConfigMap>::within(namespace).fields("metadata.name!=kube-root-ca.crt");
        let reconcile = move |object, cx| reconcile(object, cx, log.clone(), gate.clone());
        manager.add(Controller::watching(objects).concurrency(IN_FLIGHT).reconcile(reconcile));
        // Runnables that need leadership are stopped together.
        let listening = Task::new("listening", async move |running: RunnableContext| {
            running.stop().requested().await;
            drop(hearing);
            Ok(())
        });
        manager.add(listening.in_group(Group::Controllers));

        let mut told = None;
        let shutdown = async {
            drop(stopped.await);
            told = Some(Instant::now());
        };
        let result = manager.run(shutdown).await;
        let took = told.expect("it ends because it is told to").elapsed();
        // These belong to the client, which may outlive managers.
        config.close_connections(Closing::All);
        eventually("no task is left", async || (Handle::current().metrics().num_alive_tasks() == 0).then_some(()))
            .await;
        Ended { result, took }
    }
}

/// Makes two writes, behind a gate.
async fn reconcile(object: Arc<ConfigMap>, cx: Context, log: Log, mut gate: watch::Receiver<bool>) -> Result<Action> {
    log.begun.lock().insert(name_of(&*object));
    // The sender is not dropped while the gate is closed.
    let _ = gate.wait_for(|open| *open).await;
    let mut made = Secret::named(object.name()).in_namespace(object.namespace().unwrap_or_default());
    made.metadata.labels = Some([(DONE.to_owned(), "yes".to_owned())].into());
    cx.live().create(&made).await?;
    let mark = Patch::Merge(json!({"metadata": {"annotations": {DONE: "yes"}}}));
    cx.live().patch::<ConfigMap>(object.object_ref(), mark).await?;
    log.ended.lock().insert(name_of(&*object));
    Ok(Action::await_change())
}

fn name_of(object: &impl windlass_api::Resource) -> String {
    object.name().to_owned()
}

fn listener() -> std::net::TcpListener {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

#[tokio::test]
async fn shutdown_finishes_running_reconciles_and_starts_none() {
    on_each_target(|target| async move {
        let client = &target.client;
        let mut program = Program::start(&target, LONG).await;
        let begun = program.log.begun.lock().clone();
        program.tell_to_stop().await;
        // No last write has happened: the lease still protects them, and metrics and webhooks are still served.
        assert!(program.leader(client).await.is_some());
        assert!(program.serves().await);

        program.gate.send_replace(true);
        let ended = program.end().await;
        ended.result.unwrap();
        assert!(ended.took < LONG);
        assert_eq!(*program.log.begun.lock(), begun, "nothing else has begun");
        assert_eq!(*program.log.ended.lock(), begun, "all that had begun is done");
        assert_eq!(program.written(client).await, [begun.clone(), begun]);
        assert_eq!(program.leader(client).await, None);
        assert!(!program.serves().await);
        program.tidy(client).await;
        target
    })
    .await;
}

#[tokio::test]
async fn shutdown_after_timeout_aborts_and_names_running_tasks() {
    on_each_target(|target| async move {
        let client = &target.client;
        let mut program = Program::start(&target, SHORT).await;
        program.tell_to_stop().await;
        let ended = program.end().await;
        let error = ended.result.unwrap_err();
        assert_eq!(error.to_string(), "aborted after the grace period of 1s: configmap");
        assert!(ended.took >= SHORT);
        program.gate.send_replace(true);
        assert!(program.log.ended.lock().is_empty());
        assert_eq!(program.written(client).await, [BTreeSet::new(), BTreeSet::new()]);
        assert!(program.leader(client).await.is_some(), "it expires: others wait, as after a crash");
        assert!(!program.serves().await);
        program.tidy(client).await;
        target
    })
    .await;
}
