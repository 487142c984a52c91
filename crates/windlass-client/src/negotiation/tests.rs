use serde_json::json;
use windlass_api::{ApiResource, Content, GroupVersionKind, ListOptions, Patch, PatchOptions, Resource, WriteOptions};

use super::*;

fn pods() -> Target {
    let pods = ApiResource::namespaced(GroupVersionKind::new("", "v1", "Pod"), "pods");
    Target::new(pods).within("n")
}

fn websites() -> Target {
    let websites = ApiResource::namespaced(GroupVersionKind::new("example.com", "v1", "Website"), "websites");
    Target::new(websites).within("n")
}

fn list(target: &Target, content: Content) -> Request<Bytes> {
    target.list(&ListOptions::default(), content).unwrap()
}

fn accept(request: &Request<Bytes>) -> &str {
    request.headers()[header::ACCEPT].to_str().unwrap()
}

#[test]
fn built_in_kinds_and_metadata_prefer_protobuf() {
    let negotiation = Negotiation::new(ContentType::Protobuf);
    let accepted = |target: &Target, content| {
        let proposed = negotiation.propose(&list(target, content), target, Verb::List, Encodable::Response);
        proposed.map(|request| accept(&request).to_owned())
    };
    assert_eq!(accepted(&pods(), Content::Object).unwrap(), "application/vnd.kubernetes.protobuf,application/json");
    let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
        application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    assert_eq!(accepted(&pods(), Content::Metadata).unwrap(), metadata);
    assert_eq!(accepted(&websites(), Content::Metadata).unwrap(), metadata);
    assert_eq!(accepted(&websites(), Content::Object), None);
    assert_eq!(accepted(&pods(), Content::Table), None);
    let json = Negotiation::new(ContentType::Json);
    assert!(json.propose(&list(&pods(), Content::Object), &pods(), Verb::List, Encodable::Response).is_none());
    assert!(negotiation.propose(&list(&pods(), Content::Object), &pods(), Verb::Delete, Encodable::Response).is_none());
}

#[test]
fn cbor_is_preferred_for_all_kinds_or_for_custom_resources() {
    let accepted = |content_type, target: &Target, content| {
        let request = list(target, content);
        let proposed = Negotiation::new(content_type).propose(&request, target, Verb::List, Encodable::Response);
        proposed.map(|request| accept(&request).to_owned())
    };
    let plain = Some("application/cbor,application/json;q=0.9".to_owned());
    assert_eq!(accepted(ContentType::Cbor, &pods(), Content::Object), plain);
    assert_eq!(accepted(ContentType::Cbor, &websites(), Content::Object), plain);
    let metadata = "application/cbor;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
        application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    assert_eq!(accepted(ContentType::Cbor, &websites(), Content::Metadata).unwrap(), metadata);
    assert_eq!(accepted(ContentType::Cbor, &websites(), Content::Table), None);
    let both = |target: &Target, content| accepted(ContentType::ProtobufAndCbor, target, content);
    assert_eq!(both(&websites(), Content::Object), plain);
    assert!(both(&pods(), Content::Object).unwrap().starts_with(PROTOBUF));
    assert!(both(&websites(), Content::Metadata).unwrap().starts_with(PROTOBUF));
}

#[test]
fn fields_of_newer_servers_are_never_requested_in_protobuf() {
    let request = list(&pods(), Content::AllFields);
    let accepted = |content_type| {
        let proposed = Negotiation::new(content_type).propose(&request, &pods(), Verb::List, Encodable::Neither);
        proposed.map(|request| accept(&request).to_owned())
    };
    assert_eq!(accepted(ContentType::Protobuf), None);
    assert!(accepted(ContentType::ProtobufAndCbor).unwrap().starts_with(CBOR));
}

#[test]
fn bodies_of_creates_updates_and_applies_are_cbor() {
    let negotiation = Negotiation::new(ContentType::Cbor);
    let body = r#"{"apiVersion":"example.com/v1","kind":"Website"}"#;
    let target = websites().named("a");
    let options = PatchOptions::default();
    for (request, verb, expected) in [
        (websites().create(body.into(), &WriteOptions::default()), Verb::Create, Some(CBOR)),
        (target.update(body.into(), &WriteOptions::default()), Verb::Update, Some(CBOR)),
        (target.patch(&Patch::Apply(json!({})), body.into(), &options), Verb::Apply, Some(APPLY_CBOR)),
        (target.patch(&Patch::Merge(json!({})), body.into(), &options), Verb::Patch, None),
    ] {
        let request = request.unwrap();
        let sent = negotiation.propose(&request, &target, verb, Encodable::Response).unwrap();
        let content_type = &sent.headers()[header::CONTENT_TYPE];
        match expected {
            Some(expected) => {
                assert_eq!(content_type, expected);
                assert_eq!(windlass_cbor::to_json(sent.body()).unwrap(), body.as_bytes());
            }
            None => assert_eq!((content_type, sent.body()), (&request.headers()[header::CONTENT_TYPE], request.body())),
        }
        assert_eq!(accept(&sent), "application/cbor,application/json;q=0.9");
    }
}

#[test]
fn body_of_a_typed_write_is_converted() {
    let negotiation = Negotiation::new(ContentType::Protobuf);
    let body = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}"#;
    let request = pods().create(body.into(), &WriteOptions::default()).unwrap();
    let typed = negotiation.propose(&request, &pods(), Verb::Create, Encodable::Both).unwrap();
    assert_eq!(typed.headers()[header::CONTENT_TYPE], PROTOBUF);
    assert_eq!(windlass_protobuf::type_of(typed.body()).unwrap().1, "Pod");
    let dynamic = negotiation.propose(&request, &pods(), Verb::Create, Encodable::Response).unwrap();
    assert_eq!(
        (&dynamic.headers()[header::CONTENT_TYPE], &**dynamic.body()),
        (&HeaderValue::from_static(JSON), body.as_bytes())
    );
    assert!(accept(&dynamic).starts_with(PROTOBUF));
    // Another kind in the body of a subresource, and a body that is no object of its kind.
    for body in [r#"{"kind":"Website","apiVersion":"example.com/v1"}"#, r#"{"kind":"Pod","apiVersion":"v1","spec":7}"#]
    {
        let request = pods().create(body.into(), &WriteOptions::default()).unwrap();
        let sent = negotiation.propose(&request, &pods(), Verb::Create, Encodable::Both).unwrap();
        assert_eq!(&**sent.body(), body.as_bytes());
    }
}

#[test]
fn resource_is_json_after_the_server_refused_protobuf() {
    let negotiation = Negotiation::new(ContentType::Protobuf);
    negotiation.clone().refused(&pods());
    let request = list(&pods(), Content::Object);
    assert!(negotiation.propose(&request, &pods(), Verb::List, Encodable::Response).is_none());
    let secrets = Target::new(k8s_openapi::api::core::v1::Secret::api_resource()).within("n");
    assert!(negotiation.propose(&list(&secrets, Content::Object), &secrets, Verb::List, Encodable::Response).is_some());
}

#[test]
fn content_type_of_a_response_names_its_encoding() {
    let is = |content_type: &'static str| {
        is_protobuf(&HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(content_type))]))
    };
    assert!(is("application/vnd.kubernetes.protobuf") && is("application/vnd.kubernetes.protobuf;stream=watch"));
    assert!(!is("application/json") && !is("application/json;stream=watch") && !is_protobuf(&HeaderMap::new()));
}
