//! Certificates that the cluster signs.

use std::time::Duration;

use conformance::{eventually, on_each_target, unique};
use k8s_openapi::{ByteString, api::certificates::v1::CertificateSigningRequest};
use rustls::pki_types::{CertificateSigningRequestDer, pem::PemObject as _};
use serde_json::json;
use windlass_api::{Clock, ObjectExt as _, Patch};
use windlass_client::{
    Client,
    certificates::{
        CertificateAuthority, CertificateError, CertificateManager, CertificateRequest, MemoryStore, Usage, Validity,
    },
};

/// Creates a CertificateSigningRequest for this signer.
async fn asked(client: &Client, signer: &str) -> CertificateSigningRequest {
    eventually("somebody asks", async || {
        let only = format!("spec.signerName={signer}");
        client.list::<CertificateSigningRequest>().fields(only).await.unwrap().items.pop()
    })
    .await
}

#[tokio::test]
async fn approved_certificate_is_used() {
    on_each_target(|target| async {
        let signer = format!("windlass.example/{}", unique("signer"));
        let mut wanted = CertificateRequest::serving(&signer, "hooks", ["hooks.shop.svc", "10.0.0.7"]);
        wanted.lifetime = Some(Duration::from_hours(1));
        let manager = CertificateManager::new(target.client.clone(), wanted.clone(), MemoryStore::default()).unwrap();

        let validity = Validity::starting(Clock::system().now(), Duration::from_hours(1));
        let authority = CertificateAuthority::self_signed("windlass", validity).unwrap();
        let sign = async {
            let asked = asked(&target.client, &signer).await;
            assert_eq!(asked.spec.usages.as_deref().unwrap(), ["digital signature", "server auth"]);
            assert_eq!(asked.spec.expiration_seconds, Some(3600));
            target.client.approve(asked.name()).reason("Tested").await.unwrap();
            let request = CertificateSigningRequestDer::from_pem_slice(&asked.spec.request.0).unwrap();
            let signed = authority.sign(&request, &[Usage::DigitalSignature, Usage::ServerAuth], validity).unwrap();
            let status = json!({"status": {"certificate": ByteString(signed.to_pem().into())}});
            let patch = target.client.patch::<CertificateSigningRequest>(asked.name(), Patch::Merge(status));
            patch.subresource("status").await.unwrap();
        };
        let (renewed, ()) = tokio::join!(manager.renew(), sign);
        let keyed = renewed.unwrap();
        assert!(wanted.is_met_by(keyed.certificate()));
        assert_eq!(*manager.live().current().unwrap(), keyed.identity());
        target
    })
    .await;
}

#[tokio::test]
async fn denied_request_error_has_the_reason() {
    on_each_target(|target| async {
        let signer = format!("windlass.example/{}", unique("signer"));
        let wanted = CertificateRequest::client(&signer, "jane");
        let manager = CertificateManager::new(target.client.clone(), wanted, MemoryStore::default()).unwrap();
        let deny = async {
            let asked = asked(&target.client, &signer).await;
            target.client.deny(asked.name()).reason("Tested").message("not today").await.unwrap();
        };
        let (renewed, ()) = tokio::join!(manager.renew(), deny);
        let error = renewed.unwrap_err();
        let CertificateError::NotGranted { condition, message, .. } = &error else { panic!("{error}") };
        assert_eq!((&**condition, &**message), ("Denied", "not today"));
        target
    })
    .await;
}
