mod generate;
mod protobuf_writer;
mod round_trips;

use serde_json::json;

use super::*;

const CONFIG_MAP: (&str, &str, &str) = ("", "v1", "ConfigMap");
const POD: (&str, &str, &str) = ("", "v1", "Pod");
const DEPLOYMENT: (&str, &str, &str) = ("apps", "v1", "Deployment");

fn of(kind: (&str, &str, &str)) -> &'static Plan {
    plan(kind.0, kind.1, kind.2).unwrap()
}

fn decode(kind: (&str, &str, &str), body: &str) -> Decoded {
    of(kind).decode(body.as_bytes(), Format::Json, FieldValidation::Warn).unwrap()
}

fn error(kind: (&str, &str, &str), body: &str) -> String {
    of(kind).decode(body.as_bytes(), Format::Json, FieldValidation::Strict).unwrap_err().to_string()
}

#[test]
fn fields_are_in_gos_order_after_kind_and_api_version() {
    let decoded = decode(
        DEPLOYMENT,
        r#"{"spec":{"template":{"metadata":{}},"selector":null,"replicas":0},"metadata":{"name":"a"}}"#,
    );
    assert_eq!(
        decoded.value.to_string(),
        concat!(
            r#"{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"a"},"spec":{"replicas":0,"#,
            r#""selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}},"status":{}}"#
        )
    );
}

#[test]
fn zero_values_are_omitted_unless_they_are_pointers() {
    let decoded = decode(
        POD,
        r#"{"metadata":{"labels":{},"annotations":null,"creationTimestamp":null},"spec":{"terminationGracePeriodSeconds":0,
           "automountServiceAccountToken":false,"hostNetwork":false,"tolerations":[],"containers":[{"name":"c","env":[{"name":"e","value":""}],
           "ports":[{"hostPort":0,"containerPort":80}],"resources":{"requests":{"cpu":0.5,"memory":"1024Mi"}},"livenessProbe":{"httpGet":{"port":"web"},"tcpSocket":{"port":8}}}]},
           "status":{"conditions":[{"type":"Ready"}]}}"#,
    );
    assert_eq!(
        decoded.value,
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": {},
            "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}], "env": [{"name": "e"}],
                "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
                "livenessProbe": {"httpGet": {"port": "web"}, "tcpSocket": {"port": 8}}}],
                "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false},
            "status": {"conditions": [{"type": "Ready", "status": "", "lastProbeTime": null, "lastTransitionTime": null}]}})
    );
    assert!(decoded.warnings.is_empty());
}

#[test]
fn nulls_are_decoded_as_zero_values() {
    let decoded =
        decode(CONFIG_MAP, r#"{"data":{"b":"x","a":null},"immutable":null,"metadata":{"finalizers":["f",null]}}"#);
    assert_eq!(
        decoded.value.to_string(),
        r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"finalizers":["f",""]},"data":{"a":"","b":"x"}}"#
    );
}

#[test]
fn large_integers_are_preserved() {
    let decoded = decode(
        POD,
        r#"{"metadata":{"generation":9007199254740993},"spec":{"activeDeadlineSeconds":-9223372036854775808}}"#,
    );
    assert_eq!(decoded.value["metadata"]["generation"], json!(9_007_199_254_740_993_i64));
    assert_eq!(decoded.value["spec"]["activeDeadlineSeconds"], json!(i64::MIN));
}

