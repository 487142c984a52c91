//! Impersonation: the `Impersonate-*` headers.
//!
//! Impersonation has several modes. The constrained modes (for example `impersonate:user-info`) also need permission
//! for the request itself (`impersonate-on:user-info:get`). The legacy verb `impersonate` covers any request. The
//! caller needs all permissions of one mode. If no mode is granted, the error is that of the first mode. The mode that
//! was last granted to the same caller is tried first, which saves authorization checks, as in kube-apiserver.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use windlass_api::Status;

use super::{Authenticator, Host};
use crate::identity::{ANONYMOUS, AUTHENTICATED, NODE_NAME, SERVICE_ACCOUNT, SERVICE_ACCOUNTS, UNAUTHENTICATED, User};
use crate::{
    authz::{AccessAttributes, Object},
    codec::go_quote,
    identity::MASTERS,
    kubernetes::KubernetesVersion,
    object::{Errors, Path, dns_label, dns_subdomain, validate_domain_prefixed},
    request::RequestInfo,
};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

const AUTHENTICATION: &str = "authentication.k8s.io";
const NODE: &str = "system:node:";
const NODES: &str = "system:nodes";

/// With at least this many groups or extras, the permission for all of them (`*`) is checked first.
const MANY: usize = 4;

/// An impersonation mode.
struct Mode {
    /// Empty for the legacy mode.
    name: &'static str,
    /// Reports whether the mode applies to this impersonated user and caller.
    applies_to: fn(impersonated_user: &User, caller: &User) -> bool,
}

/// The modes, in the order in which they are tried.
const MODES: [Mode; 5] = [
    Mode {
        name: "associated-node",
        applies_to: |impersonated_user, caller| {
            is_only_name(impersonated_user) && runs_on_node(caller, impersonated_user)
        },
    },
    Mode {
        name: "arbitrary-node",
        applies_to: |impersonated_user, _| is_only_name(impersonated_user) && node(&impersonated_user.name).is_some(),
    },
    Mode {
        name: "serviceaccount",
        applies_to: |impersonated_user, _| {
            is_only_name(impersonated_user) && account(&impersonated_user.name).is_some()
        },
    },
    Mode {
        name: "user-info",
        applies_to: |impersonated_user, _| {
            node(&impersonated_user.name).is_none() && account(&impersonated_user.name).is_none()
        },
    },
    Mode { name: "", applies_to: |_, _| true },
];

/// Returns the modes of a Kubernetes version, as indices into [`MODES`]. Before 1.36 there is only the legacy mode.
fn available(kubernetes: KubernetesVersion) -> Range<usize> {
    let first = if kubernetes < KubernetesVersion::V1_36 { MODES.len() - 1 } else { 0 };
    first..MODES.len()
}

/// The maximum number of callers in the cache of modes.
const MAX_GRANTED_MODES: usize = 10_000;

/// The mode last granted to each caller, as an index into [`MODES`].
#[derive(Debug, Default)]
pub(crate) struct GrantedModes(Mutex<BTreeMap<String, usize>>);

impl GrantedModes {
    fn last(&self, caller: &User) -> Option<usize> {
        self.0.lock().get(&caller.name).copied()
    }

    fn record(&self, caller: &User, mode: usize) {
        let mut modes = self.0.lock();
        if modes.get(&caller.name) == Some(&mode) {
            return;
        }
        if modes.len() >= MAX_GRANTED_MODES {
            modes.clear();
        }
        modes.insert(caller.name.clone(), mode);
    }
}

/// An impersonated user.
pub(crate) struct Impersonated {
    pub(crate) user: Arc<User>,
    /// The verb of the constrained mode. Empty for the legacy mode.
    pub(crate) constraint: String,
}

