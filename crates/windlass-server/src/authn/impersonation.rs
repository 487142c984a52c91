//! Asking on behalf of somebody else: the `Impersonate-*` headers.

use std::{collections::BTreeMap, sync::Arc};

use http::HeaderMap;
use percent_encoding::percent_decode_str;
use windlass_api::Status;

use super::{ANONYMOUS, AUTHENTICATED, SERVICE_ACCOUNT, UNAUTHENTICATED, User, service_account_groups};
use crate::{
    authz::{Attempt, MASTERS},
    codec::go_quote,
    http::RequestInfo,
};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// Whoever the request is to be answered for: the asker, or whom the headers name.
pub(crate) fn impersonated(asker: Arc<User>, request: &RequestInfo, headers: &HeaderMap) -> Result<Arc<User>, Status> {
    let text = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let mut groups: Vec<String> = Vec::new();
    let mut extra = BTreeMap::<String, Vec<String>>::new();
    for (name, value) in headers {
        let Ok(value) = value.to_str() else { continue };
        if name.as_str() == GROUP {
            groups.push(value.to_owned());
        } else if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
            extra.entry(key).or_default().push(value.to_owned());
        }
    }
    let (name, uid) = (text(USER), text(UID));
    if name.is_empty() {
        if uid.is_empty() && groups.is_empty() && extra.is_empty() {
            return Ok(asker);
        }
        return Err(Status::bad_request(format!(
            "requested {} without impersonating a user name",
            go_user(&uid, &groups, &extra)
        )));
    }
    if !asker.may(Attempt::Resource) {
        return Err(asker.forbidden(request, &format!("impersonate-on:user-info:{}", request.verb)));
    }
    let is_member = |groups: &[String], group: &str| groups.iter().any(|own| own == group);
    if let Some((namespace, _)) = name.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':'))
        && groups.is_empty()
    {
        groups.extend(service_account_groups(namespace));
    }
    if name == ANONYMOUS {
        if !is_member(&groups, UNAUTHENTICATED) {
            groups.push(UNAUTHENTICATED.to_owned());
        }
    } else if !is_member(&groups, AUTHENTICATED) && !is_member(&groups, UNAUTHENTICATED) {
        groups.push(AUTHENTICATED.to_owned());
    }
    if is_member(&groups, MASTERS) && !asker.is_in(MASTERS) {
        tracing::debug!(user = asker.name, "a user takes the rights of an administrator");
    }
    Ok(Arc::new(User { name, uid, groups, extra }))
}

/// As Go prints the user that nobody named.
fn go_user(uid: &str, groups: &[String], extra: &BTreeMap<String, Vec<String>>) -> String {
    let list = |items: &[String]| items.iter().map(|item| go_quote(item)).collect::<Vec<_>>().join(", ");
    let groups = if groups.is_empty() { "[]string(nil)".to_owned() } else { format!("[]string{{{}}}", list(groups)) };
    let extra = if extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let entries: Vec<String> =
            extra.iter().map(|(key, values)| format!("{}:[]string{{{}}}", go_quote(key), list(values))).collect();
        format!("map[string][]string{{{}}}", entries.join(", "))
    };
    format!("&user.DefaultInfo{{Name:\"\", UID:{}, Groups:{groups}, Extra:{extra}}}", go_quote(uid))
}
