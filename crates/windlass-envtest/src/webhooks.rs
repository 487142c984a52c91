//! Webhooks of a program under test: serves them, and installs their configurations.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use windlass_api::{ApiResource, DynamicObject, GroupVersionKind, ObjectExt as _};
use windlass_client::{
    certificates::{ServingCertificate, Validity, self_signed},
    config::LiveIdentity,
    read_manifests,
};
use windlass_webhook::{Server, Webhooks};

use crate::{
    NAME,
    environment::{ConversionWebhook, Environment},
    error::Error,
};

const GROUP: &str = "admissionregistration.k8s.io";
const MUTATING: &str = "MutatingWebhookConfiguration";
const VALIDATING: &str = "ValidatingWebhookConfiguration";

/// The lifetime of the certificate, longer than any test takes.
const LIFETIME: Duration = Duration::from_hours(7 * 24);

impl Environment {
    /// Serves webhooks on a free loopback port until the environment is stopped, and returns the address. The
    /// certificate is signed by a new certificate authority.
    ///
    /// Installs the webhook configurations in a YAML or JSON text, as in a project's `config/webhook/manifests.yaml`.
    /// Their service references are replaced by the address and that authority. The same applies to
    /// CustomResourceDefinitions with a conversion service that are installed later.
    ///
    /// Does not work with a paused clock, because webhooks are called over sockets.
    pub async fn serve_webhooks(&self, webhooks: Webhooks, configurations: &str) -> Result<SocketAddr, Error> {
        let objects = read_manifests(configurations);
        let objects = objects.map_err(|error| Error::Manifest { origin: None, source: error.into() })?;
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await;
        let listener = listener.map_err(Error::serve("listening on loopback"))?;
        let address = listener.local_addr().map_err(Error::serve("listening on loopback"))?;
        let keyed = self_signed([Ipv4Addr::LOCALHOST.to_string()], Validity::starting(self.clock().now(), LIFETIME));
        let keyed = keyed.map_err(Error::serve("making a certificate"))?;
        let identity = LiveIdentity::new();
        identity.set(keyed.identity());
        let certificate = std::sync::Arc::new(ServingCertificate::new(identity));
        let server = Server::new(webhooks).listener(listener).certificate(certificate).grace_period(Duration::ZERO);
        let stopped = self.stopped();
        self.spawn(async move { server.serve(stopped).await.map_err(Error::serve("serving webhooks")) });

        let bundle = BASE64_STANDARD.encode(keyed.certificate().to_pem());
        for mut object in objects {
            let Some(resource) = configuration(&object) else { continue };
            redirect(&mut object, address, &bundle);
            let doing = format!("installing {} {}", resource.kind, object.name());
            let installed = self.client().dynamic(&resource).apply(&object).field_manager(NAME).force().await;
            installed.map_err(Error::client(doing))?;
        }
        *self.converter.lock() = Some(ConversionWebhook { address, bundle });
        Ok(address)
    }

    /// Redirects the conversion webhook of a CustomResourceDefinition to the served webhooks, if there are any.
    pub(crate) fn converted_here(&self, mut definition: DynamicObject) -> DynamicObject {
        if let Some(ConversionWebhook { address, bundle }) = &*self.converter.lock()
            && let Some(config) =
                definition.data.get_mut("spec").and_then(|spec| spec.pointer_mut("/conversion/webhook/clientConfig"))
        {
            redirect_call(config, *address, bundle);
        }
        definition
    }
}

/// Returns the resource of a webhook configuration, or `None` for other objects.
fn configuration(object: &DynamicObject) -> Option<ApiResource> {
    let types = object.types.as_ref().filter(|types| types.api_version == format!("{GROUP}/v1"))?;
    let (kind, plural) = match types.kind.as_str() {
        MUTATING => (MUTATING, "mutatingwebhookconfigurations"),
        VALIDATING => (VALIDATING, "validatingwebhookconfigurations"),
        _ => return None,
    };
    Some(ApiResource::namespaced(GroupVersionKind::new(GROUP, "v1", kind), plural).cluster_scoped())
}

/// Redirects all webhooks of a configuration to the served ones.
fn redirect(object: &mut DynamicObject, address: SocketAddr, bundle: &str) {
    let Some(webhooks) = object.data.get_mut("webhooks").and_then(Value::as_array_mut) else { return };
    for webhook in webhooks {
        redirect_call(&mut webhook["clientConfig"], address, bundle);
    }
}

fn redirect_call(config: &mut Value, address: SocketAddr, bundle: &str) {
    if let Some(path) = config["service"]["path"].as_str() {
        let url = format!("https://{address}/{}", path.trim_start_matches('/'));
        *config = json!({"url": url});
    }
    config["caBundle"] = bundle.into();
}
