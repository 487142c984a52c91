//! ClusterTrustBundles: the trust anchors of a signer, or of a cluster. Served since 1.37.

use std::collections::HashMap;

use x509_parser::pem::Pem;

use crate::kinds::{certificates::validate_signer_name, prelude::*};

pub(super) const KIND: Kind = Kind {
    name: "ClusterTrustBundle",
    rules: Rules {
        name: NameRule::PathSegment,
        unconditional_update: false,
        selects_namespace: false,
        fields: &[FieldRule { label: "spec.signerName", path: "spec.signerName" }],
        ..Rules::COMMON
    },
    validate_create: |bundle, errors| {
        validate_bundle(bundle, errors);
        validate_anchors(&bundle.child("spec.trustBundle"), errors);
    },
    validate_update: |new, old, errors| {
        validate_bundle(new, errors);
        let anchors = new.child("spec.trustBundle");
        if !anchors.same(&old.child("spec.trustBundle")) {
            validate_anchors(&anchors, errors);
        }
    },
    immutable: &["spec.signerName"],
    ..BASE
};

/// The maximum length of the trust anchors, in bytes.
const MAX_BUNDLE: usize = 1 << 20;

fn validate_bundle(bundle: &Field<'_>, errors: &mut Errors) {
    let signer = bundle.child("spec.signerName");
    let name = bundle.child("metadata.name");
    name.invalid_each(name_problems(name.text(), signer.text()), errors);
    if !signer.is_empty() {
        validate_signer_name(&signer, errors);
    }
}

/// Returns the problems of a bundle's name, which starts with the name of its signer.
fn name_problems(name: &str, signer: &str) -> Vec<String> {
    if signer.is_empty() {
        if name.contains(':') {
            return vec!["ClusterTrustBundle without signer name must not have \":\" in its name".to_owned()];
        }
        return dns_subdomain(name);
    }
    let prefix = format!("{}:", signer.replace('/', ":"));
    match name.strip_prefix(&prefix) {
        Some(rest) => dns_subdomain(rest),
        None => vec![format!("ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}")],
    }
}

/// Validates a list of CA certificates in PEM format. Malformed blocks are ignored, as in Go.
fn validate_anchors(bundle: &Field<'_>, errors: &mut Errors) {
    if bundle.text().len() > MAX_BUNDLE {
        return bundle.too_long(MAX_BUNDLE, errors);
    }
    let mut problems = Vec::new();
    let mut anchors: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
    let blocks = Pem::iter_from_buffer(bundle.text().as_bytes()).filter_map(Result::ok);
    for (index, block) in blocks.enumerate() {
        match block_problem(&block) {
            Some(problem) => problems.push(format!("entry {index} {problem}")),
            None => anchors.entry(block.contents).or_default().push(index),
        }
    }
    if problems.is_empty() && anchors.is_empty() {
        problems.push("at least one trust anchor must be provided".to_owned());
    }
    if problems.is_empty() {
        for indices in anchors.into_values().filter(|indices| indices.len() > 1) {
            let indices: Vec<String> = indices.iter().map(ToString::to_string).collect();
            problems.push(format!("duplicate trust anchor (indices [{}])", indices.join(" ")));
        }
    }
    errors.invalid_each(bundle.path(), "<value omitted>", problems);
}

/// Returns the reason why a PEM block is no trust anchor.
fn block_problem(block: &Pem) -> Option<String> {
    if block.label != "CERTIFICATE" {
        return Some(format!("has bad block type: {}", block.label));
    }
    match block.parse_x509() {
        Err(_) => Some("does not parse as X.509".to_owned()),
        Ok(certificate) if !certificate.is_ca() => Some("does not have the CA bit set".to_owned()),
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundle_is_named_after_its_signer() {
        assert!(name_problems("example.com:foo:a", "example.com/foo").is_empty());
        assert_eq!(name_problems("a", "example.com/foo").len(), 1);
        assert_eq!(name_problems("example.com:foo:a", "").len(), 1);
        assert!(name_problems("a", "").is_empty());
    }

    #[test]
    fn bundle_has_distinct_ca_certificates() {
        let problems = |text: &str| {
            let bundle = json!({"spec": {"trustBundle": text}});
            let mut errors = Errors::default();
            validate_anchors(&Field::object(&bundle).child("spec.trustBundle"), &mut errors);
            errors.into_causes().into_iter().map(|cause| cause.message).collect::<Vec<_>>()
        };
        let certificate = |is_authority: rcgen::IsCa| {
            let mut params = rcgen::CertificateParams::default();
            params.is_ca = is_authority;
            params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
        };
        let authority = certificate(rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained));
        assert!(problems(&authority).is_empty());
        let of = |detail: &str| [format!("Invalid value: \"<value omitted>\": {detail}")];
        assert_eq!(problems(""), of("at least one trust anchor must be provided"));
        assert_eq!(problems(&authority.repeat(2)), of("duplicate trust anchor (indices [0 1])"));
        assert_eq!(problems(&certificate(rcgen::IsCa::NoCa)), of("entry 0 does not have the CA bit set"));
        let key = "-----BEGIN KEY-----\nAAAA\n-----END KEY-----\n";
        assert_eq!(problems(&(authority + key)), of("entry 1 has bad block type: KEY"));
    }
}
