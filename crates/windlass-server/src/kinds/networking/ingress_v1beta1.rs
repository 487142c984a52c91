//! Ingresses in `networking.k8s.io/v1beta1`, a version that Kubernetes has removed: a backend names its service and port
//! in two fields, and the type of a path is optional.

use crate::kinds::{View, networking::ingress, prelude::*};

pub(super) const KIND: Kind = Kind {
    version: "v1beta1",
    view: Some(View { stored: ("networking.k8s.io", "v1"), from_stored: to_v1beta1, to_stored: to_v1 }),
    ..ingress::KIND
};

fn to_v1(mut ingress: Value) -> Value {
    rename(&mut ingress, "backend", "defaultBackend");
    change_each(&mut ingress, "spec.rules.*.http.paths.*", |path| {
        default_pointer(path, "pathType", "ImplementationSpecific");
    });
    each_backend(&mut ingress, "defaultBackend", |backend| {
        let name = backend.shift_remove("serviceName").filter(|name| *name != "");
        let port = backend.shift_remove("servicePort").filter(|port| *port != 0);
        if name.is_some() || port.is_some() {
            let mut service = json!({"name": name.unwrap_or_else(|| "".into())});
            if let Some(port) = port {
                let field = if port.is_string() { "name" } else { "number" };
                service["port"] = json!({field: port});
            }
            backend.shift_insert(0, "service".to_owned(), service);
        }
    });
    ingress
}

fn to_v1beta1(mut ingress: Value) -> Value {
    rename(&mut ingress, "defaultBackend", "backend");
    each_backend(&mut ingress, "backend", |backend| {
        // Go writes a port that is not set as 0.
        let mut port = Value::from(0);
        if let Some(mut service) = backend.shift_remove("service") {
            let found = ["name", "number"].iter().find_map(|field| service["port"].get(*field).cloned());
            port = found.unwrap_or(port);
            backend.shift_insert(0, "serviceName".to_owned(), service["name"].take());
        }
        let place = usize::from(backend.contains_key("serviceName"));
        backend.shift_insert(place, "servicePort".to_owned(), port);
    });
    ingress
}

/// Renames the field of the spec with the default backend, which keeps its place.
fn rename(ingress: &mut Value, from: &str, to: &str) {
    let Some(Value::Object(spec)) = ingress.get_mut("spec") else { return };
    let renamed = std::mem::take(spec).into_iter();
    *spec = renamed.map(|(name, value)| if name == from { (to.to_owned(), value) } else { (name, value) }).collect();
}

/// Changes the default backend and the backends of all paths.
fn each_backend(ingress: &mut Value, default: &str, mut change: impl FnMut(&mut Map<String, Value>)) {
    change_each(ingress, &format!("spec.{default}"), &mut change);
    change_each(ingress, "spec.rules.*.http.paths.*.backend", change);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backends_are_converted_and_keep_their_order() {
        let old = json!({"spec": {
            "ingressClassName": "c",
            "backend": {"servicePort": 0, "resource": {"kind": "Bucket", "name": "b"}},
            "rules": [{"http": {"paths": [
                {"path": "/a", "pathType": "Prefix", "backend": {"serviceName": "s", "servicePort": 80}},
                {"pathType": "ImplementationSpecific", "backend": {"serviceName": "s", "servicePort": "http"}},
            ]}}],
        }});
        let new = to_v1(old.clone());
        let paths = &new["spec"]["rules"][0]["http"]["paths"];
        assert_eq!(paths[0]["backend"], json!({"service": {"name": "s", "port": {"number": 80}}}));
        assert_eq!(paths[1]["backend"], json!({"service": {"name": "s", "port": {"name": "http"}}}));
        assert_eq!(new["spec"]["defaultBackend"], json!({"resource": {"kind": "Bucket", "name": "b"}}));
        assert_eq!(to_v1beta1(new).to_string(), old.to_string());
        let bare = json!({"spec": {"rules": [{"http": {"paths": [{"backend": {"serviceName": "s"}}]}}]}});
        assert_eq!(to_v1(bare)["spec"]["rules"][0]["http"]["paths"][0]["pathType"], "ImplementationSpecific");
    }
}
