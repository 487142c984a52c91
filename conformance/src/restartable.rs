//! Servers that a test can stop, and start again over what they had, or less.

use std::{process::Stdio, sync::Arc};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::{Mutex, MutexGuard},
};
use windlass_client::{
    Client, Config,
    config::{Kubeconfig, Selection},
};
use windlass_server::storage::MemoryStorage;

use crate::{
    Target, client_for,
    embedded::{self, Embedded},
};

/// The environment variable that names the program which starts a real control plane of one's own: xtask.
pub const CONTROL: &str = "WINDLASS_UPSTREAM_CONTROL";

/// A server that belongs to one test, and keeps its address, its certificate and its users.
#[derive(Debug)]
pub struct Restartable {
    /// [`Target::EMBEDDED`] or [`Target::UPSTREAM`].
    pub name: &'static str,
    /// Where it is, as the administrator.
    pub config: Config,
    /// A client with that configuration.
    pub client: Client,
    kind: Kind,
}

/// What a server finds when it is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Everything.
    ItsStorage,
    /// Everything that there is, and nothing of what was.
    CompactedStorage,
    /// Nothing.
    EmptyStorage,
}

#[derive(Debug)]
enum Kind {
    Embedded(Embedded),
    Upstream(Box<Upstream>),
}

/// The real one, by way of the program that started it. Ends when its orders end.
#[derive(Debug)]
struct Upstream {
    program: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    _turn: MutexGuard<'static, ()>,
}

/// A control plane is large: there is one beside that of all tests at a time.
static TURN: Mutex<()> = Mutex::const_new(());

/// Runs a test against each kind of server in turn.
///
/// # Panics
/// When a server does not start.
pub async fn on_each_restartable<F: Future<Output = Restartable>>(test: impl Fn(Restartable) -> F) {
    println!("target: {}", Target::EMBEDDED);
    Box::pin(test(Restartable::embedded().await)).await.end().await;
    if let Some(upstream) = Restartable::upstream().await {
        println!("target: {}", Target::UPSTREAM);
        Box::pin(test(upstream)).await.end().await;
    }
}

impl Restartable {
    /// Ends every connection, and takes no more.
    pub async fn stop(&mut self) {
        match &mut self.kind {
            Kind::Embedded(embedded) => embedded.stop().await,
            Kind::Upstream(upstream) => upstream.order("stop").await,
        }
    }

    /// Starts the stopped server again; ready when this returns.
    pub async fn start(&mut self, over: Over) {
        match &mut self.kind {
            Kind::Embedded(embedded) => {
                match over {
                    Over::ItsStorage => {}
                    Over::CompactedStorage => embedded::forget(&*embedded.storage).await,
                    Over::EmptyStorage => embedded.storage = Arc::new(MemoryStorage::default()),
                }
                embedded.start().await;
            }
            Kind::Upstream(upstream) => {
                match over {
                    Over::ItsStorage => {}
                    Over::CompactedStorage => upstream.order("compact").await,
                    Over::EmptyStorage => upstream.order("clear").await,
                }
                upstream.order("start").await;
            }
        }
    }

    async fn embedded() -> Self {
        let embedded = Embedded::start_new().await;
        Self::new(Target::EMBEDDED, embedded.config(), Kind::Embedded(embedded))
    }

    /// A real one, if there is a program that starts it.
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

    /// What follows `start` in the next line that begins with it.
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