#[test]
fn type_errors_name_the_struct_and_the_path() {
    let wrap = |kind: &str, text: &str| format!("{kind} in version \"v1\" cannot be handled as a {kind}: {text}");
    for (kind, body, expected) in [
        (
            CONFIG_MAP,
            r#"{"data":{"a":1}}"#,
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            POD,
            r#"{"spec":{"containers":[{"ports":[{"containerPort":80.0}]}]}}"#,
            "json: cannot unmarshal number 80.0 into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            POD,
            r#"{"spec":{"containers":[{"ports":[{"containerPort":8e1}]}]}}"#,
            "json: cannot unmarshal number 8e1 into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (POD, r#"{"spec":[]}"#, "json: cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec"),
        (
            POD,
            r#"{"spec":{"restartPolicy":true}}"#,
            "json: cannot unmarshal bool into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy",
        ),
        (
            POD,
            r#"{"spec":{"containers":{"a":1}}}"#,
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            POD,
            r#"{"spec":{"volumes":[{"name":"a","emptyDir":{"medium":5}}]}}"#,
            "json: cannot unmarshal number into Go struct field EmptyDirVolumeSource.spec.volumes.VolumeSource.emptyDir.medium of type v1.StorageMedium",
        ),
        (
            POD,
            r#"{"spec":{"containers":[{"livenessProbe":{"httpGet":{"port":1.5}}}]}}"#,
            "json: cannot unmarshal number 1.5 into Go struct field HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32",
        ),
        (
            POD,
            r#"{"metadata":{"creationTimestamp":"abc"}}"#,
            r#"parsing time "abc" as "2006-01-02T15:04:05Z07:00": cannot parse "abc" as "2006""#,
        ),
        (
            POD,
            r#"{"metadata":{"labels":[],"creationTimestamp":5}}"#,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        (
            POD,
            r#"{"spec":{"containers":[{"resources":{"limits":{"cpu":"x"}}}]}}"#,
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ] {
        assert_eq!(error(kind, body), wrap(kind.2, expected));
    }
}

#[test]
fn first_type_error_is_reported_unless_syntax_is_invalid() {
    assert!(error(CONFIG_MAP, r#"{"data":{"a":1,"b":true},"immutable":"x"}"#).contains("number into"));
    assert!(error(CONFIG_MAP, r#"{"data":{"a":1},"#).contains("unexpected end of JSON input"));
}

#[test]
fn error_for_unrecognized_body_quotes_its_start() {
    let prefix = "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: ";
    assert_eq!(error(CONFIG_MAP, ""), format!("{prefix}unexpected end of JSON input (<empty>)"));
    assert_eq!(
        error(CONFIG_MAP, "not json"),
        format!("{prefix}invalid character 'o' in literal null (expecting 'u') (6e6f74206a736f6e)")
    );
    assert_eq!(
        error(CONFIG_MAP, r#"{"metadata":{"name":"abcdefghijklmnop""#),
        format!(r#"{prefix}unexpected end of JSON input ({{"metadata":{{"name":"abcdefghi ...)"#)
    );
    assert_eq!(
        error(CONFIG_MAP, r#"{"apiVersion":"a/b/c"}"#),
        r#"the object provided is unrecognized (must be of type ConfigMap): unexpected GroupVersion string: a/b/c ({"apiVersion":"a/b/c"})"#
    );
}

#[test]
fn document_of_another_kind_or_version_is_rejected() {
    for (kind, body, expected) in [
        (
            CONFIG_MAP,
            r#"{"kind":"Pod","apiVersion":"v1"}"#,
            r#"Pod in version "v1" cannot be handled as a ConfigMap: converting (v1.Pod) to (core.ConfigMap): unknown conversion"#,
        ),
        (
            CONFIG_MAP,
            r#"{"kind":"ConfigMap","apiVersion":"v2"}"#,
            r#"ConfigMap in version "v2" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered for version "v2" in scheme "pkg/runtime/scheme.go:111""#,
        ),
        (
            DEPLOYMENT,
            r#"{"kind":"Deployment","apiVersion":"extensions/v1beta1"}"#,
            "the API version in the data (extensions/v1beta1) does not match the expected API version (apps/v1)",
        ),
    ] {
        assert_eq!(error(kind, body), expected);
    }
    decode(CONFIG_MAP, r#"{"kind":"ConfigMap","apiVersion":""}"#);
    let options = of(("meta.k8s.io", "v1", "DeleteOptions"));
    let body = br#"{"kind":"DeleteOptions","apiVersion":"apps/v1","gracePeriodSeconds":0}"#;
    let decoded = options.decode(body, Format::Json, FieldValidation::Ignore).unwrap();
    let wrong = options.decode(br#"{"kind":"ConfigMap","apiVersion":"v1"}"#, Format::Json, FieldValidation::Ignore);
    assert_eq!(
        wrong.unwrap_err().to_string(),
        r#"no kind "ConfigMap" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111""#
    );
    assert_eq!(decoded.value["gracePeriodSeconds"], json!(0));
}

#[test]
fn unknown_and_duplicate_fields_are_reported_with_their_paths() {
    let body = r#"{"bogus":1,"data":{"a":"1","a":"2"},"Data":{},"metadata":{"ownerReferences":[{"name":"x","name":"y","nope":{"deep":1}}]}}"#;
    let decoded = decode(CONFIG_MAP, body);
    let expected = [
        r#"unknown field "bogus""#,
        r#"duplicate field "data.a""#,
        r#"unknown field "Data""#,
        r#"duplicate field "metadata.ownerReferences[0].name""#,
        r#"unknown field "metadata.ownerReferences[0].nope""#,
    ];
    assert_eq!(decoded.warnings, expected);
    assert_eq!(decoded.value["data"]["a"], "2");
    assert_eq!(
        error(CONFIG_MAP, body),
        format!(
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: {}",
            expected.join(", ")
        )
    );
    let ignored = of(CONFIG_MAP).decode(body.as_bytes(), Format::Json, FieldValidation::Ignore).unwrap();
    assert!(ignored.warnings.is_empty());
}

#[test]
fn only_the_first_yaml_document_is_decoded() {
    let body = b"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n  - name: c\n    ports:\n    - {containerPort: 0x50}\n    volumeMounts: [{name: v, mountPath: /v, readOnly: yes}]\n---\nkind: Nope\n";
    let decoded = of(POD).decode(body, Format::Yaml, FieldValidation::Strict).unwrap();
    assert_eq!(decoded.value["spec"]["containers"][0]["ports"][0]["containerPort"], json!(80));
    assert_eq!(decoded.value["spec"]["containers"][0]["volumeMounts"][0]["readOnly"], json!(true));
    let failure = |body: &str| {
        of(CONFIG_MAP).decode(body.as_bytes(), Format::Yaml, FieldValidation::Strict).unwrap_err().to_string()
    };
    assert!(
        failure("data:\n  a: yes\n")
            .ends_with("json: cannot unmarshal bool into Go struct field ConfigMap.data of type string")
    );
    assert!(
        failure("data:\n  a: b\n  a: c\n")
            .ends_with("strict decoding error: yaml: unmarshal errors:\n  line 3: key \"a\" already set in map")
    );
}

#[test]
fn crd_schema_unions_are_preserved() {
    let crd = ("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "array", "items": {"type": "string", "default": {"b": 1.0, "a": [2]}}},
        "b": {"type": "object", "additionalProperties": false},
        "c": {"type": "object", "additionalProperties": {"type": "integer", "maximum": 5.0}},
        "d": {"x-kubernetes-preserve-unknown-fields": false, "enum": [null, 1]}}});
    let body = json!({"spec": {"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    let decoded = decode(crd, &body.to_string());
    let properties = &decoded.value["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    assert_eq!(properties["a"]["items"].to_string(), r#"{"type":"string","default":{"a":[2],"b":1}}"#);
    assert_eq!(properties["b"]["additionalProperties"], json!(false));
    assert_eq!(properties["c"]["additionalProperties"].to_string(), r#"{"type":"integer","maximum":5}"#);
    assert_eq!(properties["d"], json!({"x-kubernetes-preserve-unknown-fields": false, "enum": [null, 1]}));
}

#[test]
fn decoding_is_idempotent_for_every_kind() {
    for (group, version, kind) in types::all_kinds() {
        let plan = plan(group, version, kind).unwrap();
        let once = plan.decode(b"{}", Format::Json, FieldValidation::Strict).unwrap();
        let twice = plan.normalize(once.value.clone(), FieldValidation::Strict).unwrap();
        assert_eq!(once.value.to_string(), twice.value.to_string(), "{group}/{version} {kind}");
        assert!(plan.shape().fields.len() <= 128);
    }
}

#[test]
fn custom_resources_keep_values_and_sort_keys() {
    let foo = CustomKind { group: "ex.io", version: "v1", kind: "Foo" };
    let body = br#"{"kind":"Foo","spec":{"b":1.0,"a":{"y":null,"x":[{}]},"b":2.0},"apiVersion":"ex.io/v1"}"#;
    let decoded = foo.decode(body, Format::Json, FieldValidation::Strict).unwrap();
    assert_eq!(
        decoded.value.to_string(),
        r#"{"apiVersion":"ex.io/v1","kind":"Foo","spec":{"a":{"x":[{}],"y":null},"b":2.0}}"#
    );
    assert_eq!(decoded.warnings, [r#"duplicate field "spec.b""#]);
    let mut value = decoded.value;
    go_numbers(&mut value);
    assert_eq!(value["spec"]["b"].to_string(), "2");
    let error = |body: &str| foo.decode(body.as_bytes(), Format::Json, FieldValidation::Warn).unwrap_err().to_string();
    for (body, expected) in [
        (
            r#"{"a":1}"#,
            r#"the object provided is unrecognized (must be of type Foo): Object 'Kind' is missing in '{"a":1}' ({"a":1})"#,
        ),
        (r#"{"kind":"Foo"}"#, "the API version in the data () does not match the expected API version (ex.io/v1)"),
        (
            r#"{"apiVersion":"ex.io/v1","kind":"Foo","a":1e400}"#,
            r#"Foo in version "v1" cannot be handled as a Foo: json: cannot unmarshal number 1e400 into Go value of type float64"#,
        ),
    ] {
        assert_eq!(error(body), expected);
    }
}

#[test]
fn metadata_of_custom_resources_is_typed() {
    let decoded = decode_object_meta(&json!({"labels": {}, "name": "a", "bogus": 1}), FieldValidation::Warn).unwrap();
    assert_eq!(decoded.value, json!({"name": "a"}));
    assert_eq!(decoded.warnings, [r#"unknown field "metadata.bogus""#]);
    for (metadata, expected) in [
        (json!({"name": 5}), "json: cannot unmarshal number into Go struct field ObjectMeta.name of type string"),
        (json!("x"), "json: cannot unmarshal string into Go value of type v1.ObjectMeta"),
    ] {
        assert_eq!(decode_object_meta(&metadata, FieldValidation::Warn).unwrap_err(), expected);
    }
}

#[test]
fn repeated_structs_are_merged() {
    let body = r#"{"metadata":{"name":"a","labels":{"x":"1"}},"metadata":{"labels":{"y":"2"}},"data":{"a":"1"},"data":{"b":"2"}}"#;
    let decoded = decode(CONFIG_MAP, body);
    assert_eq!(decoded.value["metadata"], json!({"name": "a", "labels": {"x": "1", "y": "2"}}));
    assert_eq!(decoded.value["data"], json!({"a": "1", "b": "2"}));
    assert_eq!(decoded.warnings, [r#"duplicate field "metadata""#, r#"duplicate field "data""#]);
}

#[test]
fn deep_documents_are_rejected_without_recursion() {
    let deep = format!(r#"{{"spec":{}{}}}"#, "[".repeat(500_000), "]".repeat(500_000));
    assert!(error(POD, &deep).contains("exceeded max depth"));
}

/// Returns bodies of every kind that Go has encoded (`tools/bodies`), in protobuf and in JSON.
fn bodies() -> impl Iterator<Item = (&'static Plan, Vec<u8>, &'static str)> {
    use ::base64::{Engine, prelude::BASE64_STANDARD};
    include_str!("../../testdata/bodies.tsv").lines().map(|line| {
        let columns: Vec<&str> = line.split('\t').collect();
        let plan = plan(columns[0], columns[1], columns[2]).unwrap();
        (plan, BASE64_STANDARD.decode(columns[3]).unwrap(), columns[4])
    })
}

#[test]
fn protobuf_and_json_of_every_kind_equal_gos_output() {
    let mut count = 0;
    for (plan, protobuf, json) in bodies() {
        let decoded = plan.decode(&protobuf, Format::Protobuf, FieldValidation::Strict).unwrap();
        let json =
            if plan.group == "meta.k8s.io" { json.replace(r#""v1""#, r#""meta.k8s.io/v1""#) } else { json.to_owned() };
        assert_eq!(decoded.value.to_string(), json, "protobuf of {}", plan.kind);
        if plan.group != "meta.k8s.io" {
            assert_eq!(to_protobuf(&encode(&decoded.value)), Some(protobuf), "protobuf of {}", plan.kind);
        }
        let decoded = plan.decode(json.as_bytes(), Format::Json, FieldValidation::Strict).unwrap();
        assert_eq!(decoded.value.to_string(), json, "JSON of {}", plan.kind);
        let yaml = to_yaml(&decoded.value);
        let decoded = plan.decode(yaml.as_bytes(), Format::Yaml, FieldValidation::Strict).unwrap();
        assert_eq!(decoded.value, serde_json::from_str::<Value>(&json).unwrap(), "YAML of {}", plan.kind);
        count += 1;
    }
    assert!(count > 70, "{count} kinds");
}

#[test]
fn broken_protobuf_is_an_error_without_panic() {
    let pod = of(POD);
    for (body, expected) in [
        (&b""[..], "empty data (<empty>)"),
        (b"abc", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] (616263)"),
        (b"k8s\0", "empty body (6b387300)"),
        (b"k8s\0\x0a", "unexpected EOF (6b3873000a)"),
    ] {
        let message = pod.decode(body, Format::Protobuf, FieldValidation::Warn).unwrap_err().to_string();
        assert_eq!(message, format!("the object provided is unrecognized (must be of type Pod): {expected}"));
    }
    let message =
        pod.decode(b"k8s\0\x12\x02\x08\x05", Format::Protobuf, FieldValidation::Warn).unwrap_err().to_string();
    assert_eq!(
        message,
        r#"Pod in version "v1" cannot be handled as a Pod: proto: wrong wireType = 0 for field ObjectMeta"#
    );
    // A body that is truncated or damaged at any position gives an error or another object, but no panic.
    for (plan, protobuf, _) in bodies() {
        let step = protobuf.len() / 150 + 1;
        for at in (0..protobuf.len()).step_by(step) {
            drop(plan.decode(&protobuf[..at], Format::Protobuf, FieldValidation::Warn));
            let mut damaged = protobuf.clone();
            damaged[at] ^= 0x5B;
            drop(plan.decode(&damaged, Format::Protobuf, FieldValidation::Warn));
        }
    }
}

/// Encodes a protobuf field with a body.
fn field(number: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = body.len();
    while length >= 0x80 {
        bytes.push(u8::try_from(length & 0x7F).unwrap() | 0x80);
        length >>= 7;
    }
    bytes.push(u8::try_from(length).unwrap());
    bytes.extend_from_slice(body);
    bytes
}

#[test]
fn decoded_size_is_limited_for_small_bodies() {
    let containers = field(2, &[]).repeat(250_000);
    let body = [b"k8s\0".to_vec(), field(2, &field(2, &containers))].concat();
    let message = of(POD).decode(&body, Format::Protobuf, FieldValidation::Warn).unwrap_err().to_string();
    assert!(message.ends_with("more than 200000 elements"), "{message}");
    let body = format!(r#"{{"spec":{{"containers":[{}{{}}]}}}}"#, "{},".repeat(250_000));
    assert!(error(POD, &body).ends_with("more than 200000 elements"));
}

#[test]
fn deep_protobuf_is_rejected_without_recursion() {
    // A schema with `not` nested 2000 levels deep.
    let mut schema = Vec::new();
    for _ in 0..2000 {
        let mut nested = field(0, &schema);
        // Field 28, `not`, has a tag of two bytes.
        nested.splice(..1, [0xE2, 0x01]);
        schema = nested;
    }
    let version = field(4, &field(1, &schema));
    let body = [b"k8s\0".to_vec(), field(2, &field(2, &field(7, &version)))].concat();
    let crd = of(("apiextensions.k8s.io", "v1", "CustomResourceDefinition"));
    let message = crd.decode(&body, Format::Protobuf, FieldValidation::Warn).unwrap_err().to_string();
    assert!(message.ends_with("exceeded max depth"), "{message}");
}
