//! How a command finds its server: kubectl's flags.

use std::{env, path::PathBuf, time::Duration};

use clap::Args;
use windlass_api::Clock;
use windlass_client::{
    CachedDiscovery, Client, Config, ConfigError, Kubeconfig, RateLimit, cache_folder,
    config::kubeconfig::{Cluster, Selection, User},
};

/// As kubectl: resources seldom change, and a name that is not known is asked for anew.
const TIME_TO_LIVE: Duration = Duration::from_hours(6);

/// Which server, and as whom.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Server")]
pub(crate) struct Connection {
    /// The kubeconfig file; else those of $KUBECONFIG, else ~/.kube/config
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The cluster of the kubeconfig, in place of the context's
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// The user of the kubeconfig, in place of the context's
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// The namespace, in place of the context's
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    /// The address of the server, in place of the cluster's
    #[arg(long, short, value_name = "URL")]
    server: Option<String>,
    /// A file with the authorities to trust
    #[arg(long, value_name = "PATH")]
    certificate_authority: Option<String>,
    /// Trusts whoever answers
    #[arg(long)]
    insecure_skip_tls_verify: bool,
    /// The name that the server's certificate is for
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,
    /// A file with a certificate to show
    #[arg(long, value_name = "PATH")]
    client_certificate: Option<String>,
    /// A file with the key of that certificate
    #[arg(long, value_name = "PATH")]
    client_key: Option<String>,
    /// A bearer token
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// As this user
    #[arg(long = "as", value_name = "NAME")]
    impersonate: Option<String>,
    /// As a member of this group, too
    #[arg(long = "as-group", value_name = "NAME")]
    impersonate_groups: Vec<String>,
    /// As the user with this uid
    #[arg(long = "as-uid", value_name = "UID")]
    impersonate_uid: Option<String>,
    /// Where to remember what servers serve; else ~/.kube/cache
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
}

impl Connection {
    /// What the flags and the kubeconfig say.
    pub(crate) fn config(&self) -> Result<Config, ConfigError> {
        match &self.kubeconfig {
            Some(path) => Config::from_kubeconfig(&Kubeconfig::read(path)?, &self.selection()),
            None => Config::infer_with(&self.selection()),
        }
    }

    /// A client of that server, in no more hurry than kubectl.
    pub(crate) fn client(&self) -> windlass_client::Result<Client> {
        client(self.config()?)
    }

    /// What that server serves, remembered where kubectl remembers it.
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
    fn flags_stand_above_the_kubeconfig() {
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
    async fn a_command_is_not_held_to_the_rate_of_controllers() {
        let client = client(Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        let began = tokio::time::Instant::now();
        for _ in 0..300 {
            // Nobody listens there; its turn comes before that is known.
            assert!(client.server_version().await.is_err());
        }
        assert_eq!(began.elapsed().as_secs(), 0);
    }
}
