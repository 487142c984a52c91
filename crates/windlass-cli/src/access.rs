//! Authentication and authorization of a server in this process: the flags of kube-apiserver, the files that they name,
//! and the transports to webhooks.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::Args;
use futures::future::BoxFuture;
use http::StatusCode;
use serde_json::Value;
use tokio::{task::JoinSet, time};
use windlass_api::BoxError;
use windlass_client::Body;
use windlass_server::{
    Anonymous, AuthenticationConfiguration, AuthorizationConfiguration, AuthorizationWebhookOptions, AuthorizerChain,
    FrontProxy, OidcOptions, ProxyIdentity, Server, ServerBuilder, TlsIdentity, TokenReviewError, TokenReviewVersion,
    TokenReviewer, TokenWebhook, User, parse_token_file,
};

use crate::{authorization, remote::Remote, time_limits::not_negative};

/// The time between two reads of a file that can change.
const RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// The names of all flags, for stand-ins of other programs.
pub(crate) const NAMES: &[&str] = &[
    "anonymous-auth",
    "authentication-config",
    "authentication-token-webhook-cache-ttl",
    "authentication-token-webhook-config-file",
    "authentication-token-webhook-version",
    "authorization-mode",
    "authorization-webhook-cache-authorized-ttl",
    "authorization-webhook-cache-unauthorized-ttl",
    "authorization-webhook-config-file",
    "authorization-webhook-version",
    "client-ca-file",
    "enable-bootstrap-token-auth",
    "oidc-ca-file",
    "oidc-client-id",
    "oidc-groups-claim",
    "oidc-groups-prefix",
    "oidc-issuer-url",
    "oidc-required-claim",
    "oidc-signing-algs",
    "oidc-username-claim",
    "oidc-username-prefix",
    "requestheader-allowed-names",
    "requestheader-client-ca-file",
    "requestheader-extra-headers-prefix",
    "requestheader-group-headers",
    "requestheader-uid-headers",
    "requestheader-username-headers",
    "service-account-lookup",
    "token-auth-file",
];

/// The flags about clients and their permissions.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Authentication and authorization")]
pub(crate) struct AccessFlags {
    /// File that configures issuers of tokens (OpenID Connect) and anonymous requests, with kind AuthenticationConfiguration
    /// as for kube-apiserver. Changes of the issuers are applied within seconds
    #[arg(long, value_name = "FILE")]
    authentication_config: Option<PathBuf>,
    /// Accept requests without credentials as those of system:anonymous. Defaults to true
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    anonymous_auth: Option<bool>,
    /// File with the CAs of client certificates. Changes are applied within seconds
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
    /// File with static tokens: a line token,user,uid,"group1,group2" for each
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    /// Accept bootstrap tokens: secrets of type bootstrap.kubernetes.io/token in kube-system
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    enable_bootstrap_token_auth: Option<bool>,
    /// Accept the tokens in secrets only while the secret and its service account exist. Defaults to true
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    service_account_lookup: Option<bool>,
    #[command(flatten)]
    oidc: OidcFlags,
    #[command(flatten)]
    webhook: TokenWebhookFlags,
    #[command(flatten)]
    proxy: ProxyFlags,
    /// Authorizers, in order: AlwaysAllow, AlwaysDeny, Node, RBAC or Webhook. Defaults to Node,RBAC
    #[arg(long, value_name = "MODE,...", value_delimiter = ',')]
    authorization_mode: Vec<String>,
    /// Kubeconfig of the webhook of the mode Webhook
    #[arg(long, value_name = "FILE")]
    authorization_webhook_config_file: Option<PathBuf>,
    /// Time for which the webhook's decisions that allow requests are cached; 0 for none. Defaults to 5m
    #[arg(long, value_name = "DURATION", value_parser = not_negative)]
    authorization_webhook_cache_authorized_ttl: Option<Duration>,
    /// Time for which its other decisions are cached; 0 for none. Defaults to 30s
    #[arg(long, value_name = "DURATION", value_parser = not_negative)]
    authorization_webhook_cache_unauthorized_ttl: Option<Duration>,
    /// Version of the SubjectAccessReviews that it gets: v1 or v1beta1. Defaults to v1beta1
    #[arg(long, value_name = "VERSION")]
    authorization_webhook_version: Option<String>,
}

