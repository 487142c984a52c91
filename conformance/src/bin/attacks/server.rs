//! The attacked server, with the data that clients need.

use std::{error::Error, sync::Arc};

use windlass_client::{Auth, Client, Config, Kubeconfig, kubeconfig::Selection};

/// The address of the server, and the administrator's credentials.
#[derive(Clone, Debug)]
pub(crate) struct Server(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    kubeconfig: String,
    config: Config,
    token: String,
    /// The program with the command `proxy`: windlass or kubectl.
    proxy: Option<String>,
}

impl Server {
    pub(crate) fn of(kubeconfig: &str, proxy: Option<String>) -> Result<Self, Box<dyn Error>> {
        let read = Kubeconfig::read(std::path::Path::new(kubeconfig))?;
        let config = Config::from_kubeconfig(&read, &Selection::default())?;
        let Auth::Bearer(token) = &config.auth else { return Err("its user has no token".into()) };
        let token = token.expose().to_owned();
        Ok(Self(Arc::new(Inner { kubeconfig: kubeconfig.to_owned(), config, token, proxy })))
    }

    /// Returns a client with its own connections and without a rate limit.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.0.config.clone()).expect("the configuration was read").without_rate_limit()
    }

    pub(crate) fn address(&self) -> String {
        let server = &self.0.config.server;
        format!("{}:{}", server.host().unwrap_or("127.0.0.1"), server.port_u16().unwrap_or(443))
    }

    pub(crate) fn token(&self) -> &str {
        &self.0.token
    }

    pub(crate) fn kubeconfig(&self) -> &str {
        &self.0.kubeconfig
    }

    pub(crate) fn proxy(&self) -> Option<&str> {
        self.0.proxy.as_deref()
    }
}
