//! A simulated process: a manager in its own thread and runtime, so that it can be killed.

use std::{sync::mpsc as blocking, thread::JoinHandle};

use conformance::{PATIENCE, Target};
use tokio::sync::{mpsc, oneshot};
use windlass_client::{Client, Config};
use windlass_runtime::{Manager, Result};

use crate::wire::Wire;

/// A process with a manager, and its connection to the server.
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) wire: Wire,
    orders: mpsc::UnboundedSender<Order>,
    /// `None` after the end. The result is `None` if the process was killed, else the manager's result.
    thread: Option<JoinHandle<Option<Result<()>>>>,
}

#[derive(Debug)]
pub(crate) enum Order {
    /// Ends without any clean-up, like a killed process.
    Die,
    /// Stops all activity until the sender is dropped.
    Freeze(blocking::Receiver<()>),
    /// Ends gracefully.
    Stop,
}

impl Process {
    /// Starts a process with the manager that `make` creates from the client.
    pub(crate) async fn start(
        target: &Target,
        name: &str,
        make: impl FnOnce(Client) -> Manager + Send + 'static,
    ) -> Self {
        let wire = Wire::to(&target.config).await;
        let mut config = target.config.clone();
        config.server = wire.uri();
        let (orders, obeying) = mpsc::unbounded_channel();
        let thread = std::thread::spawn(move || live(config, make, obeying));
        Self { name: name.to_owned(), wire, orders, thread: Some(thread) }
    }

    pub(crate) fn order(&self, order: Order) {
        self.orders.send(order).expect("it lives");
    }

    /// Waits for the end. Returns `None` if the process was killed.
    pub(crate) async fn end(&mut self) -> Option<Result<()>> {
        let thread = self.thread.take().expect("it ends once");
        let ended = tokio::task::spawn_blocking(|| thread.join().expect("it does not panic"));
        tokio::time::timeout(PATIENCE, ended).await.expect("it ends").expect("it does not panic")
    }

    /// Stops the process gracefully, unless it has ended.
    pub(crate) async fn stop(&mut self) {
        if self.thread.is_some() {
            self.order(Order::Stop);
            self.end().await.expect("it was not killed").expect("it ends well");
        }
    }
}

/// Runs the process.
fn live(
    config: Config,
    make: impl FnOnce(Client) -> Manager,
    mut orders: mpsc::UnboundedReceiver<Order>,
) -> Option<Result<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    runtime.block_on(async {
        let manager = make(Client::new(config).expect("the configuration of a target is sound"));
        let (stop, stopped) = oneshot::channel::<()>();
        let mut stop = Some(stop);
        let mut running = Box::pin(manager.run(async { drop(stopped.await) }));
        loop {
            tokio::select! {
                result = &mut running => return Some(result),
                order = orders.recv() => match order {
                    Some(Order::Freeze(until)) => drop(until.recv()),
                    Some(Order::Stop) => drop(stop.take()),
                    Some(Order::Die) | None => return None,
                }
            }
        }
    })
}
