//! The TLS configuration with the current content of its files, and with a client certificate from a live identity or a
//! plugin.
//!
//! Files are read again after a minute, and immediately when a request suggests that they have changed. Unusable
//! content, such as a new certificate whose key is still missing, leaves the last configuration in use.

use std::{fs, path::Path, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::time::Instant;
use windlass_api::ErrorChain;

use super::tls;
use crate::{
    config_error::ConfigError,
    connection_options::{Identity, LiveIdentity, Pem, TlsOptions},
    metrics::{MetricsRecorder, TlsReload},
};

const EVERY: Duration = Duration::from_mins(1);

/// The sequence of TLS configurations.
pub(super) struct Rotation {
    options: TlsOptions,
    /// The client certificate of a credential plugin, for options that contain none.
    plugin_identity: Option<LiveIdentity>,
    recorder: MetricsRecorder,
    current: Mutex<Current>,
}

/// A configuration with its number, which differs for each configuration.
#[derive(Clone)]
pub(super) struct Generation {
    pub(super) number: u64,
    pub(super) config: Arc<ClientConfig>,
}

struct Current {
    generation: Generation,
    material: Material,
    read: Instant,
}

/// The content of the files of a configuration.
#[derive(PartialEq, Eq)]
pub(super) struct Material {
    pub(super) authority: Option<Vec<u8>>,
    /// The certificate and its key.
    pub(super) identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Rotation {
    /// Reads the files, so that unusable content is reported immediately.
    pub(super) fn new(
        options: &TlsOptions,
        plugin_identity: Option<LiveIdentity>,
        recorder: MetricsRecorder,
    ) -> Result<Self, ConfigError> {
        let material = Material::read(options, renewed_identity(options, plugin_identity.as_ref()).as_deref())?;
        let config = Arc::new(tls::client_config(options, &material)?);
        let generation = Generation { number: 0, config };
        let current = Mutex::new(Current { generation, material, read: Instant::now() });
        Ok(Self { options: options.clone(), plugin_identity, recorder, current })
    }

    /// Reports whether the configuration may change.
    pub(super) fn may_change(&self) -> bool {
        let identity = self.options.identity.iter().flat_map(|identity| [&identity.certificate, &identity.key]);
        let mut parts = self.options.certificate_authority.iter().chain(identity);
        self.plugin_identity.is_some()
            || self.options.live_identity.is_some()
            || parts.any(|part| matches!(part, Pem::File(_)))
    }

    /// Returns the last configuration.
    pub(super) fn last(&self) -> Generation {
        self.current.lock().generation.clone()
    }

    /// Returns the configuration for a request that is sent now, reading the files again if necessary.
    pub(super) async fn current(&self) -> Result<Generation, ConfigError> {
        let (generation, due) = {
            let mut current = self.current.lock();
            let old = self.may_change() && current.read.elapsed() >= EVERY;
            if old {
                // One task reads the files; the others continue meanwhile.
                current.read = Instant::now();
            }
            (current.generation.clone(), old || self.has_another_identity(&current.material))
        };
        if due { self.read_again().await } else { Ok(generation) }
    }

    /// Returns the configuration after reading the files again, because a failure suggests that they have changed.
    pub(super) async fn read_again(&self) -> Result<Generation, ConfigError> {
        let identity = renewed_identity(&self.options, self.plugin_identity.as_ref());
        let options = self.options.clone();
        let is_renewed = identity.is_some();
        let read = tokio::task::spawn_blocking(move || Material::read(&options, identity.as_deref())).await;
        let read = read.map_err(|error| ConfigError::tls("TLS files", error)).and_then(|read| read);
        let mut current = self.current.lock();
        current.read = Instant::now();
        let made = match read {
            Ok(material) if material == current.material => {
                self.recorder.record(|metrics| metrics.tls_files_read(TlsReload::Unchanged));
                return Ok(current.generation.clone());
            }
            Ok(material) => tls::client_config(&self.options, &material).map(|config| (config, material)),
            Err(error) => Err(error),
        };
        let found = if made.is_ok() { TlsReload::Changed } else { TlsReload::Unusable };
        self.recorder.record(|metrics| metrics.tls_files_read(found));
        match made {
            Ok((config, material)) => {
                tracing::debug!("TLS files have changed: new connections use them");
                current.material = material;
                current.generation = Generation { number: current.generation.number + 1, config: Arc::new(config) };
                Ok(current.generation.clone())
            }
            // No earlier certificate exists to fall back to.
            Err(error) if is_renewed => Err(error),
            Err(error) => {
                tracing::warn!(error = %ErrorChain(&error), "the last TLS files remain in use");
                Ok(current.generation.clone())
            }
        }
    }

    fn has_another_identity(&self, material: &Material) -> bool {
        let Some(identity) = renewed_identity(&self.options, self.plugin_identity.as_ref()) else { return false };
        let (Pem::Data(certificate), Pem::Data(key)) = (&identity.certificate, &identity.key) else { return true };
        material.identity.as_ref().is_none_or(|(old, old_key)| old != certificate || old_key != key)
    }
}

impl Material {
    fn read(options: &TlsOptions, identity: Option<&Identity>) -> Result<Self, ConfigError> {
        let authority = options.certificate_authority.as_ref().map(read).transpose()?;
        let identity = identity.or(options.identity.as_ref());
        let identity =
            identity.map(|identity| Ok::<_, ConfigError>((read(&identity.certificate)?, read(&identity.key)?)));
        Ok(Self { authority, identity: identity.transpose()? })
    }
}

/// Returns a certificate from outside the options. A live identity takes precedence over the options, and a plugin's
/// certificate is used only without them.
fn renewed_identity(options: &TlsOptions, plugin_identity: Option<&LiveIdentity>) -> Option<Arc<Identity>> {
    let live = options.live_identity.as_ref().and_then(LiveIdentity::current);
    live.or_else(|| plugin_identity.filter(|_| options.identity.is_none())?.current())
}

fn read(pem: &Pem) -> Result<Vec<u8>, ConfigError> {
    let file = |path: &Path| {
        fs::read(path).map_err(|source| ConfigError::Read { path: path.to_owned(), named_by: None, source })
    };
    match pem {
        Pem::Data(bytes) => Ok(bytes.clone()),
        Pem::File(path) => file(path),
    }
}
