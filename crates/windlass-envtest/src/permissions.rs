//! Checks a program's requests against its roles.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use http::StatusCode;
use serde_json::Value;
use tower::util::BoxCloneSyncService;
use windlass_api::k8s_openapi::api::rbac::v1::PolicyRule;
use windlass_client::{Client, Verb, read_manifests};

use crate::{
    definitions::read,
    environment::Environment,
    error::{Error, MissingPermissions},
    recorder::{Recorded, Recorder},
    requests::RequestMatcher,
    wire::{Interceptors, Wire},
};

/// A client for a program, whose requests are recorded and checked against the program's roles.
///
/// ```
/// use windlass_api::{ObjectBuilder, k8s_openapi::api::core::v1::ConfigMap};
/// use windlass_envtest::Environment;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?.block_on(async {
/// let role = "kind: ClusterRole
/// apiVersion: rbac.authorization.k8s.io/v1
/// metadata: {name: colors}
/// rules: [{apiGroups: [''], resources: [configmaps], verbs: [create, delete]}]";
/// let env = Environment::start().await;
/// let permissions = env.permissions(role)?;
/// permissions.client().create(&ConfigMap::named("red").in_namespace("default")).await?;
/// assert_eq!(permissions.check()?, ["delete configmaps of the core group"]);
///
/// permissions.client().list::<ConfigMap>().await?;
/// let told = permissions.check().unwrap_err().to_string();
/// assert!(told.contains("list configmaps of the core group (GET /api/v1/configmaps)"));
/// assert!(told.ends_with(r#"#[rbac(groups = "", resources = "configmaps", verbs = "get,list,watch")]"#));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// No request is rejected, so one run reports all missing permissions. Permissions that every authenticated user has
/// are not required: discovery, and reviews of one's own access.
#[must_use = "requests are recorded until this is dropped"]
pub struct Permissions {
    client: Client,
    recorder: Recorder,
    grants: Vec<Grant>,
    /// The file or folder of the roles, if they were read from one.
    origin: Option<PathBuf>,
}

/// A rule of a role.
struct Grant {
    /// The namespace of a Role; `None` for a ClusterRole.
    namespace: Option<String>,
    rule: PolicyRule,
}

/// A permission that a request requires.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Need {
    verb: &'static str,
    group: String,
    /// The resource with its subresource, or the path of a non-resource URL.
    resource: String,
    namespace: Option<String>,
    name: Option<String>,
    is_url: bool,
}

// === impl Environment ===

impl Environment {
    /// Returns a client whose requests are checked against the Roles and ClusterRoles in a YAML text. Objects of other
    /// kinds are skipped.
    pub fn permissions(&self, roles: &str) -> Result<Permissions, Error> {
        self.permissions_of(grants(roles).map_err(|source| Error::Manifest { origin: None, source })?, None)
    }

    /// Like [`Self::permissions`], with a file or all files of a folder.
    pub fn permissions_from(&self, path: impl AsRef<Path>) -> Result<Permissions, Error> {
        let mut all = Vec::new();
        for (file, text) in read(path.as_ref())? {
            all.extend(grants(&text).map_err(|source| Error::Manifest { origin: Some(file), source })?);
        }
        self.permissions_of(all, Some(path.as_ref().to_owned()))
    }

    fn permissions_of(&self, grants: Vec<Grant>, origin: Option<PathBuf>) -> Result<Permissions, Error> {
        if grants.is_empty() {
            return Err(Error::Unsupported("was given no role with rules"));
        }
        // Wraps the shared wire, so that only this client's requests are recorded here.
        let (interceptors, shared) = (Arc::<Interceptors>::default(), self.wire());
        let client = Self::client_of(Wire::new(BoxCloneSyncService::new(shared), interceptors.clone()));
        Ok(Permissions {
            client,
            recorder: Recorder::new(interceptors.logs.clone(), RequestMatcher::any()),
            grants,
            origin,
        })
    }
}

// === impl Permissions ===

