//! The targets of requests.

/// A request target: the resource, and the parameters that matter here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// The resource with its group, such as `deployments.apps`.
    pub(super) resource: String,
    /// Empty for all namespaces.
    pub(super) namespace: String,
    /// `true` if the target is an object, not a collection.
    pub(super) is_object: bool,
    pub(super) is_watch: bool,
    /// `true` if the API server may answer from a cache: `resourceVersion=0`.
    pub(super) may_be_stale: bool,
}

/// Parses a path with its query. Returns `None` for paths that do not name a resource, such as `/version`.
pub(super) fn parse(target: &str) -> Option<Target> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let group = match parts.next()? {
        "api" => "",
        "apis" => parts.next()?,
        _ => return None,
    };
    let _version = parts.next()?;
    let rest: Vec<_> = parts.collect();
    let (namespace, rest) = match rest[..] {
        // The subresources of a namespace have no resource name of their own.
        ["namespaces", _, "status" | "finalize"] => ("", &rest[..2]),
        ["namespaces", namespace, _, ..] => (namespace, &rest[2..]),
        _ => ("", &rest[..]),
    };
    let plural = rest.first()?;
    let resource = if group.is_empty() { (*plural).to_owned() } else { format!("{plural}.{group}") };
    let has = |parameter: &str| query.split('&').any(|part| part == parameter);
    Some(Target {
        resource,
        namespace: namespace.to_owned(),
        is_object: rest.len() > 1,
        is_watch: has("watch=true") || has("watch=1"),
        may_be_stale: has("resourceVersion=0"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_parsed() {
        let text = |target: &str| {
            let Target { resource, namespace, is_object, is_watch, may_be_stale } = parse(target).unwrap();
            format!("{resource} {namespace} {is_object} {is_watch} {may_be_stale}")
        };
        let pods = "/api/v1/namespaces/default/pods";
        assert_eq!(text(pods), "pods default false false false");
        assert_eq!(text(&format!("{pods}?watch=true&resourceVersion=0")), "pods default false true true");
        assert_eq!(text(&format!("{pods}/web/status")), "pods default true false false");
        assert_eq!(text("/api/v1/pods?limit=5&resourceVersion=01&watch=1"), "pods  false true false");
        assert_eq!(text("/apis/apps/v1/deployments?resourceVersion=0"), "deployments.apps  false false true");
        assert_eq!(text("/api/v1/namespaces"), "namespaces  false false false");
        assert_eq!(text("/api/v1/namespaces/a/finalize"), "namespaces  true false false");
        assert_eq!(parse("/version"), None);
        assert_eq!(parse("/apis/apps/v1"), None);
    }
}
