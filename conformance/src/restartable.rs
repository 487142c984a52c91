//! Servers that a test can stop, and start again with all or less of their data.

use std::process::Stdio;

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::{Mutex, MutexGuard},
};
use windlass_client::{
    Client, Config,
    config::{Kubeconfig, Selection},
};
use windlass_server::KubernetesVersion;

use crate::{
    Target, client_for,
    embedded::{self, Embedded, Stored},
    tests_embedded,
};

/// The environment variable with the path of xtask, which starts a real control plane for a test.
pub const CONTROL: &str = "WINDLASS_UPSTREAM_CONTROL";

/// A server of a single test. Its address, certificate and users do not change.
#[derive(Debug)]
pub struct Restartable {
    /// [`Target::EMBEDDED`] or [`Target::UPSTREAM`].
    pub name: &'static str,
    /// The administrator's client configuration.
    pub config: Config,
    /// A client with that configuration.
    pub client: Client,
    kind: Kind,
}

/// The data of a restarted server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartData {
    /// All data.
    Kept,
    /// The current objects, without history.
    Compacted,
    /// No data.
    Empty,
}

#[derive(Debug)]
enum Kind {
    Embedded(Box<Embedded>),
    Upstream(Box<Upstream>),
}

/// A real server, controlled through the program that started it. It ends when the program's input is closed.
#[derive(Debug)]
struct Upstream {
    program: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    _turn: MutexGuard<'static, ()>,
}

/// A control plane needs much memory, so only one runs at a time, in addition to the shared one.
static TURN: Mutex<()> = Mutex::const_new(());

/// Runs a test with each kind of server in turn.
///
/// # Panics
///
/// If a server does not start.
pub async fn on_each_restartable<F: Future<Output = Restartable>>(test: impl Fn(Restartable) -> F) {
    if tests_embedded() || std::env::var_os(CONTROL).is_none() {
        println!("target: {}", Target::EMBEDDED);
        Box::pin(test(Restartable::embedded().await)).await.end().await;
    }
    if let Some(upstream) = Restartable::upstream().await {
        println!("target: {}", Target::UPSTREAM);
        Box::pin(test(upstream)).await.end().await;
    }
}

impl Restartable {
    /// Closes all connections, and accepts no new ones.
    pub async fn stop(&mut self) {
        match &mut self.kind {
            Kind::Embedded(embedded) => embedded.stop().await,
            Kind::Upstream(upstream) => upstream.order("stop").await,
        }
    }

    /// Starts the stopped server again. Returns when it is ready.
    pub async fn start(&mut self, data: RestartData) {
        match &mut self.kind {
            Kind::Embedded(embedded) => {
                match data {
                    RestartData::Kept => {}
                    RestartData::Compacted => embedded::compact(&*embedded.stored.storage).await,
                    RestartData::Empty => embedded.stored = Stored::new(embedded.kubernetes).await,
                }
                embedded.start().await;
            }
            Kind::Upstream(upstream) => {
                match data {
                    RestartData::Kept => {}
                    RestartData::Compacted => upstream.order("compact").await,
                    RestartData::Empty => upstream.order("clear").await,
                }
                upstream.order("start").await;
            }
        }
    }

    async fn embedded() -> Self {
        let embedded = Embedded::start_new(KubernetesVersion::default()).await;
        Self::new(Target::EMBEDDED, embedded.config(), Kind::Embedded(Box::new(embedded)))
    }

    /// Returns a real server, if the environment names the program that starts it.
    async fn upstream() -> Option<Self> {
        let program = std::env::var_os(CONTROL)?;
        let turn = TURN.lock().await;
        let mut program = Command::new(program)
            .arg("upstream")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program that starts a control plane can be run");
        let (orders, answers) = (program.stdin.take(), program.stdout.take());
        let (orders, answers) = orders.zip(answers).expect("both are piped");
        let answers = BufReader::new(answers).lines();
        let mut upstream = Upstream { program, orders, answers, _turn: turn };
        let path = upstream.answer("KUBECONFIG=").await;
        let kubeconfig = Kubeconfig::read(path).expect("the kubeconfig of the real server can be read");
        let config = Config::from_kubeconfig(&kubeconfig, &Selection::default()).expect("it names a server");
        Some(Self::new(Target::UPSTREAM, config, Kind::Upstream(Box::new(upstream))))
    }

    fn new(name: &'static str, config: Config, kind: Kind) -> Self {
        let client = client_for(config.clone());
        Self { name, config, client, kind }
    }

    async fn end(self) {
        match self.kind {
            Kind::Embedded(mut embedded) => embedded.stop().await,
            Kind::Upstream(upstream) => upstream.end().await,
        }
    }
}

impl Upstream {
    async fn order(&mut self, order: &str) {
        self.orders.write_all(format!("{order}\n").as_bytes()).await.expect("the control plane takes orders");
        self.answer("done").await;
    }

    /// Returns the rest of the next line that begins with `start`.
    async fn answer(&mut self, start: &str) -> String {
        while let Some(line) = self.answers.next_line().await.expect("what a control plane prints is text") {
            if let Some(rest) = line.strip_prefix(start) {
                return rest.to_owned();
            }
        }
        panic!("the control plane ended before it printed {start:?}");
    }

    async fn end(self) {
        let Self { mut program, orders, .. } = self;
        drop(orders);
        program.wait().await.expect("the control plane ends when its orders end");
    }
}
