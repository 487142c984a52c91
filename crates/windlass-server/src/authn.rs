//! Who is asking, and whether they may.
//!
//! One static bearer token is the administrator (`system:masters`, which may do everything). A request without
//! credentials is `system:anonymous`, who may read the health endpoints and the version, as the real server's
//! bootstrap policy has it. A wrong token is refused wherever it is sent. In process no token is needed.
//!
//! Not here yet: client certificates, service account tokens, RBAC.

use std::{fmt, sync::Arc};

use http::{HeaderMap, header::AUTHORIZATION};
use windlass_api::{GroupResource, Status, StatusDetails, reason};

use crate::{http::RequestInfo, warning::Warnings};

/// Members of this group may do everything.
const MASTERS: &str = "system:masters";

/// What everybody may GET.
const PUBLIC: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

const EXTRA_SPACE: &str =
    "the provided Authorization header contains extra space before the bearer token, and is ignored";

/// Who sent a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
}

/// Decides who sent a request.
#[derive(Clone)]
pub(crate) struct Authenticator {
    /// None: no token is right, and only in-process callers are more than anonymous.
    token: Option<Arc<str>>,
    admin: Arc<User>,
    anonymous: Arc<User>,
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").field("token", &self.token.as_ref().map(|_| "…")).finish_non_exhaustive()
    }
}

impl Authenticator {
    pub(crate) fn new(token: Option<Arc<str>>) -> Self {
        let user = |name: &str, groups: &[&str]| {
            Arc::new(User { name: name.to_owned(), groups: groups.iter().copied().map(str::to_owned).collect() })
        };
        Self {
            token,
            admin: user("admin", &[MASTERS, "system:authenticated"]),
            anonymous: user("system:anonymous", &["system:unauthenticated"]),
        }
    }

    /// Whoever calls in process.
    pub(crate) fn admin(&self) -> Arc<User> {
        self.admin.clone()
    }

    /// Whoever the credentials in the headers belong to.
    pub(crate) fn authenticate(&self, headers: &HeaderMap, warnings: &Warnings) -> Result<Arc<User>, Status> {
        let header = headers.get(AUTHORIZATION).map_or(&b""[..], |value| value.as_bytes().trim_ascii());
        let mut parts = header.splitn(3, |byte| *byte == b' ');
        let scheme = parts.next().unwrap_or_default();
        let (Some(sent), rest) = (parts.next(), parts.next()) else { return Ok(self.anonymous.clone()) };
        if !scheme.eq_ignore_ascii_case(b"bearer") {
            return Ok(self.anonymous.clone());
        }
        if sent.is_empty() {
            if rest.is_some() {
                warnings.add(EXTRA_SPACE);
            }
            return Ok(self.anonymous.clone());
        }
        match &self.token {
            Some(token) if same(token.as_bytes(), sent) => Ok(self.admin.clone()),
            _ => Err(Status::unauthorized()),
        }
    }
}

impl User {
    /// Whether the user may do what the request asks.
    pub(crate) fn authorize(&self, request: &RequestInfo) -> Result<(), Status> {
        if self.groups.iter().any(|group| group == MASTERS) {
            return Ok(());
        }
        if request.resource.is_none() && request.verb == "get" && PUBLIC.contains(&request.path.as_str()) {
            return Ok(());
        }
        Err(self.forbidden(request))
    }

    fn forbidden(&self, request: &RequestInfo) -> Status {
        let (user, verb) = (&self.name, &request.verb);
        let Some(resource) = &request.resource else {
            let message = format!("forbidden: User {user:?} cannot {verb} path {:?}", request.path);
            return Status::failure(403, reason::FORBIDDEN, message).with_details(StatusDetails::default());
        };
        let what = match resource.subresource.as_str() {
            "" => resource.resource.clone(),
            subresource => format!("{}/{subresource}", resource.resource),
        };
        let whereabouts = match &resource.namespace {
            Some(namespace) => format!("in the namespace {namespace:?}"),
            None => "at the cluster scope".to_owned(),
        };
        let why =
            format!("User {user:?} cannot {verb} resource {what:?} in API group {:?} {whereabouts}", resource.group);
        let group_resource = GroupResource::new(resource.group.clone(), resource.resource.clone());
        Status::forbidden(&group_resource, &resource.name, why)
    }
}

/// Compares without telling by its duration where the first difference is.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (x, y)| difference | (x ^ y)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(header: &str) -> (Result<String, u16>, usize) {
        let warnings = Warnings::default();
        let mut headers = HeaderMap::new();
        if !header.is_empty() {
            headers.insert(AUTHORIZATION, header.parse().unwrap());
        }
        let user = Authenticator::new(Some("TOKEN".into())).authenticate(&headers, &warnings);
        (user.map(|user| user.name.clone()).map_err(|status| status.code), warnings.headers().len())
    }

    #[test]
    fn the_token_is_admin_a_wrong_one_is_refused_and_none_is_anonymous() {
        let admin = (Ok("admin".to_owned()), 0);
        let anonymous = (Ok("system:anonymous".to_owned()), 0);
        assert_eq!(ask("Bearer TOKEN"), admin);
        assert_eq!(ask("bearer TOKEN x"), admin);
        assert_eq!(ask("Bearer WRONG"), (Err(401), 0));
        assert_eq!(ask(""), anonymous);
        assert_eq!(ask("Bearer"), anonymous);
        assert_eq!(ask("Basic abc"), anonymous);
        assert_eq!(ask("Bearer  TOKEN"), (Ok("system:anonymous".to_owned()), 1));
    }

    #[test]
    fn a_server_without_a_token_knows_no_right_one() {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, "Bearer x".parse().unwrap());
        let refused = Authenticator::new(None).authenticate(&headers, &Warnings::default()).unwrap_err();
        assert_eq!(refused.code, 401);
    }
}
