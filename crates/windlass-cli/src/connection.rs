//! The connection flags, which are kubectl's.

use std::{env, path::PathBuf, time::Duration};

use clap::Args;
use windlass_api::Clock;
use windlass_client::{
    CachedDiscovery, Client, Config, ConfigError, Kubeconfig, RateLimit, cache_folder,
    kubeconfig::{Cluster, Selection, User},
};

/// The same as in kubectl: resources seldom change, and an unknown name triggers a new request.
const TIME_TO_LIVE: Duration = Duration::from_hours(6);

/// The flags that select the server and the user.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Server")]
pub(crate) struct Connection {
    /// Path of the kubeconfig file; defaults to those in $KUBECONFIG, or ~/.kube/config
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Name of the kubeconfig context to use
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Name of the kubeconfig cluster to use instead of the context's
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Name of the kubeconfig user to use instead of the context's
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Namespace to use instead of the context's
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    /// Address of the API server, instead of the cluster's
    #[arg(long, short, value_name = "URL")]
    server: Option<String>,
    /// Path of a file with the trusted certificate authorities
    #[arg(long, value_name = "PATH")]
    certificate_authority: Option<String>,
    /// Do not verify the server's certificate, which makes the connection insecure
    #[arg(long)]
    insecure_skip_tls_verify: bool,
    /// Server name to verify the server's certificate against
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,
    /// Path of a client certificate file
    #[arg(long, value_name = "PATH")]
    client_certificate: Option<String>,
    /// Path of the private key file of the client certificate
    #[arg(long, value_name = "PATH")]
    client_key: Option<String>,
    /// Bearer token for authentication
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// User to impersonate
    #[arg(long = "as", value_name = "NAME")]
    impersonate: Option<String>,
    /// Group to impersonate; can be repeated
    #[arg(long = "as-group", value_name = "NAME")]
    impersonate_groups: Vec<String>,
    /// UID to impersonate
    #[arg(long = "as-uid", value_name = "UID")]
    impersonate_uid: Option<String>,
    /// Directory of the discovery cache; defaults to ~/.kube/cache
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
}

impl Connection {
    /// Returns the client configuration from the flags and the kubeconfig.
    pub(crate) fn config(&self) -> Result<Config, ConfigError> {
        match &self.kubeconfig {
            Some(path) => Config::from_kubeconfig(&Kubeconfig::read(path)?, &self.selection()),
            None => Config::infer_with(&self.selection()),
        }
    }

    /// Returns a client with kubectl's rate limit.
    pub(crate) fn client(&self) -> windlass_client::Result<Client> {
        client(self.config()?)
    }

    /// Returns the discovery client, which uses kubectl's cache directory.
    pub(crate) fn discovery(&self) -> windlass_client::Result<CachedDiscovery> {
        let config = self.config()?;
        let folder = self.cache_dir.clone().or_else(|| Some(env::home_dir()?.join(".kube").join("cache")));
        let folder = folder.map(|folder| cache_folder(&folder, &config.server));
        let client = client(config)?;
        Ok(match folder {
            Some(folder) => CachedDiscovery::on_disk(client, folder, TIME_TO_LIVE, Clock::system()),
            None => CachedDiscovery::in_memory(client),
        })
    }

    fn selection(&self) -> Selection {
        Selection {
            context: self.context.clone(),
            cluster: self.cluster.clone(),
            user: self.user.clone(),
            namespace: self.namespace.clone(),
            cluster_fields: Cluster {
                server: self.server.clone(),
                tls_server_name: self.tls_server_name.clone(),
                insecure_skip_tls_verify: self.insecure_skip_tls_verify.then_some(true),
                certificate_authority: self.certificate_authority.clone(),
                ..Cluster::default()
            },
            user_fields: User {
                client_certificate: self.client_certificate.clone(),
                client_key: self.client_key.clone(),
                token: self.token.clone().map(Into::into),
                impersonate: self.impersonate.clone(),
                impersonate_uid: self.impersonate_uid.clone(),
                impersonate_groups: self.impersonate_groups.clone(),
                ..User::default()
            },
        }
    }
}

fn client(config: Config) -> windlass_client::Result<Client> {
    Ok(Client::new(config)?.with_rate_limit(RateLimit::per_second(50, 300)))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        connection: Connection,
    }

    fn config(flags: &[&str]) -> Result<Config, ConfigError> {
        Command::try_parse_from(std::iter::once("test").chain(flags.iter().copied())).unwrap().connection.config()
    }

    #[test]
    fn flags_override_the_kubeconfig() {
        let path = env::temp_dir().join(format!("windlass-cli-connection-{}", std::process::id()));
        let cluster = Cluster::new("https://one.example:6443");
        Kubeconfig::single("one", cluster, User::with_token("t")).write(&path).unwrap();
        let file = path.to_str().unwrap();
        let plain = config(&["--kubeconfig", file]).unwrap();
        assert_eq!((plain.server.host(), plain.default_namespace.as_str()), (Some("one.example"), "default"));
        let other = ["--kubeconfig", file, "-n", "shop", "-s", "https://two.example", "--as", "eve", "--as-group", "g"];
        let other = config(&other).unwrap();
        assert_eq!((other.server.host(), other.default_namespace.as_str()), (Some("two.example"), "shop"));
        let impersonation = format!("{:?}", other.impersonation);
        assert!(impersonation.contains("eve"), "{impersonation}");
        assert!(config(&["--kubeconfig", file, "--context", "nope"]).unwrap_err().to_string().contains("nope"));
        std::fs::remove_file(path).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn commands_are_not_rate_limited() {
        let client = client(Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        let began = tokio::time::Instant::now();
        for _ in 0..300 {
            // The address refuses connections; the request fails only when it is sent.
            assert!(client.server_version().await.is_err());
        }
        assert_eq!(began.elapsed().as_secs(), 0);
    }
}