/// The flags of an issuer of tokens.
#[derive(Args, Clone, Debug, Default)]
struct OidcFlags {
    /// URL of an issuer of tokens (OpenID Connect)
    #[arg(long, value_name = "URL")]
    oidc_issuer_url: Option<String>,
    /// Audience of the issuer's tokens
    #[arg(long, value_name = "ID")]
    oidc_client_id: Option<String>,
    /// Claim with the user name. Defaults to sub
    #[arg(long, value_name = "CLAIM")]
    oidc_username_claim: Option<String>,
    /// Prefix of user names; - for none. By default names from other claims than email begin with the issuer's URL and #
    #[arg(long, value_name = "PREFIX", allow_hyphen_values = true)]
    oidc_username_prefix: Option<String>,
    /// Claim with the groups
    #[arg(long, value_name = "CLAIM")]
    oidc_groups_claim: Option<String>,
    /// Prefix of groups
    #[arg(long, value_name = "PREFIX")]
    oidc_groups_prefix: Option<String>,
    /// Claim that tokens must have, with its value; can be repeated
    #[arg(long, value_name = "CLAIM=VALUE", value_parser = pair)]
    oidc_required_claim: Vec<(String, String)>,
    /// File with the CAs of the issuer. Defaults to the CAs of the system
    #[arg(long, value_name = "FILE")]
    oidc_ca_file: Option<PathBuf>,
    /// Accepted signing algorithms, separated by commas. Defaults to RS256
    #[arg(long, value_name = "ALG,...", value_delimiter = ',')]
    oidc_signing_algs: Vec<String>,
}

/// The flags of the token webhook.
#[derive(Args, Clone, Debug, Default)]
struct TokenWebhookFlags {
    /// Kubeconfig of a webhook that identifies the users of tokens which no other authenticator knows
    #[arg(long, value_name = "FILE")]
    authentication_token_webhook_config_file: Option<PathBuf>,
    /// Time for which its answers are cached; 0 for none. Defaults to 2m
    #[arg(long, value_name = "DURATION", value_parser = not_negative)]
    authentication_token_webhook_cache_ttl: Option<Duration>,
    /// Version of the TokenReviews that it gets: v1 or v1beta1. Defaults to v1beta1
    #[arg(long, value_name = "VERSION")]
    authentication_token_webhook_version: Option<String>,
}

/// The flags of front proxies.
#[derive(Args, Clone, Debug, Default)]
struct ProxyFlags {
    /// File with the CAs of front proxies, which name the users of requests in headers
    #[arg(long, value_name = "FILE")]
    requestheader_client_ca_file: Option<PathBuf>,
    /// Common names of the certificates of front proxies; by default any
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    requestheader_allowed_names: Vec<String>,
    /// Headers with the user name, such as X-Remote-User
    #[arg(long, value_name = "HEADER,...", value_delimiter = ',')]
    requestheader_username_headers: Vec<String>,
    /// Headers with the UID of the user, such as X-Remote-Uid
    #[arg(long, value_name = "HEADER,...", value_delimiter = ',')]
    requestheader_uid_headers: Vec<String>,
    /// Headers with the groups of the user, such as X-Remote-Group
    #[arg(long, value_name = "HEADER,...", value_delimiter = ',')]
    requestheader_group_headers: Vec<String>,
    /// Prefixes of headers with further attributes of the user, such as X-Remote-Extra-
    #[arg(long, value_name = "PREFIX,...", value_delimiter = ',')]
    requestheader_extra_headers_prefix: Vec<String>,
}

