//! The directory of a control plane that outlasts its process: its objects, and the secrets by which clients know it.
//!
//! ```text
//! DIR/storage/             the objects and their history
//! DIR/pki/ca.crt, ca.key   the CA of the serving certificate, which is issued anew at each start and before it expires
//! DIR/pki/client-ca.pem     the CA of the client certificates that the controllers issue, with its key
//! DIR/pki/front-proxy-ca.*  the CA of the certificate that the server presents to extension API servers
//! DIR/pki/accounts.key     the key that signs the tokens of service accounts
//! DIR/pki/admin.token      the bearer token of the administrator
//! ```
//!
//! Kubeconfigs and the tokens of service accounts stay valid over a restart. Secrets are readable by their owner only.

use std::{
    error::Error,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use windlass_api::{Clock, Entropy};
use windlass_server::{CertificateRenewal, ProxyIdentity, TlsIdentity, TokenIssuer, storage::Storage};
use windlass_storage::{
    DiskStorage, EtcdSnapshot, Options, Retention,
    import::{self, Imported},
};

/// The directory of a control plane.
#[derive(Clone, Debug)]
pub(crate) struct Data {
    pub(crate) path: PathBuf,
    /// The time for which watches and lists can continue from an older resource version.
    pub(crate) history: Duration,
    /// A snapshot of etcd. The directory must have no storage yet, and gets its objects.
    pub(crate) import: Option<PathBuf>,
}

/// The secrets by which the clients of a control plane know it.
#[derive(Debug)]
pub(crate) struct Secrets {
    pub(crate) tls: TlsIdentity,
    pub(crate) issuer: TokenIssuer,
    pub(crate) token: String,
    /// The identity at extension API servers, with its CA in PEM.
    pub(crate) proxy: Option<(ProxyIdentity, String)>,
    /// The renewal of both certificates.
    pub(crate) renewal: CertificateRenewal,
}

/// The prefix of the keys that kube-apiserver writes to etcd.
const REGISTRY: &str = "/registry/";

impl Data {
    /// Returns a directory with the default history.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path, history: Retention::default().age, import: None }
    }

    /// Opens the storage in the directory, or creates it. No other process can open it meanwhile.
    ///
    /// Blocks on the file system.
    pub(crate) fn open(&self) -> Result<Arc<dyn Storage>, Box<dyn Error + Send + Sync>> {
        let path = &self.path;
        create(path).map_err(|error| format!("creating {}: {error}", path.display()))?;
        let storage = storage(path);
        create(&storage).map_err(|error| format!("creating {}: {error}", storage.display()))?;
        if let Some(snapshot) = &self.import {
            let Imported { contents, skipped } = import::from_etcd(&EtcdSnapshot::open(snapshot)?, REGISTRY, &storage)?;
            let (objects, file) = (contents.keys, snapshot.display());
            tracing::info!(objects, revision = %contents.revision, skipped, %file, "the snapshot of etcd is imported");
        }
        let retention = Retention { age: self.history, ..Retention::default() };
        Ok(Arc::new(DiskStorage::open_with(storage, Options { retention, ..Options::default() })?))
    }
}

impl Secrets {
    /// Reads the secrets of a data directory, or creates them. `names` are the names in the serving certificate;
    /// `new_token` creates the token of a new directory.
    ///
    /// Blocks on the file system. If several processes start at once with a new directory, they may have different
    /// secrets.
    pub(crate) fn open(
        path: &Path,
        names: Vec<String>,
        new_token: impl FnOnce() -> String,
    ) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let pki = path.join("pki");
        for folder in [path, &pki] {
            create(folder).map_err(|error| format!("creating {}: {error}", folder.display()))?;
        }
        let mut renewal = renewal();
        let tls = renewal.serving(Some(&pki), names)?;
        let issuer = TokenIssuer::default().persisted(&pki.join("accounts.key"))?;
        let token = token(&pki.join("admin.token"), new_token)?;
        let proxy = Some(renewal.proxy(Some(&pki))?);
        Ok(Self { tls, issuer, token, proxy, renewal })
    }

    /// Creates secrets that end with the process.
    pub(crate) fn temporary(names: Vec<String>, token: String) -> Result<Self, Box<dyn Error>> {
        let mut renewal = renewal();
        let (tls, proxy) = (renewal.serving(None, names)?, Some(renewal.proxy(None)?));
        Ok(Self { tls, issuer: TokenIssuer::default(), token, proxy, renewal })
    }
}