/// Returns the impersonated user, if the headers name one.
pub(crate) async fn impersonated(
    host: &impl Host,
    authenticator: &Authenticator,
    caller: &Arc<User>,
    request: &RequestInfo,
    headers: &HeaderMap,
) -> Result<Option<Impersonated>, Status> {
    let Some(impersonated_user) = impersonated_user(host.kubernetes(), headers)? else { return Ok(None) };
    let granted = authenticator.granted_modes();
    let known = granted.last(caller);
    let order = known.into_iter().chain(available(host.kubernetes()).filter(|index| Some(*index) != known));
    let mut first = None;
    for (index, mode) in order.map(|index| (index, &MODES[index])) {
        if !(mode.applies_to)(&impersonated_user, caller) {
            continue;
        }
        let check = ModeCheck { host, caller, mode };
        match check.authorize(request, &impersonated_user).await {
            Ok(user) => {
                granted.record(caller, index);
                let constraint = if check.is_constrained() { check.verb() } else { String::new() };
                return Ok(Some(Impersonated { user: Arc::new(user), constraint }));
            }
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or_else(|| Status::internal("all impersonation modes failed")))
}

/// Returns the user that the headers name, with the given groups and extras only; `None` without such headers.
///
/// Header values are bytes, as in Go: invalid UTF-8 becomes U+FFFD, as in JSON. A header is never dropped, because the
/// request would then run as the caller, or with fewer groups than the client requested.
fn impersonated_user(kubernetes: KubernetesVersion, headers: &HeaderMap) -> Result<Option<User>, Status> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |name: &str| headers.get(name).map(text).unwrap_or_default();
    let mut impersonated_user = User { name: first(USER), uid: first(UID), ..User::default() };
    for (name, value) in headers {
        if name.as_str() == GROUP {
            impersonated_user.groups.push(text(value));
        } else if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            impersonated_user.extra.entry(extra_key(key)).or_default().push(text(value));
        }
    }
    if !impersonated_user.name.is_empty() {
        return Ok(Some(impersonated_user));
    }
    if is_only_name(&impersonated_user) {
        return Ok(None);
    }
    Err(Status::bad_request(if kubernetes < KubernetesVersion::V1_36 {
        format!("requested {} without impersonating a user", go_references(&impersonated_user))
    } else {
        format!("requested {} without impersonating a user name", go_user_syntax(&impersonated_user))
    }))
}

/// Decodes the key of an extra. A key with an invalid escape is not decoded at all.
fn extra_key(encoded: &str) -> String {
    let escapes = encoded.split('%').skip(1);
    let is_escape = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    if escapes.into_iter().all(is_escape) {
        percent_decode_str(encoded).decode_utf8_lossy().into_owned()
    } else {
        encoded.to_owned()
    }
}

/// An attempt to impersonate in one mode.
struct ModeCheck<'a, H> {
    host: &'a H,
    caller: &'a User,
    mode: &'a Mode,
}

