use std::collections::VecDeque;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Method, Request, Response};
use http_body_util::StreamBody;
use jiff::SignedDuration;
use rustls::pki_types::{CertificateSigningRequestDer, pem::PemObject as _};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;
use crate::{
    body::Body,
    certificates::{CertificateAuthority, Leaf, MemoryStore, Usage, Validity},
    connection_options::{Identity, Pem},
    testing::Fake,
};

const LIFETIME: Duration = Duration::from_hours(24);
const SIGNER: &str = "example.com/signer";

/// The outcome of a request.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Signed,
    /// Signed after the requester has seen it as pending.
    SignedLater,
    /// Signed for another key.
    SignedWrongly,
    Denied,
    Failed,
    Deleted,
    Ignored,
    /// Rejected on creation.
    Forbidden,
}

/// A cluster that signs certificates and records the requests with their times.
#[derive(Clone)]
struct Cluster(Arc<Inner>);

struct Inner {
    authority: CertificateAuthority,
    began: Instant,
    /// The outcomes of the next requests; the last one applies to all later ones.
    fates: Mutex<VecDeque<Fate>>,
    asked: Mutex<Vec<(Duration, CertificateSigningRequest)>>,
}

impl Cluster {
    fn new(fates: impl IntoIterator<Item = Fate>) -> Self {
        let forever = Validity { from: start(), until: start() + SignedDuration::from_hours(100_000) };
        Self(Arc::new(Inner {
            authority: CertificateAuthority::self_signed("cluster", forever).unwrap(),
            began: Instant::now(),
            fates: Mutex::new(fates.into_iter().collect()),
            asked: Mutex::default(),
        }))
    }

    fn clock(&self) -> Clock {
        let began = self.0.began;
        Clock::from_fn(move || start() + began.elapsed())
    }

    fn validity(&self) -> Validity {
        let now = self.clock().now();
        Validity { from: now, until: now + LIFETIME }
    }

    fn client(&self) -> Client {
        let cluster = self.clone();
        Fake::new(move |request| cluster.answer(request)).client()
    }

    fn manager(&self, store: impl CertificateStore) -> CertificateManager {
        CertificateManager::new(self.client(), wanted(), store)
            .unwrap()
            .with_clock(self.clock())
            .with_entropy(Entropy::seeded(7))
    }

    /// Returns the times of the requests since the start.
    fn times(&self) -> Vec<Duration> {
        self.0.asked.lock().iter().map(|(time, _)| *time).collect()
    }

