//! Bootstrap tokens: each is a secret in `kube-system`, with which a new node joins the cluster.

use std::collections::BTreeSet;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use serde_json::Value;
use windlass_api::Status;

use super::constant_time_eq;
use crate::{identity::User, object::Tree, registry::Registry, resource::Target};

const NAMESPACE: &str = "kube-system";
const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
const DEFAULT_GROUP: &str = "system:bootstrappers";

/// Returns the user of a bootstrap token; `None` if the token is none, or not valid.
pub(super) async fn identify(registry: &Registry, token: &[u8], now: Timestamp) -> Result<Option<User>, Status> {
    let Some((id, secret)) = parts(token) else { return Ok(None) };
    let resources = registry.resources();
    let Some(secrets) = resources.get("", "v1", "secrets") else { return Ok(None) };
    let target = Target::object(secrets, Some(NAMESPACE), &format!("bootstrap-token-{id}"));
    let Some(stored) = registry.peek_recent(&target).await? else { return Ok(None) };
    let rejection = match user(&stored.value(), id, secret, now) {
        Ok(user) => return Ok(Some(user)),
        Err(rejection) => rejection,
    };
    tracing::debug!(id, rejection, "rejected a bootstrap token");
    Ok(None)
}

/// Splits a token of the form `ID.SECRET`.
fn parts(token: &[u8]) -> Option<(&str, &str)> {
    let (id, secret) = std::str::from_utf8(token).ok()?.split_once('.')?;
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase());
    (id.len() == 6 && secret.len() == 16 && is_plain(id) && is_plain(secret)).then_some((id, secret))
}

/// Returns the user of a stored token, or the reason for rejecting it.
fn user(stored: &Value, id: &str, secret: &str, now: Timestamp) -> Result<User, &'static str> {
    if stored.at(&["metadata", "deletionTimestamp"]).is_some() {
        return Err("is deleted and awaiting removal");
    }
    if stored.text(&["type"]) != SECRET_TYPE {
        return Err("has an invalid type");
    }
    let data = |key: &str| {
        let bytes = BASE64_STANDARD.decode(stored.text(&["data", key])).unwrap_or_default();
        String::from_utf8(bytes).unwrap_or_default()
    };
    if !constant_time_eq(data("token-secret").as_bytes(), secret.as_bytes()) {
        return Err("has an invalid value for key token-secret");
    }
    if data("token-id") != id {
        return Err("has an invalid value for key token-id");
    }
    let expiration = data("expiration");
    if !expiration.is_empty() && !expiration.parse::<Timestamp>().is_ok_and(|end| end > now) {
        return Err("has expired");
    }
    if data("usage-bootstrap-authentication") != "true" {
        return Err("is not marked usage-bootstrap-authentication=true");
    }
    let mut groups = BTreeSet::from([DEFAULT_GROUP.to_owned()]);
    let extra = data("auth-extra-groups");
    for group in extra.split(',').filter(|_| !extra.is_empty()) {
        if !is_group(group) {
            return Err("has an invalid value for key auth-extra-groups");
        }
        groups.insert(group.to_owned());
    }
    Ok(User::new(format!("system:bootstrap:{id}")).in_groups(groups))
}

fn is_group(group: &str) -> bool {
    let Some(name) = group.strip_prefix("system:bootstrappers:") else { return false };
    let is_end = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
    (1..=256).contains(&name.len())
        && name.bytes().all(|byte| is_end(byte) || matches!(byte, b':' | b'-'))
        && name.bytes().last().is_some_and(is_end)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(changed: &[(&str, &str)]) -> Value {
        let mut data = json!({});
        let defaults =
            [("token-id", "abcdef"), ("token-secret", "0123456789abcdef"), ("usage-bootstrap-authentication", "true")];
        for (key, value) in defaults.iter().chain(changed) {
            data[*key] = BASE64_STANDARD.encode(value).into();
        }
        json!({"type": SECRET_TYPE, "data": data})
    }

    fn found(stored: &Value) -> Result<String, &'static str> {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let user = user(stored, "abcdef", "0123456789abcdef", now)?;
        Ok(format!("{} {}", user.name, user.groups.join(",")))
    }

    #[test]
    fn token_has_two_parts_of_fixed_length() {
        assert_eq!(parts(b"abcdef.0123456789abcdef"), Some(("abcdef", "0123456789abcdef")));
        for wrong in ["abcdef.0123456789abcde", "Abcdef.0123456789abcdef", "abcdef0123456789abcdef", "a.b.c"] {
            assert_eq!(parts(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn secret_decides_about_user_and_validity() {
        let plain = "system:bootstrap:abcdef system:bootstrappers,system:authenticated".to_owned();
        assert_eq!(found(&secret(&[])), Ok(plain.clone()));
        assert_eq!(found(&secret(&[("expiration", "2030-01-01T00:00:00Z")])), Ok(plain));
        let groups = "system:bootstrappers:b,system:bootstrappers:a";
        assert_eq!(
            found(&secret(&[("auth-extra-groups", groups)])).unwrap(),
            "system:bootstrap:abcdef system:bootstrappers,system:bootstrappers:a,system:bootstrappers:b,system:authenticated"
        );
        for (key, value, why) in [
            ("token-secret", "fedcba9876543210", "has an invalid value for key token-secret"),
            ("token-id", "fedcba", "has an invalid value for key token-id"),
            ("expiration", "2020-01-01T00:00:00Z", "has expired"),
            ("expiration", "soon", "has expired"),
            ("usage-bootstrap-authentication", "yes", "is not marked usage-bootstrap-authentication=true"),
            ("auth-extra-groups", "system:masters", "has an invalid value for key auth-extra-groups"),
            ("auth-extra-groups", "system:bootstrappers:a-", "has an invalid value for key auth-extra-groups"),
        ] {
            assert_eq!(found(&secret(&[(key, value)])), Err(why), "{key}={value}");
        }
        let mut other = secret(&[]);
        other["type"] = "Opaque".into();
        assert_eq!(found(&other), Err("has an invalid type"));
        let mut deleted = secret(&[]);
        deleted["metadata"] = json!({"deletionTimestamp": "2027-01-01T00:00:00Z"});
        assert_eq!(found(&deleted), Err("is deleted and awaiting removal"));
    }
}