impl<H: Host> ModeCheck<'_, H> {
    /// Checks all permissions of the mode and returns the impersonated user.
    async fn authorize(&self, request: &RequestInfo, impersonated_user: &User) -> Result<User, Status> {
        let attributes = AccessAttributes::of(request);
        if self.is_constrained() {
            let verb = format!("impersonate-on:{}:{}", self.mode.name, attributes.verb);
            self.check(&AccessAttributes { verb: &verb, ..attributes }).await?;
        }
        let mut user = impersonated_user.clone();
        self.check_name(&mut user).await?;
        if !impersonated_user.uid.is_empty() {
            self.check_resource(AUTHENTICATION, "uids", "", "", &impersonated_user.uid).await?;
        }
        self.check_groups(&impersonated_user.groups).await?;
        self.check_extra(&impersonated_user.extra).await?;
        if user.name == ANONYMOUS {
            user.join(UNAUTHENTICATED);
        } else if !user.is_in(UNAUTHENTICATED) {
            user.join(AUTHENTICATED);
        }
        Ok(user)
    }

    /// Checks the permission for the user name. Sets the groups of service accounts and nodes.
    async fn check_name(&self, user: &mut User) -> Result<(), Status> {
        let name = user.name.clone();
        let group = self.group();
        if let Some(node) = node(&name).filter(|_| self.is_constrained()) {
            user.groups = vec![NODES.to_owned()];
            // All nodes: the caller's own node was already verified.
            let node = if self.mode.name == "associated-node" { "*" } else { node };
            return self.check_resource(group, "nodes", "", "", node).await;
        }
        if let Some((namespace, account)) = account(&name) {
            if user.groups.is_empty() {
                user.groups = vec![SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")];
            }
            return self.check_resource(group, "serviceaccounts", "", namespace, account).await;
        }
        self.check_resource(group, "users", "", "", &name).await
    }

    async fn check_groups(&self, groups: &[String]) -> Result<(), Status> {
        let refused = |name: &str, why: &str| {
            let verb = self.verb();
            let object = Object::Resource {
                group: self.group(),
                version: self.version(),
                resource: "groups",
                subresource: "",
                namespace: "",
                name,
            };
            Err(AccessAttributes::new(&verb, object).forbidden(self.caller, why))
        };
        if self.is_constrained() {
            if groups.iter().any(String::is_empty) {
                return refused("", "impersonating the empty string group is not allowed");
            }
            if groups.iter().any(|group| group == MASTERS) {
                return refused(MASTERS, "impersonating the system:masters group is not allowed");
            }
            if groups.len() >= MANY && self.check_resource(self.group(), "groups", "", "", "*").await.is_ok() {
                return Ok(());
            }
        }
        for group in groups {
            self.check_resource(self.group(), "groups", "", "", group).await?;
        }
        Ok(())
    }

    async fn check_extra(&self, extra: &BTreeMap<String, Vec<String>>) -> Result<(), Status> {
        const RESOURCE: &str = "userextras";
        if self.is_constrained() {
            if let Some(why) = extra.iter().find_map(|(key, values)| extra_error(key, values)) {
                let object = Object::Resource {
                    group: AUTHENTICATION,
                    version: "v1",
                    resource: RESOURCE,
                    subresource: "",
                    namespace: "",
                    name: "",
                };
                return Err(AccessAttributes::new(&self.verb(), object).forbidden(self.caller, &why));
            }
            if extra.values().map(Vec::len).sum::<usize>() >= MANY
                && self.check_resource(AUTHENTICATION, RESOURCE, "*", "", "*").await.is_ok()
            {
                return Ok(());
            }
        }
        for (key, values) in extra {
            for value in values {
                self.check_resource(AUTHENTICATION, RESOURCE, key, "", value).await?;
            }
        }
        Ok(())
    }

    async fn check_resource(
        &self,
        group: &str,
        resource: &str,
        subresource: &str,
        namespace: &str,
        name: &str,
    ) -> Result<(), Status> {
        let version = if group.is_empty() { "" } else { "v1" };
        let object = Object::Resource { group, version, resource, subresource, namespace, name };
        self.check(&AccessAttributes::new(&self.verb(), object)).await
    }

    async fn check(&self, attributes: &AccessAttributes<'_>) -> Result<(), Status> {
        self.host.authorize(self.caller, attributes).await
    }

    fn is_constrained(&self) -> bool {
        !self.mode.name.is_empty()
    }

    fn verb(&self) -> String {
        if self.is_constrained() { format!("impersonate:{}", self.mode.name) } else { "impersonate".to_owned() }
    }

    fn version(&self) -> &'static str {
        if self.is_constrained() { "v1" } else { "" }
    }

    /// Returns the API group of the resources for users and groups.
    fn group(&self) -> &'static str {
        if self.is_constrained() { AUTHENTICATION } else { "" }
    }
}

/// Returns the error of an extra; `None` if it is valid.
fn extra_error(key: &str, values: &[String]) -> Option<String> {
    let mut errors = Errors::default();
    validate_domain_prefixed(key, &Path::new("extra.key"), &mut errors);
    let problems: Vec<String> =
        errors.into_causes().into_iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    let why = if key.is_empty() {
        "impersonating the empty string key in extra is not allowed".to_owned()
    } else if let [problem] = problems.as_slice() {
        format!("impersonating an invalid key in extra is not allowed: {problem}")
    } else if !problems.is_empty() {
        format!("impersonating an invalid key in extra is not allowed: [{}]", problems.join(", "))
    } else if key != key.to_lowercase() {
        format!("impersonating a non-lowercase key in extra is not allowed: {key:?}")
    } else if values.iter().any(String::is_empty) {
        "impersonating the empty string value in extra is not allowed".to_owned()
    } else {
        return None;
    };
    Some(why)
}

fn is_only_name(user: &User) -> bool {
    user.uid.is_empty() && user.groups.is_empty() && user.extra.is_empty()
}

/// Returns the name of the node if the user is a node.
fn node(user: &str) -> Option<&str> {
    user.strip_prefix(NODE).filter(|name| dns_subdomain(name).is_empty())
}

/// Returns the namespace and name of the service account if the user is one.
fn account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    (dns_label(namespace).is_empty() && dns_subdomain(name).is_empty()).then_some((namespace, name))
}

/// Reports whether the caller is a service account of a pod on the impersonated node.
fn runs_on_node(caller: &User, impersonated_user: &User) -> bool {
    let own = caller.extra.get(NODE_NAME).map(Vec::as_slice);
    account(&caller.name).is_some()
        && node(&impersonated_user.name).is_some_and(|node| matches!(own, Some([own]) if own == node))
}

