//! An API server in this process, for tests of commands.

use windlass_client::Client;
use windlass_server::Server;

/// Returns a client of a new server.
pub(crate) fn client() -> Client {
    Client::from_service(Server::builder().build().service(), "default")
}