impl Permissions {
    /// Returns the client for the program. For a manager, pass it to [`Environment::manager_of`].
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns the permissions that the roles grant and that no request has used so far. They may be unnecessary.
    ///
    /// # Errors
    /// Returns an error with all missing permissions if a request is not allowed by the roles.
    pub fn check(&self) -> Result<Vec<String>, Error> {
        let requests = self.recorder.requests();
        let called = requests.iter().map(|recorded| (recorded, needs(recorded))).collect::<Vec<_>>();
        let (mut missing, mut paste) = (BTreeMap::new(), Rules::default());
        for (recorded, needs) in &called {
            for need in needs.iter().filter(|need| !self.grants.iter().any(|grant| grant.allows(need))) {
                let path = format!("{} {}", recorded.sent.method, recorded.sent.uri.path());
                missing.entry(need.to_string()).or_insert(path);
                paste.add(need);
            }
        }
        if !missing.is_empty() {
            let missing = missing.into_iter().map(|(need, path)| format!("{need} ({path})")).collect();
            let origin = self.origin.as_ref().map(|path| path.display().to_string());
            return Err(Error::MissingPermissions(MissingPermissions {
                missing,
                origin,
                role: paste.role(),
                attributes: paste.attributes(),
            }));
        }
        let needs = called.into_iter().flat_map(|(_, needs)| needs).collect::<Vec<_>>();
        Ok(self.grants.iter().flat_map(|grant| grant.unused(&needs)).collect::<BTreeSet<_>>().into_iter().collect())
    }
}

impl fmt::Debug for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permissions").field("called", &self.recorder).finish_non_exhaustive()
    }
}

/// Verbs by group and resource, as in a role.
#[derive(Default)]
struct Rules {
    resources: BTreeMap<(String, String), BTreeSet<&'static str>>,
    urls: BTreeMap<String, BTreeSet<&'static str>>,
}

/// The verbs of an informer: it may list or stream the existing objects, and roles usually grant `get` as well.
const INFORMER: [&str; 3] = ["get", "list", "watch"];

impl Rules {
    fn add(&mut self, need: &Need) {
        let verbs = if need.is_url {
            self.urls.entry(need.resource.clone()).or_default()
        } else {
            self.resources.entry((need.group.clone(), need.resource.clone())).or_default()
        };
        verbs.insert(need.verb);
        if need.verb == "watch" || need.verb == "list" {
            verbs.extend(INFORMER);
        }
    }

    /// Returns entries for the `rules` of a role.
    fn role(&self) -> Vec<String> {
        let words = |verbs: &BTreeSet<&str>| verbs.iter().copied().collect::<Vec<_>>().join(", ");
        let resources = self.resources.iter().map(|((group, resource), verbs)| {
            format!("- {{apiGroups: ['{group}'], resources: [{resource}], verbs: [{}]}}", words(verbs))
        });
        let urls =
            self.urls.iter().map(|(url, verbs)| format!("- {{nonResourceURLs: ['{url}'], verbs: [{}]}}", words(verbs)));
        resources.chain(urls).collect()
    }

    /// Returns the same rules as `#[rbac]` attributes.
    fn attributes(&self) -> Vec<String> {
        let words = |verbs: &BTreeSet<&str>| verbs.iter().copied().collect::<Vec<_>>().join(",");
        let resources = self.resources.iter().map(|((group, resource), verbs)| {
            format!("#[rbac(groups = {group:?}, resources = {resource:?}, verbs = {:?})]", words(verbs))
        });
        let urls = self.urls.iter().map(|(url, verbs)| format!("#[rbac(urls = {url:?}, verbs = {:?})]", words(verbs)));
        resources.chain(urls).collect()
    }
}

// === rules ===

impl Grant {
    fn allows(&self, need: &Need) -> bool {
        let Self { namespace, rule } = self;
        let is_here = namespace.is_none() || *namespace == need.namespace;
        if need.is_url {
            return namespace.is_none()
                && has(&rule.verbs, need.verb)
                && urls(rule).any(|url| covers(url, &need.resource));
        }
        let names = rule.resource_names.as_deref().unwrap_or_default();
        is_here
            && has(&rule.verbs, need.verb)
            && has(rule.api_groups.as_deref().unwrap_or_default(), &need.group)
            && rule.resources.iter().flatten().any(|resource| is_of(resource, &need.resource))
            && (names.is_empty() || need.name.as_ref().is_some_and(|name| names.contains(name)))
    }