/// The default authorizers, as kubeadm configures them.
const MODES: [&str; 2] = ["Node", "RBAC"];

fn default_authorizers() -> AuthorizerChain {
    let configuration = AuthorizationConfiguration::from_modes(&MODES, None).expect("the modes are valid");
    configuration.connect(|_| Err("there is no webhook".into())).expect("no webhook is connected")
}

/// The loaded configuration of authentication and authorization.
#[derive(Debug, Default)]
pub(crate) struct Access {
    configuration: Option<AuthenticationConfiguration>,
    /// The file of the configuration, and its content.
    file: Option<Watched>,
    anonymous: Option<Anonymous>,
    webhook: Option<TokenWebhook>,
    bootstrap_tokens: bool,
    skips_lookup: bool,
    tokens: Vec<(String, User)>,
    client_ca: Option<Watched>,
    /// The settings and the CA of front proxies.
    proxy: Option<(FrontProxy, String)>,
    authorizers: Option<AuthorizerChain>,
}

/// A file that can change, with its last content.
#[derive(Clone, Debug)]
struct Watched {
    path: PathBuf,
    content: String,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (claim, value) = text.split_once('=').ok_or_else(|| "expected CLAIM=VALUE".to_owned())?;
    Ok((claim.trim().to_owned(), value.trim().to_owned()))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn parse_configuration(path: &Path, text: &str) -> Result<AuthenticationConfiguration, String> {
    let failed = |error: &dyn Error| {
        let shown = windlass_api::ErrorChain(error);
        format!("failed to load authentication configuration from file {:?}: {shown}", path.display().to_string())
    };
    let file: Value = serde_saphyr::from_str(text).map_err(|error| failed(&error))?;
    AuthenticationConfiguration::parse(file).map_err(|error| failed(&error))
}

impl AccessFlags {
    /// Reads the files of the flags. `authorization_config` is the file of `--authorization-config`, and `issuers` has the
    /// issuers of service account tokens.
    pub(crate) fn load(
        self,
        authorization_config: Option<&Path>,
        issuers: &[String],
    ) -> Result<Access, Box<dyn Error>> {
        let authorizers = self.authorizers(authorization_config)?;
        let mut access = Access {
            authorizers,
            bootstrap_tokens: self.enable_bootstrap_token_auth.unwrap_or_default(),
            skips_lookup: self.service_account_lookup == Some(false),
            webhook: self.webhook.build()?,
            proxy: self.proxy.build(self.client_ca_file.as_deref())?,
            ..Access::default()
        };
        access.configuration = self.oidc.build(self.authentication_config.is_some())?;
        if let Some(path) = self.authentication_config {
            let content = read(&path).map_err(|error| {
                let path = path.display().to_string();
                format!("failed to load authentication configuration from file {path:?}: {error}")
            })?;
            access.configuration = Some(parse_configuration(&path, &content)?);
            access.file = Some(Watched { path, content });
        }
        if let Some(configuration) = &access.configuration {
            configuration.validate(issuers)?;
            if configuration.has_anonymous() && self.anonymous_auth.is_some() {
                let why = "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in \
                           authentication configuration file";
                return Err(why.into());
            }
        }
        // As in kube-apiserver, anonymous users must not be allowed everything.
        let allows_all = self.authorization_mode.iter().any(|mode| mode == "AlwaysAllow");
        if allows_all && self.anonymous_auth != Some(false) {
            tracing::warn!(
                "anonymous requests are not allowed with the AlwaysAllow authorizer; use a different authorizer to allow \
                 them"
            );
        }
        if self.anonymous_auth == Some(false) || allows_all {
            access.anonymous = Some(Anonymous::Refused);
        }
        if let Some(path) = self.token_auth_file {
            access.tokens = parse_token_file(&path.display().to_string(), &read(&path)?)
                .map_err(|error| format!("{}: {error}", path.display()))?;
        }
        if let Some(path) = self.client_ca_file {
            let content = read(&path)?;
            access.client_ca = Some(Watched { path, content });
        }
        Ok(access)
    }