    fn answer(&self, request: &Request<Bytes>) -> Response<Body> {
        if request.method() == Method::POST {
            return self.take(request.body());
        }
        let (number, asked) = {
            let asked = self.0.asked.lock();
            (asked.len(), asked.last().unwrap().1.clone())
        };
        assert!(request.uri().query().unwrap().contains(&format!("metadata.name%3Dcsr-{number}")));
        let fate = self.fate();
        if request.uri().query().unwrap().contains("watch") {
            let event = json!({"type": "MODIFIED", "object": self.decided(asked, fate)});
            let event = matches!(fate, Fate::SignedLater)
                .then(|| Ok::<_, std::io::Error>(http_body::Frame::data(Bytes::from(format!("{event}\n")))));
            let events = futures::stream::iter(event).chain(futures::stream::pending());
            return Response::new(Body::wrap(StreamBody::new(events)));
        }
        let items = match fate {
            Fate::Deleted => vec![],
            Fate::SignedLater | Fate::Ignored => vec![json!(asked)],
            _ => vec![self.decided(asked, fate)],
        };
        let list = json!({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": items});
        Response::new(list.to_string().into())
    }

    fn take(&self, body: &Bytes) -> Response<Body> {
        let mut asked: CertificateSigningRequest = serde_json::from_slice(body).unwrap();
        let mut all = self.0.asked.lock();
        if !all.is_empty() && self.0.fates.lock().len() > 1 {
            self.0.fates.lock().pop_front();
        }
        asked.metadata.name = Some(format!("csr-{}", all.len() + 1));
        asked.metadata.uid = asked.metadata.name.clone();
        all.push((self.0.began.elapsed(), asked.clone()));
        match self.fate() {
            Fate::Forbidden => Response::builder().status(403).body(Body::empty()).unwrap(),
            _ => Response::new(json!(asked).to_string().into()),
        }
    }

    fn fate(&self) -> Fate {
        *self.0.fates.lock().front().unwrap()
    }

    fn decided(&self, asked: CertificateSigningRequest, fate: Fate) -> Value {
        let request = CertificateSigningRequestDer::from_pem_slice(&asked.spec.request.0).unwrap();
        let condition = match fate {
            Fate::Denied => "Denied",
            Fate::Failed => "Failed",
            _ => "Approved",
        };
        let mut decided = json!(asked);
        decided["metadata"]["resourceVersion"] = json!("2");
        decided["status"]["conditions"] = json!([{"type": condition, "status": "True", "message": "it is so"}]);
        let certificate = match fate {
            Fate::Signed | Fate::SignedLater => {
                self.0.authority.sign(&request, &[Usage::ClientAuth], self.validity()).unwrap()
            }
            Fate::SignedWrongly => {
                self.0.authority.issue(&Leaf::client("jane"), self.validity()).unwrap().certificate().clone()
            }
            _ => return decided,
        };
        decided["status"]["certificate"] = json!(ByteString(certificate.to_pem().into()));
        decided
    }
}

fn start() -> Timestamp {
    "2030-01-01T00:00:00Z".parse().unwrap()
}

fn wanted() -> CertificateRequest {
    let mut wanted = CertificateRequest::client(SIGNER, "jane");
    wanted.lifetime = Some(LIFETIME);
    wanted
}

/// Runs the manager for a time.
async fn run_for(manager: CertificateManager, time: Duration) {
    assert!(tokio::time::timeout(time, manager.run()).await.is_err());
}

/// Waits for a certificate that differs from `known`.
async fn in_use(live: &LiveIdentity, known: Option<&Arc<Identity>>) -> Arc<Identity> {
    tokio::time::timeout(LIFETIME, live.other_than(known)).await.expect("there is another")
}

#[tokio::test(start_paused = true)]
async fn certificate_is_requested_once_stored_and_used() {
    for fate in [Fate::Signed, Fate::SignedLater] {
        let cluster = Cluster::new([fate]);
        let store = Arc::new(MemoryStore::default());
        let manager = cluster.manager(Shared(Arc::clone(&store)));
        let live = manager.live();
        assert!(live.current().is_none());
        let ran = tokio::spawn(run_for(manager, Duration::from_hours(1)));
        let used = in_use(&live, None).await;
        ran.await.unwrap();
        let kept = store.load().unwrap().unwrap();
        assert_eq!((*used).clone(), kept.identity());
        assert!(wanted().is_met_by(kept.certificate()));
        assert_eq!(cluster.times().len(), 1, "{fate:?}");
        let asked = &cluster.0.asked.lock()[0].1;
        assert_eq!((&*asked.spec.signer_name, asked.spec.expiration_seconds), (SIGNER, Some(86_400)));
        assert_eq!(asked.spec.usages.as_deref().unwrap(), ["digital signature", "client auth"]);
        assert_eq!(asked.metadata.generate_name.as_deref(), Some("csr-"));
    }
}

#[tokio::test(start_paused = true)]
async fn certificate_is_renewed_at_70_to_90_percent_of_its_time() {
    let cluster = Cluster::new([Fate::Signed]);
    run_for(cluster.manager(MemoryStore::default()), 20 * LIFETIME).await;
    let times = cluster.times();
    let parts: Vec<_> =
        times.windows(2).map(|pair| pair[1].abs_diff(pair[0]).as_secs_f64() / LIFETIME.as_secs_f64()).collect();
    assert!(parts.len() >= 20, "{parts:?}");
    assert!(parts.iter().all(|part| (0.699..0.901).contains(part)), "{parts:?}");
    let (least, most) = parts.iter().fold((1.0_f64, 0.0_f64), |(least, most), &part| (least.min(part), most.max(part)));
    assert!(most - least > 0.1, "not all at once: {parts:?}");
}

#[tokio::test(start_paused = true)]
async fn stored_certificate_is_used_until_renewal() {
    let cluster = Cluster::new([Fate::Signed]);
    let store = Arc::new(MemoryStore::default());
    run_for(cluster.manager(Shared(Arc::clone(&store))), Duration::from_hours(1)).await;
    let kept = store.load().unwrap().unwrap();
    // The program restarts.
    let manager = cluster.manager(Shared(Arc::clone(&store)));
    assert_eq!(*manager.live().current().unwrap(), kept.identity());
    run_for(manager, Duration::from_hours(10)).await;
    assert_eq!(cluster.times().len(), 1);
    // The same with an expired certificate.
    tokio::time::advance(LIFETIME).await;
    run_for(cluster.manager(Shared(store)), Duration::from_secs(1)).await;
    assert_eq!(cluster.times().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn bootstrap_certificate_is_used_until_the_first_issue() {
    let cluster = Cluster::new([Fate::Forbidden, Fate::Signed]);
    let bootstrap = cluster.0.authority.issue(&Leaf::client("jane"), cluster.validity()).unwrap();
    let manager = cluster.manager(MemoryStore::default()).with_bootstrap(&bootstrap);
    let live = manager.live();
    let first = live.current().unwrap();
    assert_eq!(*first, bootstrap.identity());
    let ran = tokio::spawn(run_for(manager, Duration::from_mins(1)));
    let next = in_use(&live, Some(&first)).await;
    assert_ne!(next, first);
    ran.await.unwrap();
    assert_eq!(cluster.times().len(), 2, "it is replaced at the first opportunity");
}

#[tokio::test(start_paused = true)]
async fn failed_requests_are_retried_with_back_off() {
    use Fate::{Deleted, Denied, Failed, Forbidden, Signed, SignedWrongly};
    let cluster = Cluster::new([Forbidden, Denied, Failed, Deleted, SignedWrongly, Forbidden, Forbidden, Signed]);
    run_for(cluster.manager(MemoryStore::default()), Duration::from_mins(10)).await;
    let gaps: Vec<_> = cluster.times().windows(2).map(|pair| pair[1].abs_diff(pair[0]).as_secs_f64()).collect();
    assert_eq!(gaps.len(), 7);
    for (gap, expected) in gaps.iter().zip([2.0, 4.0, 8.0, 16.0, 32.0, 32.0, 32.0]) {
        assert!((expected..=expected * 1.1 + 0.01).contains(gap), "{gaps:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn error_reports_the_outcome_of_the_request() {
    for (fate, expected) in [
        (Fate::Denied, r#"the certificate signing request "csr-1" was not granted: Denied: it is so"#),
        (Fate::Failed, r#"the certificate signing request "csr-1" was not granted: Failed: it is so"#),
        (Fate::Deleted, r#"the certificate signing request "csr-1" was deleted"#),
        (Fate::SignedWrongly, "the key does not match the certificate"),
        (Fate::Ignored, r#"watch certificatesigningrequests.certificates.k8s.io "csr-1": timed out after 900s"#),
    ] {
        let cluster = Cluster::new([fate]);
        let manager = cluster.manager(MemoryStore::default());
        assert_eq!(manager.renew().await.unwrap_err().to_string(), expected);
        assert!(manager.live().current().is_none());
    }
    let forbidden = Cluster::new([Fate::Forbidden]).manager(MemoryStore::default()).renew().await.unwrap_err();
    assert!(matches!(&forbidden, CertificateError::Request(error) if error.is_forbidden()), "{forbidden}");
}

#[tokio::test(start_paused = true)]
async fn template_change_applies_during_pending_request() {
    let cluster = Cluster::new([Fate::Signed, Fate::Ignored, Fate::Signed]);
    let (wish, wishes) = watch::channel(wanted());
    let manager = cluster.manager(MemoryStore::default()).following(wishes);
    let live = manager.live();
    let ran = tokio::spawn(run_for(manager, Duration::from_hours(1)));
    let first = in_use(&live, None).await;
    for name in ["node-1.example.com", "node-2.example.com"] {
        tokio::time::sleep(Duration::from_secs(10)).await;
        wish.send_modify(|wanted| wanted.names = vec![name.to_owned()]);
    }
    let second = in_use(&live, Some(&first)).await;
    let Pem::Data(pem) = &second.certificate else { panic!("{second:?}") };
    let second = Certificate::from_pem(&String::from_utf8_lossy(pem)).unwrap();
    assert_eq!(second.names, ["node-2.example.com"]);
    let seconds: Vec<_> = cluster.times().iter().map(Duration::as_secs).collect();
    assert_eq!(seconds, [0, 10, 20]);
    // The existing certificate satisfies a smaller request.
    wish.send_modify(|wanted| wanted.names.clear());
    ran.await.unwrap();
    assert_eq!(cluster.times().len(), 3);
}

/// A store that is shared with a test.
#[derive(Debug)]
struct Shared(Arc<MemoryStore>);

impl CertificateStore for Shared {
    fn load(&self) -> Result<Option<KeyedCertificate>, CertificateError> {
        self.0.load()
    }

    fn save(&self, keyed: &KeyedCertificate) -> Result<(), CertificateError> {
        self.0.save(keyed)
    }
}
