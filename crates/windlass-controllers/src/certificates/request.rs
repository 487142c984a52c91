//! The content of certificate requests, and the rules of the built-in signers.

use std::collections::BTreeSet;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use windlass_api::BoxError;
use x509_parser::{
    certification_request::X509CertificationRequest,
    extensions::{GeneralName, ParsedExtension},
    pem::parse_x509_pem,
    prelude::FromDer as _,
    x509::AttributeTypeAndValue,
};

use super::{CLIENT, KUBELET_CLIENT, KUBELET_SERVING};

/// The beginning of a block in PEM.
const BLOCK: &[u8] = b"-----BEGIN";
const NODES: &str = "system:nodes";
const NODE: &str = "system:node:";
const DIGITAL_SIGNATURE: &str = "digital signature";
const KEY_ENCIPHERMENT: &str = "key encipherment";
const CLIENT_AUTH: &str = "client auth";
const SERVER_AUTH: &str = "server auth";

/// The content of a request in PKCS #10.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    /// The request itself, so that the checked one is signed.
    pub(super) der: Vec<u8>,
    pub(super) common_name: String,
    organizations: Vec<String>,
    dns_names: usize,
    addresses: usize,
    emails: usize,
    uris: usize,
}

impl Content {
    /// Parses a request in PEM.
    pub(super) fn parse(pem: &[u8]) -> Result<Self, BoxError> {
        let is_request = |label: &str| label == "CERTIFICATE REQUEST";
        // Parsers differ in the block that they take from several.
        if pem.windows(BLOCK.len()).filter(|text| *text == BLOCK).count() > 1 {
            return Err("exactly one PEM block is required".into());
        }
        let (_, block) = parse_x509_pem(pem)
            .ok()
            .filter(|(_, block)| is_request(&block.label))
            .ok_or("PEM block type must be CERTIFICATE REQUEST")?;
        let (_, request) = X509CertificationRequest::from_der(&block.contents)?;
        let subject = &request.certification_request_info.subject;
        let text = |value: &AttributeTypeAndValue<'_>| value.as_str().map(str::to_owned).unwrap_or_default();
        let mut content = Self {
            common_name: subject.iter_common_name().last().map(text).unwrap_or_default(),
            organizations: subject.iter_organization().map(text).collect(),
            der: block.contents.clone(),
            ..Self::default()
        };
        for extension in request.requested_extensions().into_iter().flatten() {
            let ParsedExtension::SubjectAlternativeName(names) = extension else { continue };
            for name in &names.general_names {
                match name {
                    GeneralName::DNSName(_) => content.dns_names += 1,
                    GeneralName::IPAddress(_) => content.addresses += 1,
                    GeneralName::RFC822Name(_) => content.emails += 1,
                    GeneralName::URI(_) => content.uris += 1,
                    _ => {}
                }
            }
        }
        Ok(content)
    }

    /// Checks the rules of the built-in signer that a request names.
    pub(super) fn check(&self, request: &CertificateSigningRequest) -> Result<(), String> {
        let usages = request.spec.usages.as_deref().unwrap_or_default();
        match request.spec.signer_name.as_str() {
            CLIENT => client_usages(usages),
            KUBELET_CLIENT => self.check_kubelet_client(usages),
            KUBELET_SERVING => self.check_kubelet_serving(usages),
            _ => Ok(()),
        }
    }

    /// Checks the rules of kubelets' client certificates.
    pub(super) fn check_kubelet_client(&self, usages: &[String]) -> Result<(), String> {
        self.check_organization()?;
        let names = [(self.dns_names, "DNS"), (self.emails, "Email"), (self.addresses, "IP"), (self.uris, "URI")];
        if let Some((_, kind)) = names.iter().find(|(count, _)| *count > 0) {
            return Err(format!("{kind} subjectAltNames are not allowed"));
        }
        self.check_common_name()?;
        kubelet_usages(usages, CLIENT_AUTH)
    }

    fn check_kubelet_serving(&self, usages: &[String]) -> Result<(), String> {
        self.check_organization()?;
        if self.dns_names == 0 && self.addresses == 0 {
            return Err("DNS or IP subjectAltName is required".to_owned());
        }
        for (count, kind) in [(self.emails, "Email"), (self.uris, "URI")] {
            if count > 0 {
                return Err(format!("{kind} subjectAltNames are not allowed"));
            }
        }
        kubelet_usages(usages, SERVER_AUTH)?;
        self.check_common_name()
    }