    fn authorizers(&self, config: Option<&Path>) -> Result<Option<AuthorizerChain>, Box<dyn Error>> {
        let Self {
            authorization_mode: modes,
            authorization_webhook_config_file: kubeconfig,
            authorization_webhook_cache_authorized_ttl: authorized,
            authorization_webhook_cache_unauthorized_ttl: unauthorized,
            authorization_webhook_version: version,
            ..
        } = self;
        let has_flags = !modes.is_empty()
            || kubeconfig.is_some()
            || authorized.is_some()
            || unauthorized.is_some()
            || version.is_some();
        if let Some(path) = config {
            if has_flags {
                let why = "--authorization-config can not be specified when --authorization-mode or \
                           --authorization-webhook-* flags are defined";
                return Err(why.into());
            }
            return authorization::read(path).map(Some);
        }
        if modes.is_empty() && kubeconfig.is_none() {
            return Ok(None);
        }
        let webhook = kubeconfig.clone().map(|path| {
            let mut options = AuthorizationWebhookOptions::new(path);
            options.authorized_ttl = authorized.unwrap_or(options.authorized_ttl);
            options.unauthorized_ttl = unauthorized.unwrap_or(options.unauthorized_ttl);
            if let Some(version) = version {
                options.version.clone_from(version);
            }
            options
        });
        let modes: Vec<&str> = if modes.is_empty() { MODES.into() } else { modes.iter().map(String::as_str).collect() };
        let chain = AuthorizationConfiguration::from_modes(&modes, webhook)?
            .connect(|kubeconfig| Ok(Arc::new(Remote::new(kubeconfig)?)))?;
        Ok(Some(chain))
    }
}

impl OidcFlags {
    fn build(self, has_file: bool) -> Result<Option<AuthenticationConfiguration>, Box<dyn Error>> {
        let Self { oidc_issuer_url, oidc_client_id, oidc_username_claim, oidc_username_prefix, .. } = self;
        let is_set = oidc_issuer_url.is_some()
            || oidc_client_id.is_some()
            || oidc_username_claim.is_some()
            || oidc_username_prefix.is_some()
            || self.oidc_groups_claim.is_some()
            || self.oidc_groups_prefix.is_some()
            || self.oidc_ca_file.is_some()
            || !self.oidc_required_claim.is_empty()
            || !self.oidc_signing_algs.is_empty();
        if !is_set {
            return Ok(None);
        }
        if has_file {
            return Err("authentication-config file and oidc-* flags are mutually exclusive".into());
        }
        let (Some(issuer_url), Some(client_id)) =
            (oidc_issuer_url.filter(|url| !url.is_empty()), oidc_client_id.filter(|id| !id.is_empty()))
        else {
            let why = "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set";
            return Err(why.into());
        };
        let certificate_authority = self.oidc_ca_file.as_deref().map(read).transpose()?.unwrap_or_default();
        let configuration = AuthenticationConfiguration::oidc(OidcOptions {
            issuer_url,
            client_id,
            username_claim: oidc_username_claim.unwrap_or_else(|| "sub".to_owned()),
            username_prefix: oidc_username_prefix.unwrap_or_default(),
            groups_claim: self.oidc_groups_claim.unwrap_or_default(),
            groups_prefix: self.oidc_groups_prefix.unwrap_or_default(),
            required_claims: self.oidc_required_claim,
            certificate_authority,
            signing_algorithms: self.oidc_signing_algs,
        })?;
        Ok(Some(configuration))
    }
}

impl TokenWebhookFlags {
    fn build(self) -> Result<Option<TokenWebhook>, Box<dyn Error>> {
        let version = match self.authentication_token_webhook_version.as_deref() {
            None | Some("v1beta1") => TokenReviewVersion::V1Beta1,
            Some("v1") => TokenReviewVersion::V1,
            Some(other) => {
                return Err(format!(
                    "unsupported authentication webhook version {other:?}, supported versions are \"v1\", \"v1beta1\""
                )
                .into());
            }
        };
        let Some(path) = self.authentication_token_webhook_config_file else { return Ok(None) };
        let remote = Remote::new(&path).map_err(|error| format!("cannot use {}: {error}", path.display()))?;
        let mut webhook = TokenWebhook::new(Arc::new(remote)).version(version);
        if let Some(lifetime) = self.authentication_token_webhook_cache_ttl {
            webhook = webhook.cache_ttl(lifetime);
        }
        Ok(Some(webhook))
    }
}

impl ProxyFlags {
    fn build(self, client_ca: Option<&Path>) -> Result<Option<(FrontProxy, String)>, Box<dyn Error>> {
        for (flag, values) in [
            ("requestheader-username-headers", &self.requestheader_username_headers),
            ("requestheader-uid-headers", &self.requestheader_uid_headers),
            ("requestheader-group-headers", &self.requestheader_group_headers),
            ("requestheader-extra-headers-prefix", &self.requestheader_extra_headers_prefix),
            ("requestheader-allowed-names", &self.requestheader_allowed_names),
        ] {
            if values.iter().any(|value| value.trim().is_empty()) {
                return Err(format!("empty value in {flag:?}").into());
            }
        }
        let Some(path) = self.requestheader_client_ca_file else { return Ok(None) };
        let pem = read(&path)?;
        if let (Some(clients), true) = (client_ca, self.requestheader_allowed_names.is_empty())
            && overlap(&read(clients)?, &pem)
        {
            let why = "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; \
                       --requestheader-allowed-names must be specified to ensure regular client certificates cannot set \
                       authenticating proxy headers for arbitrary users";
            return Err(why.into());
        }
        let proxy = FrontProxy {
            allowed_names: self.requestheader_allowed_names,
            username_headers: self.requestheader_username_headers,
            uid_headers: self.requestheader_uid_headers,
            group_headers: self.requestheader_group_headers,
            extra_header_prefixes: self.requestheader_extra_headers_prefix,
        };
        Ok(Some((proxy, pem)))
    }
}

/// Reports whether two files in PEM have a certificate in common.
fn overlap(a: &str, b: &str) -> bool {
    let certificates = |pem: &str| -> Vec<String> {
        let blocks = pem.split("-----BEGIN CERTIFICATE-----").skip(1);
        let bodies = blocks.filter_map(|block| block.split("-----END").next());
        bodies.map(|body| body.split_whitespace().collect()).collect()
    };
    let others = certificates(b);
    certificates(a).iter().any(|certificate| others.contains(certificate))
}

impl Access {
    /// Applies the configuration to a server.
    pub(crate) fn apply(&mut self, mut server: ServerBuilder) -> ServerBuilder {
        server = server.bootstrap_tokens(self.bootstrap_tokens).service_account_lookup(!self.skips_lookup);
        if let Some(anonymous) = self.anonymous {
            server = server.anonymous(anonymous);
        }
        if let Some(webhook) = self.webhook.take() {
            server = server.token_webhook(webhook);
        }
        if let Some((proxy, _)) = &self.proxy {
            server = server.front_proxy(proxy.clone());
        }
        for (token, user) in self.tokens.drain(..) {
            server = server.user_token(&token, user);
        }
        server.authorizers(self.authorizers.take().unwrap_or_else(default_authorizers))
    }

