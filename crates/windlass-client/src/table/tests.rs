use futures::TryStreamExt as _;
use http::Response;
use windlass_api::GroupVersionKind;

use super::*;
use crate::testing::{End, Fake, chunks};

const PODS: &str = r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"7"},
  "columnDefinitions":[{"name":"Name","type":"string","format":"name","description":"d","priority":0},
    {"name":"Ready","type":"string","format":"","description":"","priority":0},
    {"name":"Age","type":"string","format":"","description":"","priority":0},
    {"name":"Node","type":"string","format":"","description":"","priority":1}],
  "rows":[
    {"cells":["web-0","1/1",null,"node-1"],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",
      "metadata":{"name":"web-0","namespace":"shop","labels":{"app":"web","tier":"front"}}}},
    {"cells":["a-much-longer-name","0/1","two\nlines",3],"object":{"metadata":{"name":"a-much-longer-name"}}}]}"#;

fn pods() -> ApiResource {
    ApiResource::namespaced(GroupVersionKind::new("", "v1", "Pod"), "pods")
}

fn table() -> Table {
    serde_json::from_str(PODS).unwrap()
}

#[tokio::test]
async fn table_is_requested_with_the_accept_header() {
    let fake = Fake::json(PODS);
    let client = fake.client();
    let table = client.table(&pods()).await.unwrap();
    assert_eq!((table.rows.len(), table.metadata.resource_version.as_u64()), (2, Some(7)));
    let accept = fake.last().headers()["accept"].to_str().unwrap().to_owned();
    assert!(accept.starts_with("application/json;as=Table;v=v1;g=meta.k8s.io"), "{accept}");
    client.table(&pods()).within("a").labels("x=y").fields("f=g").limit(3).continue_from("t").await.unwrap();
    client.table(&pods()).within("a").named("p").await.unwrap();
    assert_eq!(
        fake.seen(),
        [
            "GET /api/v1/pods",
            "GET /api/v1/namespaces/a/pods?labelSelector=x%3Dy&fieldSelector=f%3Dg&limit=3&continue=t",
            "GET /api/v1/namespaces/a/pods/p",
        ]
    );
}

#[tokio::test]
async fn rows_can_come_with_whole_objects_and_tables_of_a_part() {
    let fake = Fake::json(
        r#"{"columnDefinitions":[],"rows":[{"cells":[],"object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{"n":1}}}]}"#,
    );
    let client = fake.client();
    let table = client.table(&pods()).limit(1).with_objects().await.unwrap();
    assert_eq!(table.rows[0].object.data["spec"]["n"], 1);
    client.table(&pods()).within("a").named("p").subresource("status").with_objects().await.unwrap();
    assert_eq!(
        fake.seen(),
        [
            "GET /api/v1/pods?limit=1&includeObject=Object",
            "GET /api/v1/namespaces/a/pods/p/status?includeObject=Object",
        ]
    );
}

#[test]
fn text_is_laid_out_as_kubectl_does_it() {
    assert_eq!(
        TableWriter::new().write(&table()),
        "NAME                 READY   AGE\n\
         web-0                1/1     \n\
         a-much-longer-name   0/1     two...\n"
    );
    assert_eq!(
        TableWriter::new().columns(Columns::Wide).headers(Headers::Hidden).prefix("pod/").write(&table()),
        "pod/web-0                1/1            node-1\n\
         pod/a-much-longer-name   0/1   two...   3\n"
    );
    assert_eq!(
        TableWriter::new()
            .with_namespaces()
            .with_label_column("x.io/app")
            .with_label_column("app")
            .with_labels()
            .write(&table()),
        "NAMESPACE   NAME                 READY   AGE      APP      APP      LABELS\n\
         shop        web-0                1/1              <none>   web      app=web,tier=front\n            a-much-longer-name   0/1     two...   <none>   <none>   <none>\n"
    );
}

#[test]
fn control_characters_in_cells_are_escaped() {
    let mut table = table();
    table.rows.truncate(1);
    table.rows[0].cells[0] = "\u{1b}[31mred".into();
    assert!(TableWriter::new().write(&table).contains("\n^[[31mred"));
}

#[tokio::test]
async fn watched_rows_are_aligned_below_one_header() {
    let event = |cells: &str, columns: &str| {
        let text = format!(
            r#"{{"type":"ADDED","object":{{"kind":"Table","columnDefinitions":{columns},"rows":[{{"cells":{cells},"object":{{"metadata":{{}}}}}}]}}}}"#
        );
        &*(text + "\n").leak()
    };
    let columns = r#"[{"name":"Name","type":"string"},{"name":"Age","type":"string"}]"#;
    let events = vec![event(r#"["longer-name","1s"]"#, columns), event(r#"["b","2s"]"#, "null")];
    let fake = Fake::new(move |_| Response::new(chunks(events.clone(), End::Clean)));
    let events = fake.client().table(&pods()).named("b").fields("x=y").watch("5").await.unwrap();
    let mut writer = TableWriter::new();
    let text: Vec<String> = events.map_ok(|event| writer.write(&event.table)).try_collect().await.unwrap();
    assert_eq!(text.concat(), "NAME          AGE\nlonger-name   1s\nb             2s\n");
    let line = &fake.seen()[0];
    assert!(line.contains("watch=true") && line.contains("fieldSelector=x%3Dy%2Cmetadata.name%3Db"), "{line}");
}

#[tokio::test]
async fn an_error_in_a_watch_is_an_error() {
    let fake =
        Fake::json(r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"old"}}"#);
    let events = fake.client().table(&pods()).watch("5").await.unwrap();
    let error = events.try_collect::<Vec<_>>().await.unwrap_err();
    assert!(error.is_expired(), "{error}");
}