    /// Returns the permissions of the rule that no request used, one by one.
    fn unused(&self, needs: &[Need]) -> Vec<String> {
        let Self { namespace, rule } = self;
        let with = |verb: &String, group: &[String], resource: &[String], url: &[String]| {
            let list = |words: &[String]| (!words.is_empty()).then(|| words.to_vec());
            let rule = PolicyRule {
                api_groups: list(group),
                resources: list(resource),
                non_resource_urls: list(url),
                verbs: vec![verb.clone()],
                resource_names: rule.resource_names.clone(),
            };
            Self { namespace: namespace.clone(), rule }
        };
        let mut each = Vec::new();
        for verb in &rule.verbs {
            for group in rule.api_groups.iter().flatten() {
                for resource in rule.resources.iter().flatten() {
                    each.push(with(verb, std::slice::from_ref(group), std::slice::from_ref(resource), &[]));
                }
            }
            each.extend(
                rule.non_resource_urls.iter().flatten().map(|url| with(verb, &[], &[], std::slice::from_ref(url))),
            );
        }
        let unused = each.into_iter().filter(|grant| !needs.iter().any(|need| grant.allows(need)));
        unused.map(|grant| grant.to_string()).collect()
    }
}

impl fmt::Display for Grant {
    /// Formats a rule that allows a single permission.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = |words: &Option<Vec<String>>| words.iter().flatten().next().cloned();
        let need = Need {
            verb: "",
            group: first(&self.rule.api_groups).unwrap_or_default(),
            resource: first(&self.rule.resources).or_else(|| first(&self.rule.non_resource_urls)).unwrap_or_default(),
            namespace: None,
            name: None,
            is_url: self.rule.resources.is_none(),
        };
        write!(f, "{}{need}", self.rule.verbs.join(","))
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, group, resource, is_url, .. } = self;
        match group.as_str() {
            _ if *is_url => write!(f, "{verb} {resource}"),
            "" => write!(f, "{verb} {resource} of the core group"),
            group => write!(f, "{verb} {resource} of {group}"),
        }
    }
}

/// Parses the rules of all roles in a text.
fn grants(text: &str) -> Result<Vec<Grant>, windlass_api::BoxError> {
    let mut grants = Vec::new();
    for object in read_manifests(text)? {
        let role = serde_json::to_value(&object)?;
        let namespace = match role["kind"].as_str() {
            Some("ClusterRole") => None,
            Some("Role") => Some(role["metadata"]["namespace"].as_str().unwrap_or_default().to_owned()),
            _ => continue,
        };
        // An aggregated role has no rules of its own.
        let rules =
            Some(role["rules"].clone()).filter(|rules| *rules != Value::Null).unwrap_or_else(|| Value::Array(vec![]));
        let rules: Vec<PolicyRule> = serde_json::from_value(rules)?;
        grants.extend(rules.into_iter().map(|rule| Grant { namespace: namespace.clone(), rule }));
    }
    Ok(grants)
}

