use std::time::Duration;

use http::Response;

use super::*;
use crate::{
    Config,
    auth::{IssuedToken, TokenSource},
    testing::{Fake, Folder},
};

fn authenticated(
    fake: &Fake,
    auth: Auth,
) -> Authenticated<
    impl Service<Request<Body>, Response = Response<Body>, Error = BoxError, Future: Send> + Clone + Send + 'static,
> {
    let config = Config::new("https://h".parse().unwrap()).with_auth(auth);
    let inner = crate::transport::erase(fake.clone());
    let credentials = Credentials::new(&config.auth, &config.clock, &MetricsRecorder::default()).unwrap();
    Authenticated::new(inner, credentials, None).unwrap()
}

async fn sent_header(auth: Auth) -> Option<String> {
    let fake = Fake::json("{}");
    authenticated(&fake, auth).oneshot(Request::new(Body::empty())).await.unwrap();
    fake.last().headers().get("authorization").map(|value| value.to_str().unwrap().to_owned())
}

#[tokio::test]
async fn each_kind_of_credentials_has_its_header() {
    assert_eq!(sent_header(Auth::None).await, None);
    assert_eq!(sent_header(Auth::Bearer("t".into())).await.as_deref(), Some("Bearer t"));
    let basic = Auth::Basic { username: "Aladdin".to_owned(), password: "open sesame".into() };
    assert_eq!(sent_header(basic).await.as_deref(), Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="));
}

#[tokio::test]
async fn a_header_that_the_caller_has_set_wins() {
    let fake = Fake::json("{}");
    let request = Request::get("/").header("authorization", "Bearer mine").body(Body::empty()).unwrap();
    authenticated(&fake, Auth::Bearer("t".into())).oneshot(request).await.unwrap();
    assert_eq!(fake.last().headers()["authorization"], "Bearer mine");
}

#[test]
fn invalid_token_is_rejected_and_not_shown() {
    let config = Config::new("https://h".parse().unwrap()).with_auth(Auth::Bearer("geh\neim".into()));
    let error = Credentials::new(&config.auth, &config.clock, &MetricsRecorder::default()).unwrap_err();
    assert!(!format!("{error} {error:?} {config:?}").contains("eim"));
}

#[tokio::test(start_paused = true)]
async fn a_token_file_is_read_again_after_a_minute() {
    let folder = Folder::new("token-minute");
    let path = folder.write("token", "one\n");
    let fake = Fake::json("{}");
    let service = authenticated(&fake, Auth::TokenFile(path));
    let header = async || {
        service.clone().oneshot(Request::new(Body::empty())).await.unwrap();
        fake.last().headers()["authorization"].to_str().unwrap().to_owned()
    };
    assert_eq!(header().await, "Bearer one");
    folder.write("token", "two");
    tokio::time::advance(Duration::from_secs(49)).await;
    assert_eq!(header().await, "Bearer one");
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(header().await, "Bearer two");
    // While the file is empty or missing, the last token remains in use.
    folder.write("token", "");
    tokio::time::advance(Duration::from_mins(1)).await;
    assert_eq!(header().await, "Bearer two");
}

/// Returns a server that accepts one token.
fn accepting(token: &'static str) -> Fake {
    Fake::new(move |request| {
        let ok = request.headers().get("authorization").is_some_and(|value| value == token);
        Response::builder().status(if ok { 200 } else { 401 }).body(Body::empty()).unwrap()
    })
}

#[tokio::test]
async fn rejected_token_is_reread_and_request_retried_once() {
    let folder = Folder::new("token-refused");
    let path = folder.write("token", "old");
    let fake = accepting("Bearer new");
    let service = authenticated(&fake, Auth::TokenFile(path));
    let call = async |body: Body| {
        let request = Request::post("/x").body(body).unwrap();
        service.clone().oneshot(request).await.unwrap().status()
    };
    // The file still contains the same token, so the request is not repeated.
    assert_eq!(call("a".into()).await, 401);
    assert_eq!(fake.seen().len(), 1);
    folder.write("token", "new");
    assert_eq!(call("b".into()).await, 200);
    assert_eq!(fake.seen().len(), 3);
    assert_eq!(fake.last().body(), "b");
}

#[tokio::test]
async fn unrepeatable_request_leaves_new_token_for_the_next() {
    let folder = Folder::new("token-stream");
    let path = folder.write("token", "old");
    let fake = accepting("Bearer new");
    let service = authenticated(&fake, Auth::TokenFile(path));
    service.clone().oneshot(Request::new(Body::empty())).await.unwrap();
    folder.write("token", "new");
    let stream = || crate::testing::chunks(vec!["a"], crate::testing::End::Clean);
    assert_eq!(service.clone().oneshot(Request::new(stream())).await.unwrap().status(), 401);
    assert_eq!(service.clone().oneshot(Request::new(stream())).await.unwrap().status(), 200);
}

#[tokio::test]
async fn caller_can_impersonate_a_user() {
    let fake = Fake::json("{}");
    let config =
        Config::new("https://h".parse().unwrap()).with_impersonation(Impersonation::user("jane").in_group("g"));
    let service =
        Authenticated::new(crate::transport::erase(fake.clone()), Credentials::None, config.impersonation.as_ref())
            .unwrap();
    service.clone().oneshot(Request::new(Body::empty())).await.unwrap();
    let headers = fake.last().headers().clone();
    assert_eq!(
        (&headers["impersonate-user"], &headers["impersonate-group"]),
        (&"jane".parse().unwrap(), &"g".parse().unwrap())
    );
    // Unless the request already impersonates a user.
    let request = Request::get("/").header("impersonate-user", "joe").body(Body::empty()).unwrap();
    service.oneshot(request).await.unwrap();
    assert_eq!(fake.last().headers()["impersonate-user"], "joe");
    assert!(!fake.last().headers().contains_key("impersonate-group"));
}

#[tokio::test]
async fn missing_token_file_is_named_in_the_error() {
    let fake = Fake::json("{}");
    let service = authenticated(&fake, Auth::TokenFile("/no/such/token".into()));
    let error = service.oneshot(Request::new(Body::empty())).await.unwrap_err();
    assert_eq!(error.to_string(), "reading the token file /no/such/token");
    assert!(fake.seen().is_empty());
}

#[tokio::test]
async fn token_source_is_called_if_no_token_is_valid() {
    let now: jiff::Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
    let asked = Arc::new(parking_lot::Mutex::new(0_u32));
    let source = TokenSource::new({
        let asked = Arc::clone(&asked);
        move || {
            let number = {
                let mut asked = asked.lock();
                *asked += 1;
                *asked
            };
            async move {
                match number {
                    1 => Ok(IssuedToken { token: "expired".into(), expires: Some("2029-12-31T00:00:00Z".parse()?) }),
                    2 | 3 => Ok(IssuedToken { token: format!("token-{number}").into(), expires: None }),
                    _ => Err("the cloud is closed".into()),
                }
            }
        }
    });
    let credentials =
        Credentials::new(&Auth::Source(source), &Clock::from_fn(move || now), &MetricsRecorder::default());
    let service = |fake: &Fake| {
        Authenticated::new(crate::transport::erase(fake.clone()), credentials.as_ref().unwrap().clone(), None).unwrap()
    };
    let send = async |fake: &Fake| service(fake).oneshot(Request::new(Body::empty())).await.unwrap().status().as_u16();

    let any = Fake::json("{}");
    for (token, times) in [("Bearer expired", 1), ("Bearer token-2", 2), ("Bearer token-2", 2)] {
        assert_eq!(send(&any).await, 200);
        assert_eq!((any.last().headers()["authorization"].to_str().unwrap(), *asked.lock()), (token, times));
    }
    // A rejected token is replaced. If there is no other token, the rejection is returned.
    assert_eq!((send(&accepting("Bearer token-3")).await, *asked.lock()), (200, 3));
    assert_eq!((send(&accepting("Bearer token-4")).await, *asked.lock()), (401, 4));
}
