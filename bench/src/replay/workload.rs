//! The objects that are replayed, and how they change.
//!
//! A workload is a list of templates: encoded objects with marks in the places that differ from object to object and
//! from event to event. An object is its template's bytes with the marks filled in, so that making one costs little more
//! than copying it.

use clap::ValueEnum;
use serde_json::{Map, Value, json};
use windlass_api::Entropy;

/// What is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Pods that are alike: two containers, one owner, five labels
    Uniform,
    /// Pods of 150 applications, each with environment, arguments and annotations of its own
    Varied,
    /// Small custom resources
    Custom,
    /// Secrets of mixed size
    Secrets,
    /// ConfigMaps of mixed size
    ConfigMaps,
}

/// Encoded objects of one kind.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) path: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) api_version: &'static str,
    /// List items of custom resources say what they are.
    typed_items: bool,
    templates: Vec<Template>,
}

#[derive(Debug)]
struct Template {
    /// Without the opening brace.
    bytes: Vec<u8>,
    marks: Vec<(usize, Mark)>,
}

/// What a mark stands for. Each has one width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// The object's number.
    Number,
    /// The number of its namespace.
    Namespace,
    /// Its uid.
    Uid,
    /// The uid of its owner, which three share.
    Owner,
    /// The hash of its owner.
    OwnerHash,
    Version,
    /// A time of the last change.
    Time,
    /// 64 hexadecimal digits that change with each event.
    Digest,
    /// 16 of them.
    Hash,
}

const MARKS: [(Mark, char, usize); 9] = [
    (Mark::Number, 'n', 7),
    (Mark::Namespace, 's', 2),
    (Mark::Uid, 'u', 36),
    (Mark::Owner, 'o', 36),
    (Mark::OwnerHash, 'k', 10),
    (Mark::Version, 'r', 10),
    (Mark::Time, 't', 20),
    (Mark::Digest, 'd', 64),
    (Mark::Hash, 'h', 16),
];

/// Stands for no text that occurs, and JSON does not escape it.
const MARKER: char = '\u{7f}';

/// The version before the first change.
pub(crate) const FIRST_VERSION: u64 = 1_000_000_000;

fn mark(which: Mark) -> String {
    let (_, letter, width) = MARKS.iter().find(|(mark, ..)| *mark == which).expect("every mark is in the table");
    let mut text = String::from(MARKER);
    text.push(*letter);
    text.extend(std::iter::repeat_n(MARKER, width - 2));
    text
}

// === impl Workload ===

impl Workload {
    /// The same for the same arguments, always.
    pub(crate) fn new(kind: Kind, objects: usize) -> Self {
        let entropy = Entropy::seeded(7);
        let templates = |most: usize, make: &dyn Fn(&Entropy, usize) -> Value| {
            (0..objects.clamp(1, most)).map(|at| Template::new(&make(&entropy, at))).collect()
        };
        let core = |path, kind, templates| Self { path, kind, api_version: "v1", typed_items: false, templates };
        match kind {
            Kind::Uniform => core("/api/v1/pods", "Pod", templates(50, &uniform_pod)),
            Kind::Varied => core("/api/v1/pods", "Pod", templates(10_000, &varied_pod)),
            Kind::Secrets => core("/api/v1/secrets", "Secret", templates(1_000, &secret)),
            Kind::ConfigMaps => core("/api/v1/configmaps", "ConfigMap", templates(1_000, &config_map)),
            Kind::Custom => Self {
                path: "/apis/bench.windlass.dev/v1/widgets",
                kind: "Widget",
                api_version: "bench.windlass.dev/v1",
                typed_items: true,
                templates: templates(1_000, &widget),
            },
        }
    }

    /// Appends an object as a list has it.
    pub(crate) fn item(&self, out: &mut Vec<u8>, object: usize) {
        self.write(out, object, 0, self.typed_items);
    }