    /// Reports whether CAs of clients are configured.
    pub(crate) const fn has_client_ca(&self) -> bool {
        self.client_ca.is_some()
    }

    /// Reports whether nodes have their default permissions.
    pub(crate) fn authorizes_nodes(&self) -> bool {
        self.authorizers.as_ref().is_none_or(AuthorizerChain::authorizes_nodes)
    }

    /// Reports whether the controllers have the permissions of their default roles.
    pub(crate) fn authorizes_by_roles(&self) -> bool {
        self.authorizers.as_ref().is_none_or(AuthorizerChain::authorizes_by_roles)
    }

    /// Accepts the front proxies of a CA, unless others are configured.
    pub(crate) fn accept_front_proxies(&mut self, ca: String) {
        self.proxy.get_or_insert_with(|| (FrontProxy::of_names([ProxyIdentity::NAME]), ca));
    }

    /// Reports whether front proxies are accepted.
    pub(crate) const fn accepts_front_proxies(&self) -> bool {
        self.proxy.is_some()
    }

    /// Adds the CAs of clients to an identity.
    pub(crate) fn identity(&self, mut tls: TlsIdentity) -> Result<TlsIdentity, Box<dyn Error>> {
        if let Some(Watched { path, content }) = &self.client_ca {
            tls = tls.with_client_ca(content).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        if let Some((_, pem)) = &self.proxy {
            tls = tls.with_front_proxy_ca(pem).map_err(|error| format!("--requestheader-client-ca-file: {error}"))?;
        }
        Ok(tls)
    }

    /// Configures the issuers of a server, and starts the tasks that apply changes of files.
    pub(crate) fn start(
        self,
        server: &Server,
        tls: &TlsIdentity,
        tasks: &mut JoinSet<()>,
    ) -> Result<(), Box<dyn Error>> {
        if let Some(configuration) = &self.configuration {
            server.configure_authentication(configuration)?;
        }
        if let Some(file) = self.file {
            let server = server.clone();
            tasks.spawn(file.follow(move |path, text| {
                let applied = parse_configuration(path, text).and_then(|configuration| {
                    server.configure_authentication(&configuration).map_err(|error| error.to_string())
                });
                match applied {
                    Ok(()) => tracing::info!(file = %path.display(), "reloaded the authentication configuration"),
                    Err(error) => tracing::error!(error, "cannot reload the authentication configuration"),
                }
                futures::future::ready(())
            }));
        }
        if let Some(file) = self.client_ca {
            let (server, tls) = (server.clone(), tls.clone());
            tasks.spawn(file.follow(move |path, text| {
                let replaced = tls.replace_client_ca(text);
                let (server, text, path) = (server.clone(), text.to_owned(), path.to_owned());
                async move {
                    match replaced {
                        Ok(()) => {
                            tracing::info!(file = %path.display(), "reloaded the client CA");
                            server.publish_client_ca(&text).await;
                        }
                        Err(error) => tracing::error!(%error, file = %path.display(), "cannot reload the client CA"),
                    }
                }
            }));
        }
        Ok(())
    }
}

impl Watched {
    /// Calls `changed` for each new content of the file. A file that cannot be read is read again later.
    async fn follow<F: Future<Output = ()>>(mut self, mut changed: impl FnMut(&Path, &str) -> F) {
        loop {
            time::sleep(RELOAD_INTERVAL).await;
            match tokio::fs::read_to_string(&self.path).await {
                Ok(content) if content != self.content => {
                    changed(&self.path, &content).await;
                    self.content = content;
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, file = %self.path.display(), "cannot read a file again"),
            }
        }
    }
}

impl TokenReviewer for Remote {
    fn review(&self, review: Value) -> BoxFuture<'_, Result<Value, TokenReviewError>> {
        Box::pin(async move {
            let (status, body) = self.post(Body::from(review.to_string()), "").await?;
            if !matches!(status, StatusCode::OK | StatusCode::CREATED) {
                return Err(TokenReviewError::Refused(status));
            }
            Ok(serde_json::from_slice(&body).map_err(BoxError::from)?)
        })
    }
}

#[cfg(test)]
mod tests;