/// Returns the permissions that a request requires. An apply that creates its object also requires `create`.
fn needs(recorded: &Recorded) -> Vec<Need> {
    let sent = &recorded.sent;
    let method = sent.method.as_str().to_ascii_lowercase();
    let verbs: &[&'static str] = match sent.verb {
        Verb::Get => &["get"],
        Verb::List => &["list"],
        Verb::Watch => &["watch"],
        Verb::Create => &["create"],
        Verb::Update => &["update"],
        Verb::Apply if recorded.status == Some(StatusCode::CREATED) => &["patch", "create"],
        Verb::Patch | Verb::Apply => &["patch"],
        Verb::Delete => &["delete"],
        Verb::DeleteCollection => &["deletecollection"],
        _ if sent.resource.is_empty() => match method.as_str() {
            "get" => &["get"],
            "head" => &["head"],
            "put" => &["put"],
            "patch" => &["patch"],
            "delete" => &["delete"],
            _ => &["post"],
        },
        _ => &[],
    };
    let (path, is_url) = (sent.uri.path(), sent.resource.is_empty());
    // Default roles grant these to every user.
    let is_discovery = ["/api", "/apis", "/openapi", "/version", "/healthz", "/livez", "/readyz"]
        .iter()
        .any(|open| path.strip_prefix(open).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
    let is_about_oneself = sent.group == "authorization.k8s.io" && sent.resource.starts_with("selfsubject");
    if (is_url && is_discovery) || is_about_oneself {
        return Vec::new();
    }
    let resource = match &sent.subresource {
        _ if is_url => path.to_owned(),
        Some(part) => format!("{}/{part}", sent.resource),
        None => sent.resource.clone(),
    };
    let of = |verb| Need {
        verb,
        group: sent.group.clone(),
        resource: resource.clone(),
        namespace: sent.namespace.clone(),
        name: sent.name.clone(),
        is_url,
    };
    verbs.iter().copied().map(of).collect()
}

fn urls(rule: &PolicyRule) -> impl Iterator<Item = &str> {
    rule.non_resource_urls.iter().flatten().map(String::as_str)
}

fn has(words: &[String], word: &str) -> bool {
    words.iter().any(|there| there == word || there == "*")
}

/// Returns `true` if a rule's resource, such as `pods`, `pods/status`, `*/status` or `*`, matches.
fn is_of(rule: &str, resource: &str) -> bool {
    let part = |whole: &str| whole.split_once('/').map(|(_, part)| part.to_owned());
    rule == "*"
        || rule == resource
        || rule.strip_prefix("*/").is_some_and(|wanted| part(resource).as_deref() == Some(wanted))
}

/// Returns `true` if a rule's URL matches the path. A trailing `*` matches any rest.
fn covers(url: &str, path: &str) -> bool {
    url == path || url.strip_suffix('*').is_some_and(|beginning| path.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use windlass_api::{
        ObjectBuilder as _, ObjectExt as _, Patch,
        k8s_openapi::api::core::v1::{ConfigMap, Event, Secret},
    };
    use windlass_runtime::{
        Action, Context, Controller, Error,
        events::Note,
        finalizers::{Finalized, Finalizers},
    };

    use super::*;

    const ROLES: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: all}
rules:
- {apiGroups: [''], resources: [configmaps, '*/status'], verbs: [get, list]}
- {apiGroups: [''], resources: [configmaps], resourceNames: [red], verbs: [delete]}
- {nonResourceURLs: ['/metrics/*'], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: here, namespace: kube-system}
rules:
- {apiGroups: ['*'], resources: [secrets], verbs: ['*']}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: somebody}
";

    fn need(verb: &'static str, group: &str, resource: &str, namespace: &str, name: &str) -> Need {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let is_url = resource.starts_with('/');
        let (group, resource) = (group.to_owned(), resource.to_owned());
        Need { verb, group, resource, namespace: some(namespace), name: some(name), is_url }
    }

    #[test]
    fn rule_allows_only_its_requests() {
        let grants = grants(ROLES).unwrap();
        let is_allowed = |need: Need| grants.iter().any(|grant| grant.allows(&need));
        for allowed in [
            need("get", "", "configmaps", "default", "blue"),
            need("list", "", "configmaps", "", ""),
            need("get", "", "pods/status", "default", "blue"),
            need("delete", "", "configmaps", "default", "red"),
            need("create", "any.example.com", "secrets", "kube-system", ""),
            need("get", "", "/metrics/cadvisor", "", ""),
        ] {
            assert!(is_allowed(allowed.clone()), "{allowed:?}");
        }
        for refused in [
            need("update", "", "configmaps", "default", "blue"),
            need("get", "", "pods", "default", "blue"),
            need("get", "apps", "configmaps", "default", "blue"),
            need("delete", "", "configmaps", "default", "blue"),
            need("delete", "", "configmaps", "default", ""),
            need("create", "", "secrets", "default", ""),
            need("create", "", "secrets", "", ""),
            need("get", "apps", "secrets/status", "kube-system", "a"),
            need("get", "", "/logs", "", ""),
            need("put", "", "/metrics/cadvisor", "", ""),
        ] {
            assert!(!is_allowed(refused.clone()), "{refused:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn missing_permissions_fail_and_unused_are_reported() {
        let env = Environment::start().await;
        let permissions = env.permissions(ROLES).unwrap();
        let client = permissions.client();
        // Requests of other clients are not checked.
        env.client().create(&ConfigMap::named("red").in_namespace("default")).await.unwrap();
        client.list::<ConfigMap>().await.unwrap();
        client.apply(&Secret::named("key").in_namespace("kube-system")).await.unwrap();
        let unused = permissions.check().unwrap();
        let expected = [
            "delete configmaps of the core group",
            "get */status of the core group",
            "get /metrics/*",
            "get configmaps of the core group",
            "list */status of the core group",
        ];
        assert_eq!(unused, expected);

        let red = client.get::<ConfigMap>("red").within("default").await.unwrap();
        client.patch(red.object_ref(), Patch::Merge(serde_json::json!({"data": {"a": "b"}}))).await.unwrap();
        client.apply(&Secret::named("key").in_namespace("default")).await.unwrap();
        let error = permissions.check().unwrap_err();
        let told = error.to_string();
        assert!(format!("{error:?}").contains(told.split_once('\n').unwrap().1), "unwrap prints the same: {error:?}");
        let lines = told.lines().map(str::trim).collect::<Vec<_>>();
        let expected = [
            "requests that no role allows:",
            "create secrets of the core group (PATCH /api/v1/namespaces/default/secrets/key)",
            "patch configmaps of the core group (PATCH /api/v1/namespaces/default/configmaps/red)",
            "patch secrets of the core group (PATCH /api/v1/namespaces/default/secrets/key)",
            "add to the rules of a role:",
            "- {apiGroups: [''], resources: [configmaps], verbs: [patch]}",
            "- {apiGroups: [''], resources: [secrets], verbs: [create, patch]}",
            "or, if `windlass generate rbac` writes the role, to the reconciler:",
            "#[rbac(groups = \"\", resources = \"configmaps\", verbs = \"patch\")]",
            "#[rbac(groups = \"\", resources = \"secrets\", verbs = \"create,patch\")]",
        ];
        assert_eq!(lines, expected);
        assert!(env.permissions("kind: ServiceAccount\napiVersion: v1\nmetadata: {name: a}\n").is_err());
        env.stop().await.unwrap();
    }
    /// The rules of a generated controller.
    const CONTROLLER: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: controller}
rules:
- {apiGroups: [''], resources: [configmaps], verbs: [list, watch, patch]}
- {apiGroups: ['', events.k8s.io], resources: [events], verbs: [create, patch]}
";

    async fn reconcile(config: Arc<ConfigMap>, cx: Context) -> windlass_runtime::Result<Action> {
        let finalizers =
            Finalizers::new().then("example.com/tidy", async |_: Arc<ConfigMap>, _: Context| Ok::<_, Error>(()));
        if let Finalized::Live(config) = finalizers.finalize(config, &cx).await? {
            cx.recorder().record(&*config, Note::normal("Met", "it is there"));
        }
        Ok(Action::await_change())
    }

    #[tokio::test(start_paused = true)]
    async fn manager_is_checked_against_the_controllers_roles() {
        let env = Environment::start().await;
        let permissions = env.permissions(CONTROLLER).unwrap();
        let mut manager = env.manager_of(permissions.client());
        manager.add(Controller::<ConfigMap>::new().reconcile(reconcile));
        env.run(manager);
        env.client().create(&ConfigMap::named("red").in_namespace("default")).await.unwrap();
        env.eventually_all::<Event>(|events| events.iter().any(|event| event.reason.as_deref() == Some("Met"))).await;
        env.client().delete::<ConfigMap>("red").within("default").await.unwrap();
        env.eventually_gone::<ConfigMap>("red").await;
        let unused = permissions.check().unwrap();
        // An informer lists if a server cannot stream the existing objects; events have two groups.
        let expected =
            ["create events of events.k8s.io", "list configmaps of the core group", "patch events of events.k8s.io"];
        assert_eq!(unused, expected);
        env.stop().await.unwrap();
    }
}
