//! The console: a page that shows what a manager does, while it does it.
//!
//! Controllers with their queues, keys in hand, rates, latencies and errors; caches with what they hold and cost; who leads;
//! and the control loop as it happens: watch event → key → reconcile → write. For a browser at `/`, as JSON at `/api/state`,
//! and as a stream of server-sent events at `/api/events`; [`state`] is the format of both.
//!
//! ```no_run
//! # use windlass_runtime::{Manager, Result, shutdown};
//! # async fn main_(client: windlass_client::Client) -> Result<()> {
//! let manager = Manager::builder(client).console("9090").build(); // http://127.0.0.1:9090/
//! manager.run(shutdown::signal()).await
//! # }
//! ```
//!
//! # What is guaranteed
//!
//! - Nothing can be changed here: only GET and HEAD are answered.
//! - It is bound to the loopback unless an address is given in full, and answers only who asks for an address, for
//!   `localhost`, or for a name that was [allowed](Console::allow_host): a page elsewhere cannot read it by giving its own name
//!   this address. The page asks nobody else for anything.
//! - Who reads slowly holds up nobody, and is told how much was left out. Without a console nothing is kept.
//!
//! # What is not
//!
//! - Who can reach it may read it: there are no accounts. It shows names of objects and what errors say, and no more of objects.
//! - It shows what happens in this process. Other replicas have their own.
//! - Writes that a reconcile leaves to other tasks are not in its story.

mod answers;
mod events;
mod history;
mod ledger;
mod server;
pub mod state;
mod story;

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpListener;
use windlass_api::Clock;

pub(crate) use self::ledger::{Ledger, Opened, Shown};
use self::server::Server;
use crate::serving::Listen;

/// Where a console is, for [`ManagerBuilder::console`](crate::ManagerBuilder::console). Made of a port, of an address, or of a
/// listener.
#[derive(Debug)]
#[must_use = "a console is shown by a manager"]
pub struct Console {
    listen: Listen,
    /// By which names it may be asked, beside addresses and `localhost`.
    hosts: Vec<String>,
}

impl Console {
    /// Answers at an address. A port alone, `9090` or `:9090`, is one of this machine's loopback; whatever others are to reach
    /// must be given in full, `0.0.0.0:9090`. Nowhere if it is empty or `0`.
    pub fn bind(address: impl Into<String>) -> Self {
        let address = address.into();
        let port = address.strip_prefix(':').unwrap_or(&address);
        let listen = match port.parse::<u16>() {
            Ok(0) => Listen::Off,
            Ok(port) => Listen::at(SocketAddr::from((Ipv4Addr::LOCALHOST, port)).to_string()),
            Err(_) => Listen::at(address),
        };
        Self { listen, hosts: Vec::new() }
    }

    /// Answers what comes over a listener.
    pub fn on(listener: TcpListener) -> Self {
        Self { listen: Listen::Bound(listener), hosts: Vec::new() }
    }

    /// Lets it be asked by a name, as behind a proxy: `console.example.com`.
    pub fn allow_host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into());
        self
    }

    /// What shows it, and what it shows.
    pub(crate) fn server(self, clock: Clock) -> (Server, std::sync::Arc<Ledger>) {
        let ledger = std::sync::Arc::new(Ledger::new(clock));
        (Server::new(self, std::sync::Arc::clone(&ledger)), ledger)
    }
}

impl From<&str> for Console {
    fn from(address: &str) -> Self {
        Self::bind(address)
    }
}

impl From<String> for Console {
    fn from(address: String) -> Self {
        Self::bind(address)
    }
}

impl From<SocketAddr> for Console {
    fn from(address: SocketAddr) -> Self {
        Self { listen: Listen::Address(address.to_string()), hosts: Vec::new() }
    }
}

impl From<TcpListener> for Console {
    fn from(listener: TcpListener) -> Self {
        Self::on(listener)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_the_loopback() {
        let at = |address: &str| match Console::from(address).listen {
            Listen::Off => "off".to_owned(),
            Listen::Address(address) => address,
            Listen::Bound(_) => unreachable!("it was no listener"),
        };
        assert_eq!([at("9090"), at(":9090"), at("127.0.0.1:0")], ["127.0.0.1:9090", "127.0.0.1:9090", "127.0.0.1:0"]);
        assert_eq!([at("0.0.0.0:9090"), at("[::1]:80"), at("0"), at("")], ["0.0.0.0:9090", "[::1]:80", "off", "off"]);
    }
}
