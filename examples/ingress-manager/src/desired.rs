//! The desired rules of an Ingress, computed from the Service alone.

use thiserror::Error;
use windlass::{
    ObjectExt as _,
    api::validation::{dns_subdomain, wildcard_subdomain},
    k8s::{
        core::v1::Service,
        networking::v1::{
            HTTPIngressPath, HTTPIngressRuleValue, IngressBackend, IngressRule, IngressServiceBackend,
            ServiceBackendPort,
        },
    },
};

/// The annotation that requests an Ingress. Its value is the host. An empty value, or `true`, stands for all hosts.
pub const ANNOTATION: &str = "ingress/http";

/// The reason why a Service cannot have an Ingress.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The Service has no port.
    #[error("the Service has no port")]
    NoPort,
    /// The annotation's value is not a valid host.
    #[error("{host:?} is not a valid host: {why}")]
    NoHost {
        /// The value of the annotation.
        host: String,
        /// The validation error.
        why: String,
    },
}

/// Returns the rules of the Ingress that a Service requests, or `None` if it requests none.
///
/// The backend is the port named `http`, or the first port.
///
/// # Errors
/// Returns an error if the Service cannot have an Ingress. A retry without a change of the Service does not help.
pub fn desired_rules(service: &Service) -> Result<Option<Vec<IngressRule>>, Refusal> {
    let Some(host) = service.annotations().get(ANNOTATION) else { return Ok(None) };
    let host = match host.trim() {
        "" | "true" => None,
        host => Some(checked(host)?),
    };
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    let named = ports.iter().find(|port| port.name.as_deref() == Some("http"));
    let port = named.or(ports.first()).ok_or(Refusal::NoPort)?;

    let backend = IngressServiceBackend {
        name: service.name().to_owned(),
        port: Some(ServiceBackendPort { number: Some(port.port), name: None }),
    };
    let path = HTTPIngressPath {
        path: Some("/".to_owned()),
        path_type: "Prefix".to_owned(),
        backend: IngressBackend { service: Some(backend), resource: None },
    };
    Ok(Some(vec![IngressRule { host, http: Some(HTTPIngressRuleValue { paths: vec![path] }) }]))
}

fn checked(host: &str) -> Result<String, Refusal> {
    let wrong = if host.starts_with('*') { wildcard_subdomain(host) } else { dns_subdomain(host) };
    match wrong.into_iter().next() {
        None => Ok(host.to_owned()),
        Some(why) => Err(Refusal::NoHost { host: host.to_owned(), why }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json, to_value};

    use super::*;

    fn service(annotations: serde_json::Value, ports: serde_json::Value) -> Service {
        let metadata = json!({"name": "web", "annotations": annotations});
        from_value(json!({"metadata": metadata, "spec": {"ports": ports}})).unwrap()
    }

    fn asked(host: &str) -> Result<Option<Vec<IngressRule>>, Refusal> {
        desired_rules(&service(
            json!({ANNOTATION: host}),
            json!([{"name": "admin", "port": 9000}, {"name": "http", "port": 80}]),
        ))
    }

    #[test]
    fn the_annotation_is_the_host_and_the_port_is_that_of_http() {
        let rules = to_value(asked("shop.example.com").unwrap()).unwrap();
        let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
        let paths = json!([{"path": "/", "pathType": "Prefix", "backend": backend}]);
        assert_eq!(rules, json!([{"host": "shop.example.com", "http": {"paths": paths}}]));
        for every in ["", "true"] {
            assert_eq!(asked(every).unwrap().unwrap()[0].host, None);
        }
    }

    #[test]
    fn the_first_port_serves_where_none_is_named_http() {
        let rules =
            desired_rules(&service(json!({ANNOTATION: ""}), json!([{"port": 8080}, {"port": 80}]))).unwrap().unwrap();
        let backend = rules[0].http.as_ref().unwrap().paths[0].backend.service.as_ref().unwrap();
        assert_eq!(backend.port.as_ref().unwrap().number, Some(8080));
    }

    #[test]
    fn missing_annotation_is_ignored_and_invalid_one_rejected() {
        assert_eq!(desired_rules(&service(json!({"other": "x"}), json!([{"port": 80}]))), Ok(None));
        assert_eq!(desired_rules(&service(json!({ANNOTATION: ""}), json!([]))), Err(Refusal::NoPort));
        let refusal = asked("not a host").unwrap_err();
        assert!(refusal.to_string().starts_with("\"not a host\" is not a valid host: "), "{refusal}");
        assert!(asked("*.example.com").is_ok() && asked("*.*.com").is_err());
    }
}
