//! The credentials of a kubeconfig user, except for client certificates.

use std::fs;

use serde_json::{Map, Value};

use super::decode;
use crate::{
    auth::{Auth, ExecConfig, ExecVersion, Interaction, OidcConfig, OidcStore, PluginPolicy},
    config_error::{ConfigError, Place},
    connection_options::{Identity, Pem},
    kubeconfig::{AuthProvider, Cluster, Exec, Named, User, is_set},
    secret::Secret,
};

/// The cluster extension that is passed to plugins.
const PLUGIN_EXTENSION: &str = "client.authentication.k8s.io/exec";

/// Determines the credentials. As in client-go, a token or password takes precedence over plugins and providers, and a
/// certificate over plugins.
pub(super) fn auth(
    user: &Named<User>,
    cluster: &Named<Cluster>,
    identity: Option<&Identity>,
) -> Result<Auth, ConfigError> {
    let place = user.place("user");
    let entry = &user.entry;
    let set = |secret: &Option<Secret>| secret.clone().filter(|secret| !secret.expose().is_empty());
    let token = match is_set(entry.token_file.as_ref()) {
        Some(path) => Some(Auth::TokenFile(crate::config::resolve::existing(path, &place, "tokenFile")?)),
        None => set(&entry.token).map(Auth::Bearer),
    };
    let username = is_set(entry.username.as_ref()).map(str::to_owned);
    let password = set(&entry.password);
    let basic = username.is_some() || password.is_some();
    if token.is_some() && basic {
        return Err(place.invalid("has both a token and a password; one is allowed"));
    }
    // Validate plugins even if other credentials take precedence.
    let plugin = entry.exec.as_ref().map(|exec| plugin(exec, &place, cluster)).transpose()?;
    let provider = entry.auth_provider.as_ref().map(|provider| oidc(provider, &place, user)).transpose()?;
    if plugin.is_some() && provider.is_some() {
        return Err(place.field("auth-provider").invalid("is set beside exec; one is allowed"));
    }
    Ok(match (token, plugin, provider) {
        (Some(token), ..) => token,
        (None, ..) if basic => {
            Auth::Basic { username: username.unwrap_or_default(), password: password.unwrap_or_default() }
        }
        (None, Some(plugin), _) if identity.is_none() => Auth::Exec(Box::new(plugin)),
        (None, _, Some(provider)) => Auth::Oidc(Box::new(provider)),
        (None, _, None) => Auth::None,
    })
}

fn plugin(exec: &Exec, place: &Place, cluster: &Named<Cluster>) -> Result<ExecConfig, ConfigError> {
    let field = |name: &str| place.field(format!("exec.{name}"));
    let unset = |name: &str| field(name).invalid("is not set");
    let command = is_set(exec.command.as_ref()).ok_or_else(|| unset("command"))?;
    let version = is_set(exec.api_version.as_ref()).ok_or_else(|| unset("apiVersion"))?;
    let version = ExecVersion::parse(version).ok_or_else(|| {
        let known = ExecVersion::ALL.map(ExecVersion::as_str).join(" and ");
        field("apiVersion").invalid(format!("{version:?} is not known; {known} are"))
    })?;
    let interaction = match (is_set(exec.interactive_mode.as_ref()), version) {
        (Some(mode), _) => Interaction::parse(mode).ok_or_else(|| {
            let known = Interaction::ALL.map(Interaction::as_str).join(", ");
            field("interactiveMode").invalid(format!("is {mode:?}; it may be one of {known}"))
        })?,
        (None, ExecVersion::V1Beta1) => Interaction::IfAvailable,
        (None, ExecVersion::V1) => return Err(unset("interactiveMode")),
    };
    if exec.env.iter().any(|variable| variable.name.is_empty()) {
        return Err(field("env").invalid("has a variable without a name"));
    }
    let cluster = match exec.provide_cluster_info {
        Some(true) => Some(cluster_info(cluster)?),
        Some(false) | None => None,
    };
    Ok(ExecConfig {
        command: command.to_owned(),
        args: exec.args.clone(),
        env: exec.env.iter().map(|variable| (variable.name.clone(), variable.value.clone())).collect(),
        version,
        install_hint: is_set(exec.install_hint.as_ref()).map(str::to_owned),
        interaction,
        cluster,
        policy: PluginPolicy::AllowAll,
    })
}

/// Returns the description of the cluster for plugins, as JSON.
fn cluster_info(cluster: &Named<Cluster>) -> Result<Value, ConfigError> {
    let entry = &cluster.entry;
    let mut info = Map::new();
    let mut put = |name: &str, value: Option<Value>| info.extend(value.map(|value| (name.to_owned(), value)));
    put("server", is_set(entry.server.as_ref()).map(Value::from));
    put("tls-server-name", is_set(entry.tls_server_name.as_ref()).map(Value::from));
    put("insecure-skip-tls-verify", entry.insecure_skip_tls_verify.filter(|skip| *skip).map(Value::from));
    let place = cluster.place("cluster");
    let authority = match crate::config::resolve::cluster_tls(cluster)?.certificate_authority {
        None => None,
        Some(Pem::Data(bytes)) => Some(bytes),
        Some(Pem::File(path)) => Some(fs::read(&path).map_err(|source| {
            let named_by = Some(Box::new(place.field("certificate-authority")));
            ConfigError::Read { path, named_by, source }
        })?),
    };
    put("certificate-authority-data", authority.map(|bytes| crate::config::resolve::encode(&bytes).into()));
    put("proxy-url", entry.proxy_url.as_ref().map(Secret::expose).filter(|url| !url.is_empty()).map(Value::from));
    put("disable-compression", entry.disable_compression.filter(|disable| *disable).map(Value::from));
    put("config", entry.extension(PLUGIN_EXTENSION).cloned());
    Ok(info.into())
}

fn oidc(provider: &AuthProvider, place: &Place, user: &Named<User>) -> Result<OidcConfig, ConfigError> {
    let name = is_set(provider.name.as_ref()).ok_or_else(|| place.field("auth-provider.name").invalid("is not set"))?;
    if name != "oidc" {
        let problem = format!("{name:?} is not known; oidc is, and the others have become exec plugins");
        return Err(place.field("auth-provider.name").invalid(problem));
    }
    let setting = |name: &str| provider.config.get(name).filter(|value| !value.expose().is_empty());
    let text = |name: &str| setting(name).map(|value| value.expose().to_owned());
    let field = |name: &str| place.field(format!("auth-provider.config.{name}"));
    let needed = |name: &str| text(name).ok_or_else(|| field(name).invalid("is not set"));
    let certificate_authority = match (text("idp-certificate-authority-data"), text("idp-certificate-authority")) {
        (Some(data), _) => Some(Pem::Data(
            decode(&data).ok_or_else(|| field("idp-certificate-authority-data").invalid("is not base64"))?,
        )),
        (None, Some(path)) => Some(Pem::File(user.resolve_path(&path))),
        (None, None) => None,
    };
    let issuer = needed("idp-issuer-url")?;
    Ok(OidcConfig {
        issuer: issuer.parse().map_err(|_| field("idp-issuer-url").invalid("is not the address of a server"))?,
        client_id: needed("client-id")?,
        client_secret: setting("client-secret").cloned(),
        certificate_authority,
        id_token: setting("id-token").cloned(),
        refresh_token: setting("refresh-token").cloned(),
        store: user.origin.clone().map(|file| OidcStore { file, user: user.name.clone() }),
    })
}
