//! The target of a request: verb, resource, object and query.

use http::{Method, Uri};
use percent_encoding::percent_decode_str;
use windlass_client::Verb;

use crate::record::ObjectName;

/// A request for a resource.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) verb: Verb,
    /// The path of the API version, such as `/apis/apps/v1`.
    pub(crate) version: String,
    /// The group; empty for the core group.
    pub(crate) group: String,
    /// The resource without its group, such as `deployments`.
    pub(crate) plural: String,
    /// Empty for resources without a namespace, and for all namespaces.
    pub(crate) namespace: String,
    /// Empty for collections.
    pub(crate) name: String,
    /// Empty for the object itself.
    pub(crate) subresource: String,
    pub(crate) query: Query,
}

/// The parameters of a query, encoded, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Call {
    /// Parses the target of a request. Returns `None` for paths that are not those of resources, such as discovery.
    pub(crate) fn parse(method: &Method, uri: &Uri) -> Option<Self> {
        let query = Query::parse(uri.query().unwrap_or_default());
        let segments: Vec<_> = uri.path().split('/').skip(1).map(decoded).collect();
        let segments: Vec<_> = segments.iter().map(String::as_str).collect();
        let (group, version, rest) = match &segments[..] {
            ["api", version, rest @ ..] => ("", format!("/api/{version}"), rest),
            ["apis", group, version, rest @ ..] => (*group, format!("/apis/{group}/{version}"), rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            // The subresources of namespaces.
            ["namespaces", _, "status" | "finalize"] => ("", rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            _ => ("", rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (plural, "", ""),
            [plural, name] => (plural, *name, ""),
            [plural, name, subresource] => (plural, *name, *subresource),
            _ => return None,
        };
        let is_collection = name.is_empty();
        let verb = match *method {
            Method::GET if matches!(query.get("watch").as_deref(), Some("true" | "1")) => Verb::Watch,
            Method::GET if is_collection => Verb::List,
            Method::GET => Verb::Get,
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::DELETE if is_collection => Verb::DeleteCollection,
            Method::DELETE => Verb::Delete,
            _ => return None,
        };
        Some(Self {
            verb,
            version,
            group: group.to_owned(),
            plural: (*plural).to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
            query,
        })
    }

    /// Returns the resource with its group, such as `deployments.apps`.
    pub(crate) fn resource(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// Returns the name of the object.
    pub(crate) fn object(&self) -> ObjectName {
        ObjectName { resource: self.resource(), namespace: self.namespace.clone(), name: self.name.clone() }
    }

    /// Reports whether the request is a write.
    pub(crate) const fn is_write(&self) -> bool {
        !matches!(self.verb, Verb::Get | Verb::List | Verb::Watch)
    }

    /// Reports whether the request can continue its connection with another protocol.
    pub(crate) fn is_connection(&self) -> bool {
        self.resource() == "pods" && matches!(self.subresource.as_str(), "exec" | "attach" | "portforward")
    }

    /// Reports whether the request is a dry run.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.query.get("dryRun").is_some()
    }

    /// Returns the path of the collection, without a query.
    pub(crate) fn collection(&self) -> String {
        let Self { version, plural, namespace, .. } = self;
        if namespace.is_empty() {
            format!("{version}/{plural}")
        } else {
            format!("{version}/namespaces/{namespace}/{plural}")
        }
    }

    /// Returns the path of the object without its subresource.
    pub(crate) fn path(&self) -> String {
        format!(
            "{}/{}",
            self.collection(),
            percent_encoding::utf8_percent_encode(&self.name, percent_encoding::NON_ALPHANUMERIC)
        )
    }
}

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
        )
    }

    /// Returns the value of a parameter.
    pub(crate) fn get(&self, key: &str) -> Option<String> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| decoded(value))
    }

    /// Returns the query without some parameters.
    #[must_use]
    pub(crate) fn without(&self, keys: &[&str]) -> Self {
        Self(self.0.iter().filter(|(name, _)| !keys.contains(&name.as_str())).cloned().collect())
    }

    /// Returns the query with another parameter. The value must not need an encoding.
    #[must_use]
    pub(crate) fn with(mut self, key: &str, value: impl Into<String>) -> Self {
        self.0.push((key.to_owned(), value.into()));
        self
    }

    /// Returns a target with this query.
    pub(crate) fn on(&self, path: &str) -> String {
        let pairs: Vec<_> = self.0.iter().map(|(key, value)| format!("{key}={value}")).collect();
        if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
    }
}

fn decoded(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: &Method, target: &str) -> Call {
        Call::parse(method, &target.parse().unwrap()).unwrap()
    }

    #[test]
    fn targets_of_resources_are_parsed() {
        let get = call(&Method::GET, "/apis/apps/v1/namespaces/shop/deployments/web/scale");
        assert_eq!((get.verb, get.object().to_string().as_str()), (Verb::Get, "deployments.apps/shop/web"));
        assert_eq!(
            (get.subresource.as_str(), get.path().as_str()),
            ("scale", "/apis/apps/v1/namespaces/shop/deployments/web")
        );
        let watch = call(&Method::GET, "/api/v1/pods?watch=1&resourceVersion=7");
        assert_eq!((watch.verb, watch.query.get("resourceVersion").as_deref()), (Verb::Watch, Some("7")));
        let finalize = call(&Method::PUT, "/api/v1/namespaces/shop/finalize");
        assert_eq!(finalize.object().to_string(), "namespaces/shop");
        let namespace = call(&Method::DELETE, "/api/v1/namespaces/shop");
        assert_eq!((namespace.verb, namespace.object().to_string().as_str()), (Verb::Delete, "namespaces/shop"));
        let all = call(&Method::DELETE, "/api/v1/namespaces/shop/pods?labelSelector=a%3Db");
        assert_eq!((all.verb, all.query.get("labelSelector").as_deref()), (Verb::DeleteCollection, Some("a=b")));
        assert!(Call::parse(&Method::GET, &"/apis/apps/v1".parse().unwrap()).is_none());
    }
}
