//! The configuration of `PodTolerationRestriction`.

use serde_json::Value;

use super::{
    AdmissionConfiguration,
    checks::{check_fields, check_file, check_type},
};
use crate::object::{Errors, Path, Tree};

impl AdmissionConfiguration {
    pub(super) fn set_tolerations(&mut self, file: &Value, errors: &mut Errors) {
        check_file(file, "podtolerationrestriction.admission.k8s.io", &["default", "whitelist"], errors);
        self.tolerations.default = file.items(&["default"]).to_vec();
        self.tolerations.allowed = file.items(&["whitelist"]).to_vec();
        for (field, list) in [("default", &self.tolerations.default), ("whitelist", &self.tolerations.allowed)] {
            let path = Path::new(field);
            for (index, toleration) in list.iter().enumerate() {
                let fields = ["key", "operator", "value", "effect", "tolerationSeconds"];
                let path = path.index(index);
                check_fields(toleration, &fields, &path, errors);
                for field in &fields[..4] {
                    if toleration.get(field).is_some_and(|value| !value.is_string()) {
                        errors.invalid(&path.child(field), &toleration[field], "must be a string");
                    }
                }
                if toleration.get("tolerationSeconds").is_some_and(|seconds| !seconds.is_i64()) {
                    errors.invalid(
                        &path.child("tolerationSeconds"),
                        &toleration["tolerationSeconds"],
                        "must be an integer",
                    );
                }
            }
            check_type(file, field, Value::is_array, "must be an array", errors);
        }
    }
}
