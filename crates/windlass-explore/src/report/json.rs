//! The report as JSON.

use crate::exploration::Results;

/// Returns the results as JSON.
///
/// The document is the serialized form of [`Results`]; plans and objects are texts. An excerpt:
///
/// ```json
/// {
///   "program": ["bin/operator"],
///   "cleanRuns": [{"seconds": 9.1, "changes": 40, "changesByProgram": 12, "requests": 210}],
///   "controls": 1, "withdrawn": ["configmaps/default/a ends differently: data/time is 2, expected 1"],
///   "quietSeconds": 1.5,
///   "mask": {"fields": {"secrets/default/db": ["data/password"]}, "objects": []},
///   "planned": 120, "finished": 118, "resumed": 0, "effects": {"crash": 40, "lag": 78},
///   "passed": ["lag@1:create:pods/default/db-0"],
///   "notReached": ["crash@1:create:pods/default/db-0"],
///   "rejected": {"set(spec/size,0)@dbs.example.com/default/db": "…"},
///   "left": {"delayed": 2},
///   "findings": [{
///     "finding": {"kind": "leftOver", "object": "persistentvolumeclaims/default/data-db-0"},
///     "text": "persistentvolumeclaims/default/data-db-0 is left over at the end",
///     "foundAfterSeconds": 61.5,
///     "runs": [{"plan": "crash@2:update:dbs.example.com/default/db:metadata.finalizers",
///               "findings": ["…"], "replays": {"reproduced": 3, "of": 3}}],
///     "timeline": [{"at": 4.2, "kind": "fault", "actor": "", "text": "…"}]
///   }],
///   "interrupted": false, "seconds": 600.0
/// }
/// ```
///
/// The kinds of findings are `missing`, `leftOver`, `number`, `different`, `churn`, `stuckInDeletion`, `violated`,
/// `panicked`, `exited`, `stepFailed`, `notSettled`, and after a mutation `unlikeNew` with another one as `difference`. The kinds of entries of an event log are `step`, `process`,
/// `log`, `request`, `change`, `fault` and `finding`.
#[must_use]
pub fn json(results: &Results) -> String {
    let mut json = serde_json::to_string_pretty(results).expect("all keys of the results are strings");
    json.push('\n');
    json
}
