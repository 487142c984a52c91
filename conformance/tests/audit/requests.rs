//! The requests whose events are compared.

/// A request.
pub(super) struct Step {
    pub(super) method: &'static str,
    /// The path; with a leading `!`, the request has no credentials.
    pub(super) path: &'static str,
    pub(super) headers: &'static [&'static str],
    pub(super) body: &'static str,
    /// The expected code of the response.
    pub(super) code: u16,
}

const fn step(code: u16, method: &'static str, path: &'static str, body: &'static str) -> Step {
    Step { method, path, headers: &[], body, code }
}

const fn with(
    code: u16,
    method: &'static str,
    path: &'static str,
    headers: &'static [&'static str],
    body: &'static str,
) -> Step {
    Step { method, path, headers, body, code }
}

const MERGE: &[&str] = &["content-type: application/merge-patch+json"];
const JSON: &[&str] = &["content-type: application/json-patch+json"];
const STRATEGIC: &[&str] = &["content-type: application/strategic-merge-patch+json"];
const APPLY: &[&str] = &["content-type: application/apply-patch+yaml"];

const HOST_POD: &str = r#"{"metadata":{"name":"host"},"spec":{"serviceAccountName":"runner","hostNetwork":true,"containers":[{"name":"c","image":"i"}]}}"#;

const WRONG: &[&str] = &["authorization: Bearer wrong"];

