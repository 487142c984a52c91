//! The operation of a call, as errors, warnings and metrics name it.

use std::fmt;

/// The verb and target of a call, displayed as `update pods/status "ns/name"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The verb.
    pub verb: Verb,
    /// The resource with its group, such as `deployments.apps`, or a path.
    pub resource: String,
    /// The subresource, such as `status`.
    pub subresource: Option<String>,
    /// The namespace, if any.
    pub namespace: Option<String>,
    /// The object's name, if the call is about one object.
    pub name: Option<String>,
}

/// The verb of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Apply,
    Delete,
    DeleteCollection,
    /// Connecting to an object's logs, containers, ports or proxies.
    Connect,
    /// A raw request that the caller built.
    Request,
}

impl Operation {
    pub(crate) fn request(path: &str) -> Self {
        Self { verb: Verb::Request, resource: path.to_owned(), subresource: None, namespace: None, name: None }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if let Some(subresource) = &self.subresource {
            write!(f, "/{subresource}")?;
        }
        match (&self.namespace, &self.name) {
            (Some(namespace), Some(name)) => write!(f, " \"{namespace}/{name}\""),
            (None, Some(name)) => write!(f, " {name:?}"),
            (Some(namespace), None) => write!(f, " in {namespace:?}"),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Apply => "apply",
            Self::Delete => "delete",
            Self::DeleteCollection => "delete all",
            Self::Connect => "connect to",
            Self::Request => "request",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(name: Option<&str>, namespace: Option<&str>) -> Operation {
        Operation {
            verb: Verb::Create,
            resource: "pods".to_owned(),
            subresource: None,
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
        }
    }

    #[test]
    fn operation_is_displayed_as_a_phrase() {
        assert_eq!(operation(Some("b"), Some("a")).to_string(), r#"create pods "a/b""#);
        assert_eq!(operation(None, Some("a")).to_string(), r#"create pods in "a""#);
        let status = Operation { subresource: Some("status".to_owned()), ..operation(Some("b"), None) };
        assert_eq!(status.to_string(), r#"create pods/status "b""#);
    }
}
