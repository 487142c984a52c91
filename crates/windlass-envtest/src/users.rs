//! Clients and kubeconfigs of users other than the administrator.

use windlass_api::Entropy;
use windlass_client::{
    Auth, Client, Config, Impersonation, Kubeconfig,
    config::TlsOptions,
    kubeconfig::{Cluster, User as Credentials},
};
use windlass_server::User;

use crate::{
    Environment, Error, NAME,
    builder::in_process,
    environment::{Place, Socket},
};

/// The group with all permissions.
const MASTERS: &str = "system:masters";

impl Environment {
    /// Returns a client of another user, authorized by roles. For an existing cluster, the administrator impersonates
    /// the user.
    ///
    /// # Errors
    /// Returns an error if the client of an existing cluster cannot be created.
    pub fn client_as(&self, user: User) -> Result<Client, Error> {
        match &self.place {
            Place::Own { server, .. } => Ok(self.client_over(in_process(server.service().acting_as(user)))),
            Place::Existing(config) => {
                let mut acting = Impersonation::user(user.name());
                for group in user.groups() {
                    acting = acting.in_group(group.clone());
                }
                let transport = (**config).clone().with_impersonation(acting).connect();
                Ok(self.client_over(transport.map_err(Error::serve("connecting to the existing cluster"))?))
            }
        }
    }

    /// Returns the administrator's configuration, for other clients over the socket. Requires
    /// [`listen`](crate::EnvironmentBuilder::listen), or an existing cluster.
    pub fn config(&self) -> Result<Config, Error> {
        match &self.place {
            Place::Existing(config) => Ok((**config).clone()),
            Place::Own { .. } => self.config_of(administrator()),
        }
    }

    /// Returns a user's configuration with a token. Requires an embedded server that listens.
    pub fn config_of(&self, user: User) -> Result<Config, Error> {
        let (socket, token) = self.admit(user)?;
        let server = socket.url().parse().map_err(Error::serve("naming the server"))?;
        Ok(Config::new(server).with_auth(Auth::Bearer(token.into())).with_tls(TlsOptions::trusting(&*socket.ca)))
    }

    /// Returns the administrator's kubeconfig, for other programs. Requires an embedded server that listens.
    pub fn kubeconfig(&self) -> Result<Kubeconfig, Error> {
        self.kubeconfig_of(administrator())
    }

    /// Returns a user's kubeconfig with a token. Requires an embedded server that listens.
    pub fn kubeconfig_of(&self, user: User) -> Result<Kubeconfig, Error> {
        let (socket, token) = self.admit(user)?;
        let cluster = Cluster::new(socket.url()).trusting(&*socket.ca);
        Ok(Kubeconfig::single(NAME, cluster, Credentials::with_token(token)))
    }

    /// Returns the server's socket, and a new token for a user.
    fn admit(&self, user: User) -> Result<(&Socket, String), Error> {
        let Place::Own { server, socket: Some(socket) } = &self.place else {
            return Err(Error::Unsupported("has no embedded server that listens"));
        };
        // A secret is never derived from a seed.
        let token = Entropy::os().uuid();
        server.add_user_token(&token, user);
        Ok((socket, token))
    }
}

fn administrator() -> User {
    User::new("admin").in_groups([MASTERS])
}

impl Socket {
    fn url(&self) -> String {
        format!("https://{}", self.address)
    }
}
