//! Tests with a provider on a local socket.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, task::JoinHandle};
use windlass_api::Clock;

use super::*;
use crate::{
    Config, Kubeconfig,
    auth::Auth,
    credentials::issuer::{Issuer, Source},
    testing::Folder,
};

/// Returns a token that expires at this second.
fn token(end: i64) -> String {
    let claims = BASE64_URL_SAFE_NO_PAD.encode(format!(r#"{{"sub":"jane","exp":{end}}}"#));
    format!("e30.{claims}.c2ln")
}

/// A provider that issues tokens with expiry at second 2000 for `refresh-1`, and that expects the client secret in the
/// form.
struct Provider {
    url: String,
    /// The paths and bodies of the requests.
    seen: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Provider {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let (endpoint, requests) = (format!("{url}/buy?tenant=1"), Arc::clone(&seen));
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (endpoint, requests) = (endpoint.clone(), Arc::clone(&requests));
                let service = service_fn(move |request| {
                    let (endpoint, requests) = (endpoint.clone(), Arc::clone(&requests));
                    async move { Ok::<_, Infallible>(answer(request, &endpoint, &requests).await) }
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service),
                );
            }
        });
        Self { url, seen, task }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(request: http::Request<Incoming>, endpoint: &str, seen: &Mutex<Vec<String>>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    seen.lock().push(format!("{} {body}", head.uri));
    let (status, text) = if head.uri.path().ends_with("/openid-configuration") {
        (200, format!(r#"{{"token_endpoint":"{endpoint}"}}"#))
    } else if body.contains("client_secret=s%26cret") && body.contains("refresh_token=refresh%2D1") {
        (200, format!(r#"{{"id_token":"{}","refresh_token":"refresh-2"}}"#, token(2000)))
    } else {
        (401, String::new())
    };
    Response::builder().status(status).body(text.into()).unwrap()
}

fn config(issuer: &str) -> OidcConfig {
    OidcConfig {
        issuer: issuer.parse().unwrap(),
        client_id: "windlass".to_owned(),
        client_secret: Some("s&cret".into()),
        certificate_authority: None,
        id_token: None,
        refresh_token: Some("refresh-1".into()),
        store: None,
    }
}

fn at(second: i64) -> Clock {
    Clock::from_fn(move || Timestamp::from_second(second).unwrap())
}

async fn header(config: OidcConfig, clock: Clock) -> Result<String, String> {
    let issuer = Issuer::new(Source::Oidc(Oidc::new(config)), clock);
    let credential = issuer.credential().await.map_err(|error| ErrorChain(&error).to_string())?;
    Ok(credential.header.as_ref().unwrap().to_str().unwrap().to_owned())
}

#[tokio::test]
async fn valid_token_is_used_without_refresh() {
    let config = OidcConfig { id_token: Some(token(1000).into()), ..config("http://127.0.0.1:1") };
    assert_eq!(header(config.clone(), at(989)).await.unwrap(), format!("Bearer {}", token(1000)));
    // Ten seconds before its expiry, the token is not used any more.
    let error = header(config, at(990)).await.unwrap_err();
    assert!(error.contains("http://127.0.0.1:1/.well-known/openid-configuration cannot be reached"), "{error}");
}

#[tokio::test]
async fn refreshed_tokens_are_written_to_the_kubeconfig() {
    let provider = Provider::start().await;
    let folder = Folder::new("oidc-store");
    let file = folder.write(
        "config",
        &format!(
            "users:\n- name: jane\n  user:\n    auth-provider:\n      name: oidc\n      config:\n        \
             idp-issuer-url: {}\n        client-id: windlass\n        client-secret: s&cret\n        id-token: {}\n        \
             refresh-token: refresh-1\n        note: kept\ncurrent-context: c\ncontexts:\n- name: c\n  context:\n    \
             cluster: k\n    user: jane\nclusters:\n- name: k\n  cluster:\n    server: https://h\n",
            provider.url,
            token(1000)
        ),
    );
    let Auth::Oidc(config) = Config::from_file(&file).unwrap().auth else { panic!("an auth-provider") };
    assert_eq!(header(*config, at(1500)).await.unwrap(), format!("Bearer {}", token(2000)));
    let seen = provider.seen.lock().clone();
    assert_eq!(seen[0], "/.well-known/openid-configuration ");
    assert_eq!(
        seen[2],
        "/buy?tenant=1 grant_type=refresh%5Ftoken&refresh_token=refresh%2D1&client_id=windlass&client_secret=s%26cret"
    );
    let written = Kubeconfig::read(&file).unwrap();
    let settings = &written.users[0].entry.auth_provider.as_ref().unwrap().config;
    assert_eq!(settings["id-token"].expose(), token(2000));
    assert_eq!((settings["refresh-token"].expose(), settings["note"].expose()), ("refresh-2", "kept"));
}

#[tokio::test]
async fn refresh_errors_contain_no_secrets() {
    let provider = Provider::start().await;
    let good = config(&provider.url);
    let endpoint = format!("{}/buy?tenant=1 answered 401", provider.url);
    for (config, expected) in [
        (OidcConfig { refresh_token: None, ..good.clone() }, "log in again"),
        (OidcConfig { id_token: Some("s3cret".into()), ..good.clone() }, "not a JSON web token"),
        (OidcConfig { refresh_token: Some("s3cret".into()), ..good.clone() }, &*endpoint),
    ] {
        let shown = format!("{config:?}");
        let error = header(config, at(1500)).await.unwrap_err();
        assert!(error.starts_with(&format!("the provider {}/ returned no token: ", provider.url)), "{error}");
        assert!(error.contains(expected), "{error}\nwant {expected}");
        assert!(!error.contains("s3cret") && !shown.contains("s3cret") && !shown.contains("s&cret"), "{error} {shown}");
    }
}

#[tokio::test]
async fn a_token_that_the_server_refuses_is_replaced() {
    let provider = Provider::start().await;
    let config = OidcConfig { id_token: Some(token(1900).into()), ..config(&provider.url) };
    let issuer = Issuer::new(Source::Oidc(Oidc::new(config)), at(1500));
    let first = issuer.credential().await.unwrap();
    assert!(provider.seen.lock().is_empty());
    let second = issuer.after_refusal(&first).await.unwrap();
    assert_eq!(second.header.as_ref().unwrap().to_str().unwrap(), format!("Bearer {}", token(2000)));
}