    /// Appends the line of a watch that tells the `change`th change, one of `object`.
    pub(crate) fn event(&self, out: &mut Vec<u8>, object: usize, change: u64) {
        out.extend_from_slice(br#"{"type":"MODIFIED","object":"#);
        self.write(out, object, change, true);
        out.extend_from_slice(b"}\n");
    }

    fn write(&self, out: &mut Vec<u8>, object: usize, change: u64, typed: bool) {
        out.push(b'{');
        if typed {
            out.extend_from_slice(format!(r#""kind":"{}","apiVersion":"{}","#, self.kind, self.api_version).as_bytes());
        }
        let template = &self.templates[object % self.templates.len()];
        let start = out.len();
        out.extend_from_slice(&template.bytes);
        for (at, mark) in &template.marks {
            mark.fill(&mut out[start + at..], object as u64, change);
        }
    }
}

impl Template {
    fn new(object: &Value) -> Self {
        let text = object.to_string();
        let bytes = text.as_bytes()[1..].to_vec();
        let mut marks = Vec::new();
        let mut at = 0;
        while let Some(next) = bytes[at..].iter().position(|byte| *byte == MARKER as u8) {
            at += next;
            let letter = char::from(bytes[at + 1]);
            let (mark, _, width) = MARKS.iter().find(|(_, known, _)| *known == letter).expect("marks have a letter");
            marks.push((at, *mark));
            at += width;
        }
        Self { bytes, marks }
    }
}

impl Mark {
    fn fill(self, out: &mut [u8], object: u64, change: u64) {
        match self {
            Self::Number => decimal(&mut out[..7], object),
            Self::Namespace => decimal(&mut out[..2], object % 50),
            Self::Version => decimal(&mut out[..10], FIRST_VERSION + change),
            Self::Uid => uuid(out, mix(object, 1)),
            Self::Owner => uuid(out, mix(object / 3, 2)),
            Self::OwnerHash => hexadecimal(&mut out[..10], mix(object / 3, 3)),
            Self::Digest => hexadecimal(&mut out[..64], mix(object, change + 4)),
            Self::Hash => hexadecimal(&mut out[..16], mix(object, change + 5)),
            Self::Time => {
                out[..20].copy_from_slice(b"2026-11-22T00:00:00Z");
                let second = (object + change) % 86_400;
                decimal(&mut out[11..13], second / 3_600);
                decimal(&mut out[14..16], second / 60 % 60);
                decimal(&mut out[17..19], second % 60);
            }
        }
    }
}

fn decimal(out: &mut [u8], mut number: u64) {
    for digit in out.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).expect("a digit");
        number /= 10;
    }
}

fn hexadecimal(out: &mut [u8], seed: u64) {
    let mut state = seed;
    for (at, digit) in out.iter_mut().enumerate() {
        if at % 16 == 0 {
            state = mix(state, at as u64 + 9);
        }
        *digit = b"0123456789abcdef"[usize::try_from(state >> (at % 16 * 4) & 15).expect("four bits")];
    }
}

fn uuid(out: &mut [u8], seed: u64) {
    hexadecimal(&mut out[..36], seed);
    for at in [8, 13, 18, 23] {
        out[at] = b'-';
    }
    out[14] = b'4';
}

/// A number that looks random, always the same for the same two.
fn mix(a: u64, b: u64) -> u64 {
    let mut x = a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    for _ in 0..2 {
        x = (x ^ (x >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb);
    }
    x ^ (x >> 29)
}

// === the objects ===

/// Name, namespace, owner and what servers add; `managed` says which managers own which parts of the rest.
fn with_meta(name: &str, labels: Value, annotations: Value, owner: Option<&str>, rest: Value) -> Value {
    let mut metadata = json!({
        "name": format!("{name}-{}", mark(Mark::Number)),
        "namespace": format!("namespace-{}", mark(Mark::Namespace)),
        "uid": mark(Mark::Uid),
        "resourceVersion": mark(Mark::Version),
        "generation": 1,
        "creationTimestamp": "2026-11-21T08:15:00Z",
        "labels": labels,
        "annotations": annotations,
    });
    if let Some(owner) = owner {
        metadata["ownerReferences"] = json!([{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{owner}-{}", mark(Mark::OwnerHash)),
            "uid": mark(Mark::Owner), "controller": true, "blockOwnerDeletion": true,
        }]);
    }
    let mut created = Map::new();
    let of_meta = ["labels", "annotations", "ownerReferences"].into_iter().filter(|key| !metadata[key].is_null());
    let of_meta: Map<_, _> = of_meta.map(|key| (format!("f:{key}"), fields(&metadata[key]))).collect();
    created.insert("f:metadata".to_owned(), of_meta.into());
    let mut managers = Vec::new();
    let entry = |manager: &str, subresource: Option<&str>, fields: Value| {
        let mut entry = json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "time": mark(Mark::Time),
            "fieldsType": "FieldsV1", "fieldsV1": fields});
        if let Some(subresource) = subresource {
            entry["subresource"] = subresource.into();
        }
        entry
    };
    for (key, value) in rest.as_object().into_iter().flatten().filter(|(key, _)| *key != "status") {
        created.insert(format!("f:{key}"), fields(value));
    }
    managers.push(entry("kube-controller-manager", None, created.into()));
    if let Some(status) = rest.get("status") {
        managers.push(entry("kubelet", Some("status"), json!({"f:status": fields(status)})));
    }
    metadata["managedFields"] = managers.into();
    let mut object = json!({"metadata": metadata});
    for (key, value) in rest.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
    object
}