pub(super) const REQUESTS: &[Step] = &[
    // Namespaces, which select the level.
    step(201, "POST", "/api/v1/namespaces", r#"{"metadata":{"name":"audit-metadata"}}"#),
    step(201, "POST", "/api/v1/namespaces", r#"{"metadata":{"name":"audit-request"}}"#),
    step(201, "POST", "/api/v1/namespaces", r#"{"metadata":{"name":"audit-response"}}"#),
    step(201, "POST", "/api/v1/namespaces", r#"{"metadata":{"name":"audit-trimmed"}}"#),
    step(409, "POST", "/api/v1/namespaces", r#"{"metadata":{"name":"audit-trimmed"}}"#),
    step(200, "GET", "/api/v1/namespaces/audit-metadata", ""),
    // Metadata: no objects, both stages.
    step(
        201,
        "POST",
        "/api/v1/namespaces/audit-metadata/configmaps",
        r#"{"metadata":{"name":"a"},"data":{"k":"<v>&"}}"#,
    ),
    step(201, "POST", "/api/v1/namespaces/audit-metadata/configmaps", r#"{"metadata":{"generateName":"generated-"}}"#),
    step(409, "POST", "/api/v1/namespaces/audit-metadata/configmaps", r#"{"metadata":{"name":"a"}}"#),
    step(
        400,
        "POST",
        "/api/v1/namespaces/audit-metadata/configmaps",
        r#"{"metadata":{"name":"b","namespace":"other"}}"#,
    ),
    step(400, "POST", "/api/v1/namespaces/audit-metadata/configmaps", r#"{"kind":"#),
    step(422, "POST", "/api/v1/namespaces/audit-metadata/configmaps", r#"{"metadata":{"name":"A"}}"#),
    step(200, "GET", "/api/v1/namespaces/audit-metadata/configmaps/a", ""),
    step(404, "GET", "/api/v1/namespaces/audit-metadata/configmaps/none", ""),
    step(200, "GET", "/api/v1/namespaces/audit-metadata/configmaps?fieldSelector=metadata.name%3Da", ""),
    step(200, "GET", "/api/v1/namespaces/audit-metadata/configmaps?watch=1&timeoutSeconds=1", ""),
    step(405, "PUT", "/api/v1/namespaces/audit-metadata/configmaps", "{}"),
    step(404, "GET", "/api/v1/namespaces/audit-metadata/widgets", ""),
    with(401, "GET", "!/api/v1/namespaces/audit-metadata/configmaps", WRONG, ""),
    step(403, "GET", "!/api/v1/namespaces/audit-metadata/configmaps", ""),
    with(403, "GET", "/api/v1/namespaces/audit-metadata/configmaps", &["impersonate-user: bob"], ""),
    with(
        403,
        "GET",
        "/api/v1/namespaces/audit-metadata/secrets",
        &["impersonate-user: bob", "impersonate-group: testers", "impersonate-uid: 7", "impersonate-extra-scope: a"],
        "",
    ),
    with(
        200,
        "GET",
        "/api/v1/namespaces/audit-metadata/configmaps/a",
        &["x-forwarded-for: 10.1.2.3, 10.1.2.4", "x-real-ip: 10.1.2.5"],
        "",
    ),
    step(400, "GET", "/api/v1/namespaces/audit-metadata/configmaps?timeout=soon", ""),
    step(404, "GET", "/api/v1/namespaces/audit-metadata/pods/none/log", ""),
    // Request: with the object of the request.
    step(
        201,
        "POST",
        "/api/v1/namespaces/audit-request/configmaps",
        r#"{"metadata":{"name":"a","annotations":{"l":"<v>&"}},"data":{"k":"v"}}"#,
    ),
    step(
        201,
        "POST",
        "/api/v1/namespaces/audit-request/configmaps?fieldValidation=Ignore",
        r#"{"metadata":{"name":"unknown"},"bogus":1}"#,
    ),
    step(
        201,
        "POST",
        "/apis/apps/v1/namespaces/audit-request/deployments?dryRun=All",
        r#"{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#,
    ),
    step(
        201,
        "POST",
        "/api/v1/namespaces/audit-request/services?dryRun=All",
        r#"{"metadata":{"name":"s"},"spec":{"clusterIP":"None","ports":[{"port":80}]}}"#,
    ),
    with(200, "PATCH", "/api/v1/namespaces/audit-request/configmaps/a", MERGE, r#"{ "data": {"m": "<x>" } }"#),
    with(
        200,
        "PATCH",
        "/api/v1/namespaces/audit-request/configmaps/a",
        JSON,
        r#"[ {"op": "add", "path": "/data/j", "value": "1"} ]"#,
    ),
    with(
        200,
        "PATCH",
        "/api/v1/namespaces/audit-request/configmaps/a",
        STRATEGIC,
        r#"{"metadata":{"annotations":{"s":"1"}}}"#,
    ),
    with(
        201,
        "PATCH",
        "/api/v1/namespaces/audit-request/configmaps/applied?fieldManager=me",
        APPLY,
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"},"data":{"k":"v"}}"#,
    ),
    with(
        409,
        "PATCH",
        "/api/v1/namespaces/audit-request/configmaps/applied?fieldManager=you",
        APPLY,
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"},"data":{"k":"w"}}"#,
    ),
    with(415, "PATCH", "/api/v1/namespaces/audit-request/configmaps/a", &["content-type: text/plain"], "x"),
    with(404, "PATCH", "/api/v1/namespaces/audit-request/configmaps/none", MERGE, "{}"),
    step(
        200,
        "PUT",
        "/api/v1/namespaces/audit-request/configmaps/a",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"u":"v"}}"#,
    ),
    step(
        409,
        "PUT",
        "/api/v1/namespaces/audit-request/configmaps/a",
        r#"{"metadata":{"name":"a","resourceVersion":"1","uid":""}}"#,
    ),
    step(400, "PUT", "/api/v1/namespaces/audit-request/configmaps/a", r#"{"metadata":{"name":"b"}}"#),
    step(200, "DELETE", "/api/v1/namespaces/audit-request/configmaps/a?gracePeriodSeconds=5", ""),
    step(
        200,
        "DELETE",
        "/api/v1/namespaces/audit-request/configmaps/applied",
        r#"{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}"#,
    ),
    step(404, "DELETE", "/api/v1/namespaces/audit-request/configmaps/none", r#"{"gracePeriodSeconds":0}"#),
    step(200, "DELETE", "/api/v1/namespaces/audit-request/configmaps?labelSelector=no%3Done", ""),
    step(200, "GET", "/api/v1/namespaces/audit-request/configmaps/unknown", ""),
    // RequestResponse: with both objects.
    step(
        201,
        "POST",
        "/api/v1/namespaces/audit-response/configmaps?fieldManager=me",
        r#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#,
    ),
    step(200, "GET", "/api/v1/namespaces/audit-response/configmaps", ""),
    step(200, "GET", "/api/v1/namespaces/audit-response/secrets", ""),
    with(200, "GET", "/api/v1/namespaces/audit-response/configmaps/a", &["accept: application/yaml"], ""),
    with(
        200,
        "GET",
        "/api/v1/namespaces/audit-response/configmaps/a",
        &["accept: application/vnd.kubernetes.protobuf"],
        "",
    ),
    with(
        200,
        "GET",
        "/api/v1/namespaces/audit-response/configmaps",
        &["accept: application/vnd.kubernetes.protobuf"],
        "",
    ),
    with(
        200,
        "GET",
        "/api/v1/namespaces/audit-response/configmaps/a",
        &["accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"],
        "",
    ),
    with(406, "GET", "/api/v1/namespaces/audit-response/configmaps/a", &["accept: image/png"], ""),
    step(200, "GET", "/api/v1/namespaces/audit-response/configmaps?watch=1&timeoutSeconds=1&resourceVersion=0", ""),
    step(500, "GET", "/api/v1/namespaces/audit-response/configmaps?watch=1&resourceVersion=x", ""),
    step(
        201,
        "POST",
        "/api/v1/namespaces/audit-trimmed/serviceaccounts?fieldManager=me",
        r#"{"metadata":{"name":"robot"}}"#,
    ),
    step(
        201,
        "POST",
        "/api/v1/namespaces/audit-trimmed/serviceaccounts/robot/token",
        r#"{"spec":{"audiences":["x"]}}"#,
    ),
    step(
        201,
        "POST",
        "/apis/apps/v1/namespaces/audit-response/statefulsets?fieldManager=me",
        r#"{"metadata":{"name":"s"},"spec":{"replicas":0,"serviceName":"s","selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#,
    ),
    step(200, "GET", "/apis/apps/v1/namespaces/audit-response/statefulsets/s/scale", ""),
    with(
        200,
        "PATCH",
        "/apis/apps/v1/namespaces/audit-response/statefulsets/s/scale?fieldManager=me",
        MERGE,
        r#"{"spec":{"replicas":0}}"#,
    ),
    step(
        200,
        "PUT",
        "/apis/apps/v1/namespaces/audit-response/statefulsets/s/scale?fieldManager=me",
        r#"{"metadata":{"name":"s","namespace":"audit-response"},"spec":{"replicas":0}}"#,
    ),
    step(404, "POST", "/api/v1/namespaces/audit-response/pods/none/eviction", r#"{"metadata":{"name":"none"}}"#),
    step(200, "DELETE", "/apis/apps/v1/namespaces/audit-response/statefulsets/s", r#"{"propagationPolicy":"Orphan"}"#),
    step(200, "DELETE", "/api/v1/namespaces/audit-response/configmaps", ""),
    // Webhooks, which change the object and add annotations.
    step(
        201,
        "POST",
        "/api/v1/namespaces/audit-metadata/configmaps",
        r#"{"metadata":{"name":"hooked","labels":{"audit-hook":"yes"}}}"#,
    ),
    step(
        201,
        "POST",
        "/api/v1/namespaces/audit-request/configmaps",
        r#"{"metadata":{"name":"hooked","labels":{"audit-hook":"yes"}}}"#,
    ),
    // Without managed fields.
    step(201, "POST", "/api/v1/namespaces/audit-trimmed/configmaps", r#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#),
    step(200, "GET", "/api/v1/namespaces/audit-trimmed/configmaps", ""),
    // Not audited.
    step(404, "GET", "/api/v1/namespaces/audit-none/configmaps/a", ""),
    // Reviews, and objects without a namespace.
    step(201, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}"),
    step(
        201,
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        r#"{"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}"#,
    ),
    step(
        201,
        "POST",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles?fieldManager=me",
        r#"{"metadata":{"name":"audit-role"},"rules":[]}"#,
    ),
    step(200, "DELETE", "/apis/rbac.authorization.k8s.io/v1/clusterroles/audit-role", ""),
    step(404, "GET", "/apis/example.com/v1/widgets", ""),
    // Paths that are no resources.
    step(200, "GET", "/version", ""),
    step(200, "GET", "/healthz?verbose", ""),
    step(403, "GET", "!/audit-path", ""),
    with(401, "GET", "!/audit-path", WRONG, ""),
    step(404, "GET", "/audit-path", ""),
    step(200, "GET", "/api", ""),
    step(404, "POST", "/apis/apps/v2/namespaces/audit-metadata/deployments", "{}"),
    // Pod Security: annotations about the standards of the namespace.
    step(
        201,
        "POST",
        "/api/v1/namespaces",
        r#"{"metadata":{"name":"audit-security","labels":{"pod-security.kubernetes.io/enforce":"baseline","pod-security.kubernetes.io/audit":"restricted"}}}"#,
    ),
    step(201, "POST", "/api/v1/namespaces/audit-security/serviceaccounts", r#"{"metadata":{"name":"runner"}}"#),
    step(201, "POST", "/api/v1/namespaces/audit-metadata/serviceaccounts", r#"{"metadata":{"name":"runner"}}"#),
    step(403, "POST", "/api/v1/namespaces/audit-security/pods?dryRun=All", HOST_POD),
    step(201, "POST", "/api/v1/namespaces/audit-metadata/pods?dryRun=All", HOST_POD),
    step(
        201,
        "POST",
        "/api/v1/namespaces/audit-security/pods?dryRun=All",
        r#"{"metadata":{"name":"plain"},"spec":{"serviceAccountName":"runner","containers":[{"name":"c","image":"i"}]}}"#,
    ),
    step(
        201,
        "POST",
        "/apis/apps/v1/namespaces/audit-security/deployments?dryRun=All",
        r#"{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#,
    ),
    // The end.
    step(200, "GET", "/version?last", ""),
];
