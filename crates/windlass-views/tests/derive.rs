//! Views of custom kinds, by derive.

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use serde::Deserialize;
use windlass_derive::View;
use windlass_views::{Document, HasView};

#[derive(Clone, Debug, Deserialize, View)]
#[view(crate = windlass_views)]
struct Website {
    metadata: ObjectMeta,
    spec: WebsiteSpec,
    status: Option<WebsiteStatus>,
}

#[derive(Clone, Debug, Deserialize, View)]
#[serde(rename_all = "camelCase")]
#[view(crate = windlass_views)]
struct WebsiteSpec {
    /// The image of the web server.
    image: String,
    max_replicas: Option<u16>,
    r#type: Kind,
    fallback: Option<Kind>,
    pages: Vec<Page>,
    #[serde(default)]
    headers: BTreeMap<String, Vec<Option<String>>>,
    #[serde(rename = "tls-secret", default)]
    secret: Option<String>,
    #[serde(flatten)]
    limits: Limits,
    #[view(decode)]
    range: Option<(u8, u8)>,
    #[serde(skip)]
    #[expect(dead_code, reason = "neither decoded nor in the view")]
    cached: Option<std::time::Instant>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, View)]
#[serde(rename_all = "lowercase")]
#[view(crate = windlass_views)]
enum Kind {
    Static,
    Dynamic,
}

#[derive(Clone, Debug, Deserialize, View)]
#[view(crate = windlass_views, name = "PageFields")]
struct Page {
    path: String,
    parent: Option<Box<Self>>,
}

#[derive(Clone, Debug, Deserialize, View)]
#[view(crate = windlass_views)]
struct Limits {
    cpu: f64,
}

#[derive(Clone, Debug, Default, Deserialize, View)]
#[view(crate = windlass_views)]
struct WebsiteStatus {
    conditions: Vec<Condition>,
}

const WEBSITE: &[u8] =
    br#"{"metadata": {"name": "web"}, "spec": {"image": "nginx", "maxReplicas": 3, "type": "dynamic",
    "pages": [{"path": "/"}, {"path": "/a", "parent": {"path": "/"}}], "headers": {"x": ["1", null]}, "tls-secret": "s",
    "cpu": 1.5, "range": [1, 9]}}"#;

#[test]
fn derived_view_reads_what_serde_decodes() {
    let website: Website = serde_json::from_slice(WEBSITE).unwrap();
    let document = Document::json(WEBSITE);
    let view = document.view::<Website>();
    assert_eq!(view.metadata().name().as_deref(), website.metadata.name.as_deref());
    let (spec, decoded) = (view.spec(), &website.spec);
    assert!(matches!(spec.image(), Cow::Borrowed(image) if image == decoded.image));
    assert_eq!((spec.max_replicas(), spec.r#type()), (decoded.max_replicas, Some(decoded.r#type)));
    assert_eq!((spec.fallback(), spec.secret().as_deref()), (decoded.fallback, decoded.secret.as_deref()));
    let paths: Vec<_> = spec.pages().iter().map(|page| (page.path(), page.parent().path())).collect();
    assert_eq!(paths, [("/".into(), "".into()), ("/a".into(), "/".into())]);
    let parents: Vec<_> = decoded.pages.iter().map(|page| page.parent.as_ref().map(|parent| &parent.path)).collect();
    assert_eq!((parents[1].unwrap().as_str(), decoded.pages[1].path.as_str()), ("/", "/a"));
    let header: Vec<_> = spec.headers().get("x").unwrap().iter().collect();
    let expected: Vec<_> = decoded.headers["x"].iter().map(|value| value.as_deref().map(Cow::Borrowed)).collect();
    assert_eq!(header, expected);
    assert_eq!((spec.limits().cpu(), spec.range()), (decoded.limits.cpu, decoded.range));
    assert!(view.status().conditions().is_empty() && !view.status().is_present());
    assert!(website.status.unwrap_or_default().conditions.is_empty());
    document.check().unwrap();
}

#[test]
fn unknown_variant_is_an_error() {
    let text = String::from_utf8(WEBSITE.to_vec()).unwrap().replace("dynamic", "odd");
    let document = Document::json(text.as_bytes());
    assert_eq!(document.view::<Website>().spec().r#type(), None);
    let error = document.check().unwrap_err().to_string();
    assert!(error.starts_with("spec.type: unknown variant `odd`"), "{error}");
}

/// A type with a view can be used by generic code.
#[test]
fn derived_types_have_a_view() {
    fn read<K: HasView>(text: &[u8], read: impl for<'a> FnOnce(K::View<'a>) -> bool) -> bool {
        read(Document::json(text).view::<K>())
    }
    assert!(read::<Website>(WEBSITE, |website| website.spec().pages().len() == 2));
    assert!(read::<Option<Page>>(b"null", |page| page.path().is_empty()));
}