    fn check_organization(&self) -> Result<(), String> {
        if self.organizations == [NODES] { Ok(()) } else { Err("subject organization is not system:nodes".to_owned()) }
    }

    fn check_common_name(&self) -> Result<(), String> {
        if self.common_name.starts_with(NODE) {
            return Ok(());
        }
        Err("subject common name does not begin with system:node:".to_owned())
    }
}

/// Checks the usages of a kubelet's certificate. That of an RSA key also encrypts keys.
fn kubelet_usages(usages: &[String], purpose: &str) -> Result<(), String> {
    let usages: BTreeSet<&str> = usages.iter().map(String::as_str).collect();
    let all = BTreeSet::from([DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, purpose]);
    if usages == all || usages == BTreeSet::from([DIGITAL_SIGNATURE, purpose]) {
        return Ok(());
    }
    let all: Vec<_> = all.into_iter().collect();
    Err(format!("usages did not match [{}]", all.join(" ")))
}

fn client_usages(usages: &[String]) -> Result<(), String> {
    let known = [DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, CLIENT_AUTH];
    if let Some(other) = usages.iter().find(|usage| !known.contains(&usage.as_str())) {
        return Err(format!("invalid usage for client certificate: {other}"));
    }
    if usages.iter().any(|usage| usage == CLIENT_AUTH) {
        return Ok(());
    }
    Err(format!("missing required usage for client certificate: {CLIENT_AUTH}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubelet() -> Content {
        let organizations = vec![NODES.to_owned()];
        Content { common_name: "system:node:a".to_owned(), organizations, ..Content::default() }
    }

    fn usages(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn rules_of_kubelet_certificates_are_those_of_the_real_signers() {
        let client = usages(&[CLIENT_AUTH, DIGITAL_SIGNATURE]);
        let rsa = usages(&[KEY_ENCIPHERMENT, CLIENT_AUTH, DIGITAL_SIGNATURE]);
        assert_eq!([kubelet().check_kubelet_client(&client), kubelet().check_kubelet_client(&rsa)], [Ok(()), Ok(())]);
        let told = |content: &Content, usages: &[String]| content.check_kubelet_client(usages).unwrap_err();
        let wrong = usages(&[CLIENT_AUTH]);
        assert_eq!(told(&kubelet(), &wrong), "usages did not match [client auth digital signature key encipherment]");
        let other = Content { organizations: usages(&[NODES, "other"]), ..kubelet() };
        assert_eq!(told(&other, &client), "subject organization is not system:nodes");
        assert_eq!(told(&Content { addresses: 1, ..kubelet() }, &client), "IP subjectAltNames are not allowed");
        let anyone = Content { common_name: "alice".to_owned(), ..kubelet() };
        assert_eq!(told(&anyone, &client), "subject common name does not begin with system:node:");

        let serving = usages(&[SERVER_AUTH, DIGITAL_SIGNATURE]);
        let named = Content { dns_names: 1, ..kubelet() };
        assert_eq!(named.check_kubelet_serving(&serving), Ok(()));
        let told = |content: &Content| content.check_kubelet_serving(&serving).unwrap_err();
        assert_eq!(told(&kubelet()), "DNS or IP subjectAltName is required");
        assert_eq!(told(&Content { uris: 1, ..named }), "URI subjectAltNames are not allowed");
    }

    #[test]
    fn client_certificate_needs_the_client_usage_only() {
        assert_eq!(client_usages(&usages(&[CLIENT_AUTH, KEY_ENCIPHERMENT])), Ok(()));
        assert_eq!(
            client_usages(&usages(&[DIGITAL_SIGNATURE])).unwrap_err(),
            "missing required usage for client certificate: client auth"
        );
        assert_eq!(
            client_usages(&usages(&[CLIENT_AUTH, SERVER_AUTH])).unwrap_err(),
            "invalid usage for client certificate: server auth"
        );
    }

    #[test]
    fn several_pem_blocks_are_refused() {
        let block = "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n";
        let error = Content::parse(format!("x{block}{block}").as_bytes()).unwrap_err().to_string();
        assert_eq!(error, "exactly one PEM block is required");
    }

    #[test]
    fn other_pem_blocks_are_no_requests() {
        for text in ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            let error = Content::parse(text.as_bytes()).unwrap_err().to_string();
            assert_eq!(error, "PEM block type must be CERTIFICATE REQUEST");
        }
    }
}