/// Formats a user as Go does.
fn go_user_syntax(user: &User) -> String {
    let list = |items: &[String]| items.iter().map(|item| go_quote(item)).collect::<Vec<_>>().join(", ");
    let groups =
        if user.groups.is_empty() { "[]string(nil)".to_owned() } else { format!("[]string{{{}}}", list(&user.groups)) };
    let extra = if user.extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let entries: Vec<String> =
            user.extra.iter().map(|(key, values)| format!("{}:[]string{{{}}}", go_quote(key), list(values))).collect();
        format!("map[string][]string{{{}}}", entries.join(", "))
    };
    format!("&user.DefaultInfo{{Name:\"\", UID:{}, Groups:{groups}, Extra:{extra}}}", go_quote(&user.uid))
}

/// Formats the parts of a user as Go formats references to objects: kind, namespace, name, UID, API version, resource
/// version and field path.
fn go_references(user: &User) -> String {
    const VERSION: &str = "authentication.k8s.io/v1";
    let groups = user.groups.iter().map(|group| format!("{{Group  {group}    }}"));
    let extra = user.extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
    let extra = extra.map(|(key, value)| format!("{{UserExtra  {value}  {VERSION}  {key}}}"));
    let uid = Some(&user.uid).filter(|uid| !uid.is_empty()).map(|uid| format!("{{UID  {uid}  {VERSION}  }}"));
    format!("[{}]", groups.chain(extra).chain(uid).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, StatusCode};
    use serde_json::Value;

    use super::*;
    use crate::{
        Server,
        http::{Origin, Trust, handle},
        server::boxed,
        tls::ClientCertificate,
    };

    fn named(headers: &[(&str, &[u8])]) -> Result<Option<User>, Status> {
        let header = |(name, value): &(&str, &[u8])| {
            (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_bytes(value).unwrap())
        };
        impersonated_user(KubernetesVersion::V1_36, &headers.iter().map(header).collect())
    }

    #[test]
    fn non_ascii_headers_impersonate_the_decoded_user() {
        let user = named(&[
            ("impersonate-user", "josé".as_bytes()),
            ("impersonate-uid", "ü1".as_bytes()),
            ("impersonate-group", "entwürfe".as_bytes()),
            ("impersonate-group", b"caf\xe9"),
            ("impersonate-extra-ort", "köln".as_bytes()),
        ]);
        let user = user.unwrap().unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("josé", "ü1"));
        assert_eq!(user.groups, ["entwürfe", "caf\u{fffd}"]);
        assert_eq!(user.extra["ort"], ["köln"]);
    }

    #[test]
    fn non_ascii_group_without_user_is_rejected() {
        let error = named(&[("impersonate-group", "entwürfe".as_bytes())]).unwrap_err();
        assert_eq!(error.code, 400);
    }

    #[test]
    fn partly_encoded_extra_keys_are_not_decoded() {
        for (sent, key) in [
            ("acme.io%2fscope", "acme.io/scope"),
            ("k%c3%b6ln", "köln"),
            ("%2f%zz", "%2f%zz"),
            ("%2f%2", "%2f%2"),
            ("a%", "a%"),
            ("plain", "plain"),
        ] {
            assert_eq!(extra_key(sent), key, "{sent}");
        }
    }

    /// Regression test for an attack: an administrator's proxy impersonates a user with an umlaut. The server ignored
    /// the header.
    #[tokio::test]
    async fn impersonating_a_non_ascii_user_does_not_run_as_caller() {
        let server = Server::builder().token("ADMIN").build();
        let trust = Trust::Socket(ClientCertificate::Nothing);
        let origin = Origin { trust, stopping: server.inner().stopping(), remote: None, is_upgradable: false };
        let ask = |path: &str| {
            let request = http::Request::get(path)
                .header("authorization", "Bearer ADMIN")
                .header("impersonate-user", HeaderValue::from_bytes("josé".as_bytes()).unwrap())
                .body(boxed(http_body_util::Empty::<bytes::Bytes>::new()))
                .unwrap();
            handle(server.inner().clone(), origin.clone(), request)
        };
        let response = ask("/api/v1/secrets").await;
        assert_eq!(response.status(), StatusCode::FORBIDDEN);
        let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
        let status: Value = serde_json::from_slice(&body).unwrap();
        let message = status["message"].as_str().unwrap();
        assert!(message.contains("User \"josé\" cannot list resource \"secrets\""), "{message}");
    }

    #[test]
    fn versions_before_1_36_have_the_legacy_mode_only() {
        let names = |version| MODES[available(version)].iter().map(|mode| mode.name).collect::<Vec<_>>();
        assert_eq!(names(KubernetesVersion::V1_35), [""]);
        assert_eq!(names(KubernetesVersion::V1_36).len(), MODES.len());
    }
}
