//! The console: a web page that shows the live state of a manager.
//!
//! It shows controllers with their queues, keys in progress, rates, latencies and errors; caches with their objects and
//! memory use; the leader; and the control loop as it happens: watch event → key → reconcile → write. The page is
//! served at `/`, JSON at `/api/state`, and a stream of server-sent events at `/api/events`. [`state`] defines the
//! format of both.
//!
//! ```no_run
//! # use windlass_runtime::{Manager, Result, shutdown};
//! # async fn main_(client: windlass_client::Client) -> Result<()> {
//! let manager = Manager::builder(client).console("9090").build(); // http://127.0.0.1:9090/
//! manager.run(shutdown::signal()).await
//! # }
//! ```
//!
//! # Guarantees
//!
//! - The console is read-only: it accepts only GET and HEAD.
//! - It binds to loopback unless a full address is given. It answers only requests for an IP address, for `localhost`,
//!   or for an [allowed](Console::allow_host) name, so DNS rebinding cannot expose it to other web pages. The page
//!   loads nothing from other hosts.
//! - A slow reader delays nothing, and gets the number of skipped events. Without a console, no history is stored.
//!
//! # Not guaranteed
//!
//! - There is no authentication: everyone who can connect can read. The console shows names of objects and error
//!   messages, but no other content of objects.
//! - It shows this process only. Other replicas have their own console.
//! - Writes that a reconcile delegates to other tasks are not attributed to it.

mod events;
mod routes;
mod server;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use tokio::net::TcpListener;
use windlass_api::Clock;

use self::server::Server;
pub use crate::console_data::state;
use crate::{console_data::ConsoleData, serving::Listen};

/// The address and the allowed host names of a console, for
/// [`ManagerBuilder::console`](crate::ManagerBuilder::console). Converts from a port, an address, or a listener.
#[derive(Debug)]
#[must_use = "a console does nothing until it is passed to a `ManagerBuilder`"]
pub struct Console {
    listen: Listen,
    /// Host names that requests may use, in addition to addresses and `localhost`.
    hosts: Vec<String>,
}

impl Console {
    /// Serves at an address. A port alone, `9090` or `:9090`, binds to loopback. To accept remote connections, give a
    /// full address: `0.0.0.0:9090`. An empty address or `0` disables the console.
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

    /// Serves connections of a listener.
    pub fn on(listener: TcpListener) -> Self {
        Self { listen: Listen::Bound(listener), hosts: Vec::new() }
    }

    /// Allows requests for a host name, for example behind a proxy: `console.example.com`.
    pub fn allow_host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into());
        self
    }

    /// Returns the console's server and the data that it shows.
    pub(crate) fn server(self, clock: Clock) -> (Server, Arc<ConsoleData>) {
        let data = Arc::new(ConsoleData::new(clock));
        (Server::new(self, Arc::clone(&data)), data)
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
    fn port_without_host_listens_on_loopback() {
        let at = |address: &str| match Console::from(address).listen {
            Listen::Off => "off".to_owned(),
            Listen::Address(address) => address,
            Listen::Bound(_) => unreachable!("it was no listener"),
        };
        assert_eq!([at("9090"), at(":9090"), at("127.0.0.1:0")], ["127.0.0.1:9090", "127.0.0.1:9090", "127.0.0.1:0"]);
        assert_eq!([at("0.0.0.0:9090"), at("[::1]:80"), at("0"), at("")], ["0.0.0.0:9090", "[::1]:80", "off", "off"]);
    }
}