fn renewal() -> CertificateRenewal {
    CertificateRenewal::new(Clock::system(), Entropy::os())
}

/// Returns the directory of the storage in a data directory.
pub(crate) fn storage(path: &Path) -> PathBuf {
    path.join("storage")
}

/// Removes a directory, unless it does not exist or another process uses it.
pub(crate) fn remove(path: &Path) -> Result<(), Box<dyn Error>> {
    if !path.try_exists()? {
        return Ok(());
    }
    windlass_storage::remove(storage(path))?;
    fs::remove_dir_all(path).map_err(|error| format!("removing {}: {error}", path.display()).into())
}

/// Creates a folder that only its owner can enter, unless it exists.
pub(crate) fn create(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Reads a token, or creates it.
fn token(path: &Path, new: impl FnOnce() -> String) -> Result<String, Box<dyn Error + Send + Sync>> {
    let failed = |doing: &str, error: io::Error| format!("{doing} {}: {error}", path.display());
    match fs::read_to_string(path) {
        Ok(text) if text.trim().is_empty() => {
            Err(format!("{}: the token is empty; delete the file to get a new one", path.display()).into())
        }
        Ok(text) => Ok(text.trim().to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let token = new();
            write(path, &token).map_err(|error| failed("writing", error))?;
            Ok(token)
        }
        Err(error) => Err(failed("reading", error).into()),
    }
}

/// Writes a file that only its owner can read, completely or not at all.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let directory: PathBuf = path.parent().unwrap_or_else(|| Path::new(".")).to_owned();
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    io::Write::write_all(&mut file, text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    fs::File::open(path.parent().unwrap_or_else(|| Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path, token: &str) -> Result<(Arc<dyn Storage>, Secrets), Box<dyn Error + Send + Sync>> {
        let storage = Data::at(path.to_owned()).open()?;
        Ok((storage, Secrets::open(path, Vec::new(), || token.to_owned())?))
    }

    #[test]
    fn secrets_survive_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new");
        let first = open(&path, "one").unwrap();
        let ca = first.1.tls.ca_pem().to_owned();
        drop(first);
        let (_, second) = open(&path, "two").unwrap();
        assert_eq!((second.token.as_str(), second.tls.ca_pem()), ("one", &*ca));
    }

    #[cfg(unix)]
    #[test]
    fn secrets_are_readable_by_their_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new");
        open(&path, "one").unwrap();
        let mode = |name: &str| fs::metadata(path.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            [mode("storage"), mode("pki"), mode("pki/admin.token"), mode("pki/accounts.key")],
            [0o700, 0o700, 0o600, 0o600]
        );
    }

    #[test]
    fn errors_name_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let taken = open(directory.path(), "one").unwrap();
        let error = open(directory.path(), "one").unwrap_err().to_string();
        assert!(error.contains("another process uses") && error.contains("storage"), "{error}");
        let error = remove(directory.path()).unwrap_err().to_string();
        assert!(error.contains("another process uses"), "{error}");
        assert!(directory.path().join("pki/admin.token").exists(), "nothing is removed");
        drop(taken);
        fs::write(directory.path().join("pki/admin.token"), "\n").unwrap();
        let error = open(directory.path(), "one").unwrap_err().to_string();
        assert!(error.contains("admin.token: the token is empty"), "{error}");
    }

    #[test]
    fn removed_directory_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        remove(&path).unwrap();
        drop(open(&path, "one").unwrap());
        remove(&path).unwrap();
        assert!(!path.exists());
    }
}
