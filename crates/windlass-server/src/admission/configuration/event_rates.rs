//! The configuration of `EventRateLimit`.

use serde_json::Value;

use super::{
    AdmissionConfiguration,
    checks::{check_fields, check_file},
};
use crate::{
    admission::event_rates::{Limit, Scope},
    object::{Errors, Path, Tree},
};

/// The number of buckets of an event limit without a `cacheSize`, as in kube-apiserver.
const DEFAULT_CACHE_SIZE: usize = 4096;

impl AdmissionConfiguration {
    pub(super) fn set_event_limits(&mut self, file: &Value, errors: &mut Errors) {
        check_file(file, "eventratelimit.admission.k8s.io", &["limits"], errors);
        let list = Path::new("limits");
        for (index, limit) in file.items(&["limits"]).iter().enumerate() {
            let path = list.index(index);
            check_fields(limit, &["type", "qps", "burst", "cacheSize"], &path, errors);
            let kind = limit.text(&["type"]);
            let scope = Scope::ALL.iter().find(|(name, _)| *name == kind).map(|(_, scope)| *scope);
            if scope.is_none() {
                errors.unsupported(&path.child("type"), kind, &Scope::ALL.map(|(name, _)| name));
            }
            let number = |field: &str, least: i64, detail: &str, errors: &mut Errors| {
                let number = limit.int(&[field]).unwrap_or_default();
                if number < least {
                    errors.invalid(&path.child(field), &number, detail);
                }
                u32::try_from(number).unwrap_or(u32::MAX)
            };
            let burst = number("burst", 1, "must be positive", errors);
            let qps = number("qps", 1, "must be positive", errors);
            let size = match scope {
                Some(Scope::Server) => 1,
                _ => number("cacheSize", 0, "must not be negative", errors),
            };
            let cache_size = if size == 0 { DEFAULT_CACHE_SIZE } else { size as usize };
            self.event_limits.extend(scope.map(|scope| Limit { scope, qps, burst, cache_size }));
        }
    }
}
