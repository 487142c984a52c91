//! The path of a request, in parts.

use std::fmt;

use http::Method;
use percent_encoding::{AsciiSet, utf8_percent_encode};
use windlass_api::GroupVersion;

use crate::request::{RequestError, SEGMENT, check_segment};

/// The characters that are not escaped in a path of several segments.
const SEGMENTS: &AsciiSet = &SEGMENT.remove(b'/');

/// A path of the form `PREFIX[/namespaces/NAMESPACE][/RESOURCE][/NAME][/SUBRESOURCE][/SUFFIX]`. Each part is set once,
/// unencoded; the path is encoded when it is written.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// Starts with a slash. Ends with one only if the caller's path did.
    prefix: String,
    /// Empty if the caller set the empty namespace.
    namespace: Option<String>,
    resource: Option<String>,
    name: Option<String>,
    subresource: Option<String>,
    /// Empty, or without leading and trailing slashes.
    suffix: String,
}

type Result = std::result::Result<(), RequestError>;

impl Path {
    pub(super) fn of(group_version: &GroupVersion) -> Self {
        let root = if group_version.group.is_empty() { "/api" } else { "/apis" };
        Self {
            prefix: format!("{root}/{group_version}"),
            namespace: None,
            resource: None,
            name: None,
            subresource: None,
            suffix: String::new(),
        }
    }

    pub(super) fn resource(&self) -> Option<&str> {
        self.resource.as_deref()
    }

    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref().filter(|namespace| !namespace.is_empty())
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(super) fn subresource(&self) -> Option<&str> {
        self.subresource.as_deref()
    }

    pub(super) fn set_namespace(&mut self, namespace: String) -> Result {
        if !namespace.is_empty() {
            check_segment("namespace", &namespace)?;
        }
        once("namespace", &mut self.namespace, namespace)
    }

    pub(super) fn set_resource(&mut self, resource: String) -> Result {
        check_segment("resource", &resource)?;
        once("resource", &mut self.resource, resource.to_ascii_lowercase())
    }

    pub(super) fn set_name(&mut self, name: String) -> Result {
        check_segment("name", &name)?;
        once("name", &mut self.name, name)
    }

    pub(super) fn set_subresource(&mut self, subresource: String) -> Result {
        subresource.split('/').try_for_each(|segment| check_segment("subresource", segment))?;
        once("subresource", &mut self.subresource, subresource)
    }

    pub(super) fn set_prefix(&mut self, path: &str) -> Result {
        let joined = joined("path", path)?;
        self.prefix = format!("/{joined}");
        if path.ends_with('/') && !joined.is_empty() {
            self.prefix.push('/');
        }
        Ok(())
    }

    pub(super) fn push_prefix(&mut self, segments: &str) -> Result {
        let joined = joined("prefix", segments)?;
        self.prefix = format!("{}/{joined}", self.prefix.trim_end_matches('/'));
        Ok(())
    }

    pub(super) fn push_suffix(&mut self, segments: &str) -> Result {
        let joined = joined("suffix", segments)?;
        if !self.suffix.is_empty() {
            self.suffix.push('/');
        }
        self.suffix.push_str(&joined);
        Ok(())
    }

    /// Checks that the parts are consistent: an object that is created, or that has a name, must not have an empty
    /// namespace.
    pub(super) fn checked_for(&self, method: &Method) -> Result {
        let empty = self.namespace.as_deref() == Some("");
        let needed = *method == Method::POST || (self.name.is_some() && *method != Method::PATCH);
        if empty && needed { Err(RequestError::Empty { part: "namespace" }) } else { Ok(()) }
    }
}

impl fmt::Display for Path {
    /// Writes the path encoded as in a URL.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespace = self.namespace().map(|namespace| ["namespaces", namespace]);
        let parts = [&self.resource, &self.name, &self.subresource].into_iter().flatten().map(String::as_str);
        let parts = namespace.into_iter().flatten().chain(parts).chain(Some(&*self.suffix));
        let mut parts = parts.filter(|part| !part.is_empty()).peekable();
        let prefix = if parts.peek().is_some() { self.prefix.trim_end_matches('/') } else { &self.prefix };
        write!(f, "{}", utf8_percent_encode(prefix, SEGMENTS))?;
        parts.try_for_each(|part| write!(f, "/{}", utf8_percent_encode(part, SEGMENTS)))
    }
}

fn once(part: &'static str, place: &mut Option<String>, value: String) -> Result {
    if let Some(first) = place {
        return Err(RequestError::Twice { part, first: first.clone(), second: value });
    }
    *place = Some(value);
    Ok(())
}

/// Joins segments with single slashes.
fn joined(part: &'static str, segments: &str) -> std::result::Result<String, RequestError> {
    let segments: Vec<_> = segments.split('/').filter(|segment| !segment.is_empty()).collect();
    match segments.iter().find(|segment| matches!(**segment, "." | "..")) {
        Some(dots) => Err(RequestError::Segment { part, value: (*dots).to_owned(), rule: "be that" }),
        None => Ok(segments.join("/")),
    }
}
