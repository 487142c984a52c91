//! A KMS plugin for tests, in the process or behind a Unix socket. It has no security: a key is encrypted by inverting
//! some of its bits, after the id of the plugin's key. `tools/encryption` has the same one.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures::FutureExt as _;
use parking_lot::Mutex;
use prost::Message;
use tokio::{net::UnixListener, sync::watch, task::JoinSet};
use windlass_grpc::{Status, code, decode, frame, testing};

use super::super::{
    messages::{DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, StatusRequest, StatusResponse},
    service::{Answer, Service},
};

/// The annotation of every encrypted key. The plugin cannot decrypt one without it.
const ANNOTATION: (&str, &[u8]) = ("local-kek.kms.example", b"1");

/// The key of the plugin, and its answers.
#[derive(Clone, Debug)]
pub(in crate::encryption) struct Answers {
    pub(in crate::encryption) version: String,
    pub(in crate::encryption) healthz: String,
    /// The current key.
    pub(in crate::encryption) key_id: String,
    /// The id that a response to Encrypt has instead.
    pub(in crate::encryption) encrypted_by: Option<String>,
    /// Changes the responses to Encrypt.
    pub(super) encrypted: fn(&mut EncryptResponse),
    /// The method that fails, and its message.
    pub(in crate::encryption) failing: Option<(&'static str, &'static str)>,
    /// The method that does not return while this is set.
    pub(in crate::encryption) hanging: Option<&'static str>,
}

/// A plugin. Clones have the same state.
#[derive(Clone, Debug)]
pub(in crate::encryption) struct Plugin {
    state: Arc<watch::Sender<Answers>>,
    calls: Arc<Mutex<Vec<&'static str>>>,
}

/// A plugin behind a socket, until it is dropped.
pub(in crate::encryption) struct Served {
    path: PathBuf,
    _task: JoinSet<()>,
}

impl Plugin {
    pub(in crate::encryption) fn new() -> Self {
        let answers = Answers {
            version: "v2".into(),
            healthz: "ok".into(),
            key_id: "key-1".into(),
            encrypted_by: None,
            encrypted: |_| {},
            failing: None,
            hanging: None,
        };
        Self { state: Arc::new(watch::Sender::new(answers)), calls: Arc::default() }
    }

    pub(in crate::encryption) fn set(&self, change: impl FnOnce(&mut Answers)) {
        self.state.send_modify(change);
    }

    /// Returns the number of calls of a method.
    pub(in crate::encryption) fn count(&self, method: &str) -> usize {
        self.calls.lock().iter().filter(|call| **call == method).count()
    }

    /// Serves the plugin on a socket.
    pub(in crate::encryption) fn serve(&self, path: &Path) -> Served {
        // That of an earlier run.
        let _ = std::fs::remove_file(path);
        self.accept(UnixListener::bind(path).unwrap(), path.to_owned())
    }

    /// Serves the plugin on an abstract socket of Linux.
    #[cfg(target_os = "linux")]
    pub(super) fn serve_abstract(&self, name: &str) -> Served {
        use std::os::{linux::net::SocketAddrExt as _, unix::net};

        let address = net::SocketAddr::from_abstract_name(name).unwrap();
        let listener = net::UnixListener::bind_addr(&address).unwrap();
        listener.set_nonblocking(true).unwrap();
        self.accept(UnixListener::from_std(listener).unwrap(), PathBuf::from(format!("/@{name}")))
    }

    fn accept(&self, listener: UnixListener, path: PathBuf) -> Served {
        let plugin = self.clone();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let plugin = plugin.clone();
                connections.spawn(testing::serve_connection(stream, move |path: String, request: Bytes| {
                    let plugin = plugin.clone();
                    async move { plugin.answer(&path, request).await }
                }));
            }
        });
        Served { path, _task: task }
    }

    async fn answer(&self, path: &str, request: Bytes) -> Result<Bytes, Status> {
        let unknown = |message: String| Status { code: code::UNKNOWN, message };
        match path {
            "/v2.KeyManagementService/Status" => respond(self.status(decode(request).unwrap())).await,
            "/v2.KeyManagementService/Encrypt" => respond(self.encrypt(decode(request).unwrap())).await,
            "/v2.KeyManagementService/Decrypt" => respond(self.decrypt(decode(request).unwrap())).await,
            other => Err(format!("no method {other}")),
        }
        .map_err(unknown)
    }

    /// Records a call, and returns the answers for it.
    async fn call(&self, method: &'static str) -> Result<Answers, String> {
        self.calls.lock().push(method);
        let mut state = self.state.subscribe();
        let answers = state.wait_for(|answers| answers.hanging != Some(method)).await.unwrap().clone();
        match answers.failing {
            Some((failing, message)) if failing == method => Err(message.to_owned()),
            _ => Ok(answers),
        }
    }
}

impl Served {
    pub(in crate::encryption) fn endpoint(&self) -> String {
        format!("unix://{}", self.path.display())
    }
}

async fn respond<M: Message>(answer: Answer<'_, M>) -> Result<Bytes, String> {
    answer.await.map(|message| frame(&message))
}

fn inverted(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| byte ^ 0x5a).collect()
}

impl Service for Plugin {
    fn timeout(&self) -> Duration {
        Duration::from_secs(3)
    }

    fn status(&self, _: StatusRequest) -> Answer<'_, StatusResponse> {
        async {
            let Answers { version, healthz, key_id, .. } = self.call("Status").await?;
            Ok(StatusResponse { version, healthz, key_id })
        }
        .boxed()
    }

    fn encrypt(&self, request: EncryptRequest) -> Answer<'_, EncryptResponse> {
        async move {
            let Answers { key_id, encrypted_by, encrypted, .. } = self.call("Encrypt").await?;
            let (name, value) = ANNOTATION;
            let ciphertext = [key_id.as_bytes(), b":", &*inverted(&request.plaintext)].concat();
            let mut response = EncryptResponse {
                ciphertext: ciphertext.into(),
                key_id: encrypted_by.unwrap_or(key_id),
                annotations: BTreeMap::from([(name.to_owned(), value.to_vec())]),
            };
            encrypted(&mut response);
            Ok(response)
        }
        .boxed()
    }

    fn decrypt(&self, request: DecryptRequest) -> Answer<'_, DecryptResponse> {
        async move {
            self.call("Decrypt").await?;
            let DecryptRequest { ciphertext, key_id, annotations, .. } = request;
            let (name, value) = ANNOTATION;
            let sealed = ciphertext.strip_prefix(format!("{key_id}:").as_bytes());
            let sealed = sealed.filter(|_| annotations.get(name).is_some_and(|found| found == value));
            let sealed = sealed.ok_or("this key was encrypted by another plugin")?;
            Ok(DecryptResponse { plaintext: inverted(sealed) })
        }
        .boxed()
    }
}