/// The set of fields of a value, as managedFields spell it: members of lists by what names them, where something does.
fn fields(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            members.iter().map(|(key, value)| (format!("f:{key}"), fields(value))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => {
            let named = items.iter().filter_map(|item| {
                let key = ["name", "mountPath", "type", "containerPort", "uid"]
                    .into_iter()
                    .find(|key| !item[key].is_null())?;
                let mut fields = fields(item);
                fields["."] = json!({});
                Some((format!("k:{}", json!({key: item[key]})), fields))
            });
            named.collect::<Map<_, _>>().into()
        }
        _ => json!({}),
    }
}

/// A container; `number` tells one from another within a pod.
fn container(name: &str, env: Vec<Value>, args: Vec<String>, image: &str) -> Value {
    let probe = |path: &str| {
        json!({"httpGet": {"path": path, "port": 8080, "scheme": "HTTP"}, "initialDelaySeconds": 5,
        "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3})
    };
    let mut container = json!({
        "name": name, "image": image,
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": env,
        "resources": {"limits": {"cpu": "1", "memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
        "volumeMounts": [{"name": "config", "readOnly": true, "mountPath": "/etc/app"},
            {"name": "kube-api-access", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
        "livenessProbe": probe("/healthz"), "readinessProbe": probe("/readyz"),
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent",
    });
    if !args.is_empty() {
        container["args"] = args.into();
    }
    container
}

fn pod(app: &str, labels: Value, annotations: Value, containers: &[Value]) -> Value {
    let statuses: Vec<_> = containers
        .iter()
        .map(|container| {
            json!({"name": container["name"], "state": {"running": {"startedAt": mark(Mark::Time)}}, "lastState": {}, "ready": true,
                "restartCount": 0, "image": container["image"], "imageID": format!("sha256:{}", mark(Mark::Digest)),
                "containerID": format!("containerd://{}", mark(Mark::Digest)), "started": true})
        })
        .collect();
    let conditions: Vec<_> = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .map(|kind| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": mark(Mark::Time)}))
        .into();
    with_meta(
        app,
        labels,
        annotations,
        Some(app),
        json!({
            "spec": {
                "volumes": [{"name": "config", "configMap": {"name": format!("{app}-settings"), "defaultMode": 420}},
                    {"name": "kube-api-access", "projected": {"sources": [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}], "defaultMode": 420}}],
                "containers": containers,
                "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
                "serviceAccountName": "default", "nodeName": format!("node-{}", mark(Mark::Namespace)), "securityContext": {},
                "schedulerName": "default-scheduler", "priority": 0, "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority",
                "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
            },
            "status": {
                "phase": "Running", "conditions": conditions, "hostIP": format!("10.0.0.{}", mark(Mark::Namespace)),
                "podIP": format!("10.1.{}", mark(Mark::Number)), "startTime": mark(Mark::Time), "qosClass": "Burstable",
                "containerStatuses": statuses,
            },
        }),
    )
}

fn uniform_pod(_: &Entropy, at: usize) -> Value {
    let app = format!("app-{}", at % 50);
    let env = |of: &str| {
        (0..8).map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("value-{n}-of-{of}")})).collect()
    };
    let containers = ["app", "sidecar"]
        .map(|name| container(name, env(name), Vec::new(), &format!("registry.example/team/{name}:1.2.3")));
    let labels = json!({"app.kubernetes.io/name": app, "app.kubernetes.io/part-of": "shop", "tier": "backend", "team": "blue",
        "pod-template-hash": mark(Mark::OwnerHash)});
    let annotations = json!({"prometheus.io/scrape": "true", "prometheus.io/port": "8080",
        "checksum/config": mark(Mark::Hash)});
    pod(&app, labels, annotations, &containers)
}

fn varied_pod(entropy: &Entropy, at: usize) -> Value {
    let app = format!("{}-{}", words(entropy, 1), at % 150);
    let containers: Vec<_> = (0..=entropy.below(3))
        .map(|_| {
            let env = (0..4 + entropy.below(24))
                .map(|_| json!({"name": words(entropy, 2).to_uppercase().replace('-', "_"), "value": value(entropy)}));
            let args = (0..entropy.below(8)).map(|_| format!("--{}={}", words(entropy, 2), value(entropy)));
            let image = format!(
                "registry.example/{}/{}:v{}.{}",
                words(entropy, 1),
                words(entropy, 2),
                entropy.below(9),
                entropy.below(40)
            );
            container(&words(entropy, 2), env.collect(), args.collect(), &image)
        })
        .collect();
    let labels = json!({"app.kubernetes.io/name": app, "app.kubernetes.io/instance": words(entropy, 2), "team": words(entropy, 1),
        "apps.kubernetes.io/pod-index": entropy.below(20).to_string(), "pod-template-hash": mark(Mark::OwnerHash)});
    let annotations: Map<_, _> = (0..2 + entropy.below(6))
        .map(|_| (format!("{}.example/{}", words(entropy, 1), words(entropy, 2)), value(entropy).into()))
        .collect();
    pod(&app, labels, annotations.into(), &containers)
}

fn widget(entropy: &Entropy, at: usize) -> Value {
    with_meta(
        "widget",
        json!({"app": format!("app-{}", at % 50), "size": words(entropy, 1)}),
        json!({"example/note": value(entropy)}),
        None,
        json!({"spec": {"replicas": entropy.below(10), "image": format!("registry.example/{}:1", words(entropy, 2)), "colour": words(entropy, 1)},
            "status": {"ready": true, "observedGeneration": 1, "lastSeen": mark(Mark::Time), "digest": mark(Mark::Hash)}}),
    )
}

fn secret(entropy: &Entropy, at: usize) -> Value {
    let data: Map<_, _> =
        (0..=entropy.below(4)).map(|_| (words(entropy, 1), noise(entropy, 16 << entropy.below(9)).into())).collect();
    with_meta(
        "secret",
        json!({"app": format!("app-{}", at % 50)}),
        json!({"example/digest": mark(Mark::Hash)}),
        None,
        json!({"data": data, "type": "Opaque"}),
    )
}

fn config_map(entropy: &Entropy, at: usize) -> Value {
    let data: Map<_, _> = (0..=entropy.below(4))
        .map(|_| {
            let lines: String =
                (0..4 << entropy.below(7)).map(|_| format!("{}: {}\n", words(entropy, 2), value(entropy))).collect();
            (format!("{}.yaml", words(entropy, 1)), lines.into())
        })
        .collect();
    with_meta(
        "settings",
        json!({"app": format!("app-{}", at % 50)}),
        json!({"example/digest": mark(Mark::Hash)}),
        None,
        json!({"data": data}),
    )
}

const WORDS: [&str; 40] = [
    "anchor", "billing", "cargo", "delta", "engine", "feature", "gateway", "harbour", "index", "journal", "kernel",
    "ledger", "market", "network", "orders", "payment", "queue", "report", "search", "tenant", "upload", "vector",
    "worker", "archive", "bridge", "cache", "docs", "event", "fleet", "graph", "host", "image", "jobs", "key", "login",
    "mail", "notice", "object", "policy", "route",
];

fn pick(entropy: &Entropy, below: usize) -> usize {
    usize::try_from(entropy.below(below as u64)).expect("less than a usize")
}

fn words(entropy: &Entropy, count: usize) -> String {
    (0..count).map(|_| WORDS[pick(entropy, WORDS.len())]).collect::<Vec<_>>().join("-")
}

/// What configurations are made of: words, numbers, addresses, keys.
fn value(entropy: &Entropy) -> String {
    match entropy.below(5) {
        0 => entropy.below(100_000).to_string(),
        1 => format!(
            "https://{}.{}.svc:8{}/v1/{}",
            words(entropy, 1),
            words(entropy, 1),
            entropy.below(1000),
            words(entropy, 2)
        ),
        2 => noise(entropy, 24),
        _ => words(entropy, 3),
    }
}

/// What does not compress.
fn noise(entropy: &Entropy, length: usize) -> String {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    (0..length).map(|_| char::from(alphabet[pick(entropy, alphabet.len())])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_json_of_its_own_and_changes_with_each_event() {
        for kind in Kind::value_variants() {
            let workload = Workload::new(*kind, 60);
            let mut item = Vec::new();
            workload.item(&mut item, 51);
            let item: Value = serde_json::from_slice(&item).unwrap();
            assert!(item["metadata"]["name"].as_str().unwrap().ends_with("-0000051"), "{item}");
            assert_eq!(item["metadata"]["namespace"], "namespace-01");
            let mut event = Vec::new();
            workload.event(&mut event, 51, 9);
            let event: Value = serde_json::from_slice(&event).unwrap();
            assert_eq!((&event["type"], &event["object"]["kind"]), (&json!("MODIFIED"), &json!(workload.kind)));
            assert_eq!(event["object"]["metadata"]["uid"], item["metadata"]["uid"]);
            assert_eq!(event["object"]["metadata"]["resourceVersion"], "1000000009");
            assert!(!event.to_string().contains(MARKER));
        }
    }

    #[test]
    fn pods_are_as_large_as_those_of_the_table() {
        for (kind, least, most) in [(Kind::Uniform, 8_500, 10_800), (Kind::Varied, 10_000, 16_000)] {
            let workload = Workload::new(kind, 200);
            let mut items = Vec::new();
            (0..200).for_each(|at| workload.item(&mut items, at));
            let size = items.len() / 200;
            assert!((least..most).contains(&size), "{kind:?}: {size}");
        }
    }
}
