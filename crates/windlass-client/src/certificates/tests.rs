use jiff::SignedDuration;
use rcgen::{PublicKeyData as _, SigningKey as _};
use rustls::pki_types::{CertificateSigningRequestDer, pem::PemObject as _};
use windlass_api::ErrorChain;

use super::*;
use crate::{
    connection_options::{Identity, Pem},
    testing::Folder,
};

fn now() -> jiff::Timestamp {
    "2030-01-01T12:00:00Z".parse().unwrap()
}

fn day() -> Validity {
    Validity::starting(now(), std::time::Duration::from_hours(24))
}

#[test]
fn a_key_is_made_written_and_read_again_and_never_shown() {
    let folder = Folder::new("certificates-key");
    let path = folder.path().join("new/folder/key.pem");
    let made = PrivateKey::load_or_generate(&path).unwrap();
    let read = PrivateKey::load_or_generate(&path).unwrap();
    assert_eq!(made.to_pem(), read.to_pem());
    assert_ne!(made.to_pem(), PrivateKey::generate().unwrap().to_pem());
    assert!(made.public_pem().starts_with("-----BEGIN PUBLIC KEY-----\n"));
    assert_eq!(made.public_pem(), read.public_pem());
    assert_eq!(format!("{made:?}"), "PrivateKey { .. }");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn invalid_key_or_certificate_is_rejected_without_content() {
    let folder = Folder::new("certificates-broken");
    let path = folder.write("key.pem", "s3cret");
    let error = PrivateKey::load_or_generate(&path).unwrap_err();
    assert_eq!(error.to_string(), "not a usable private key in PEM");
    assert!(!format!("{error:?} {}", ErrorChain(&error)).contains("s3cret"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "s3cret", "it is not overwritten");
    let error = PrivateKey::load_or_generate(folder.path()).unwrap_err();
    assert_eq!(error.to_string(), format!("reading {}", folder.path().display()));
    for text in ["", "nothing", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        let error = Certificate::from_pem(text).unwrap_err();
        assert_eq!(error.to_string(), "not a usable certificate in PEM", "{text}");
    }
}

#[test]
fn certificate_has_subject_usages_and_expiry() {
    let authority = CertificateAuthority::self_signed("an authority", day()).unwrap();
    let mut leaf = Leaf::server(["web.shop.svc", "*.example.com", "10.0.0.7", "fd00::1"]);
    leaf.organization = Some("operators".to_owned());
    let keyed = authority.issue(&leaf, day()).unwrap();
    let certificate = keyed.certificate();
    assert_eq!((&*certificate.common_name, &certificate.names), ("web.shop.svc", &leaf.names));
    assert_eq!(certificate.organizations, ["operators"]);
    // One hour before now until one day after now.
    assert_eq!(certificate.not_before, now() - SignedDuration::from_hours(1));
    assert_eq!(certificate.not_after, now() + SignedDuration::from_hours(24));
    assert!(certificate.is_valid_at(now()) && !certificate.is_valid_at(now() + SignedDuration::from_hours(25)));
    // Round trip through PEM.
    assert_eq!(Certificate::from_pem(certificate.to_pem()).unwrap(), *certificate);
    let text = keyed.to_pem();
    assert_eq!(KeyedCertificate::from_pem(text.expose()).unwrap().certificate(), certificate);
    assert!(!format!("{keyed:?}").contains("PRIVATE KEY"));
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let authority = CertificateAuthority::self_signed("a", day()).unwrap();
    let keyed = authority.issue(&Leaf::client("jane"), day()).unwrap();
    let error = KeyedCertificate::new(keyed.certificate().clone(), PrivateKey::generate().unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "the key does not match the certificate");
}

#[test]
fn stored_ca_signs_after_reload() {
    let authority = CertificateAuthority::self_signed("kept", day()).unwrap();
    let text = authority.keyed().to_pem();
    let again = CertificateAuthority::new(KeyedCertificate::from_pem(text.expose()).unwrap()).unwrap();
    assert_eq!(again.certificate(), authority.certificate());
    let issued = again.issue(&Leaf::server(["localhost"]), day()).unwrap();
    handshake(&issued.identity(), authority.certificate().to_pem(), "localhost").unwrap();
}

#[test]
fn self_signed_certificate_is_trusted_only_with_its_ca() {
    let keyed = self_signed(["localhost", "127.0.0.1"], day()).unwrap();
    let authority = keyed.certificate().to_pem().split_inclusive("-----END CERTIFICATE-----\n").last().unwrap();
    for name in ["localhost", "127.0.0.1"] {
        handshake(&keyed.identity(), authority, name).unwrap();
    }
    assert!(handshake(&keyed.identity(), authority, "example.com").is_err());
    let other = CertificateAuthority::self_signed("other", day()).unwrap();
    assert!(handshake(&keyed.identity(), other.certificate().to_pem(), "localhost").is_err());
}

#[test]
fn request_is_signed_for_the_requesters_key() {
    let authority = CertificateAuthority::self_signed("a", day()).unwrap();
    let key = PrivateKey::generate().unwrap();
    let request = CertificateRequest::serving("example.com/x", "hooks", ["localhost", "10.0.0.7"]);
    let pem = request.to_pem(&key).unwrap();
    let der = CertificateSigningRequestDer::from_pem_slice(pem.as_bytes()).unwrap();
    let signed = authority.sign(&der, &request.usages, day()).unwrap();
    assert!(request.is_met_by(&signed));
    let mut more = request.clone();
    more.names.push("other".to_owned());
    let mut of = request;
    of.organization = Some("operators".to_owned());
    assert!(!more.is_met_by(&signed) && !of.is_met_by(&signed));
    let keyed = KeyedCertificate::new(signed, key).unwrap();
    handshake(&keyed.identity(), authority.certificate().to_pem(), "localhost").unwrap();
}

#[test]
fn requested_usages_and_authority_are_not_granted() {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new([]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign];
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let request = params.serialize_request(&key).unwrap();
    let authority = CertificateAuthority::self_signed("a", day()).unwrap();
    let signed = authority.sign(request.der(), &[Usage::DigitalSignature, Usage::ServerAuth], day()).unwrap();
    let (_, block) = x509_parser::pem::parse_x509_pem(signed.to_pem().as_bytes()).unwrap();
    let certificate = block.parse_x509().unwrap();
    assert!(!certificate.is_ca());
    let usages = certificate.key_usage().unwrap().unwrap().value;
    assert!(usages.digital_signature() && !usages.key_cert_sign());
    let purposes = certificate.extended_key_usage().unwrap().unwrap().value;
    assert!(purposes.server_auth && !purposes.client_auth);
}

/// Returns a request with a subject and a key in DER, signed by the key.
fn request(subject: &[u8], key: &rcgen::KeyPair) -> Vec<u8> {
    let info = yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_u8(0);
            writer.next().write_der(subject);
            writer.next().write_der(&key.subject_public_key_info());
            writer.next().write_tagged_implicit(yasna::Tag::context(0), |writer| writer.write_set_of(|_| {}));
        });
    });
    let signature = key.sign(&info).unwrap();
    yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_der(&info);
            writer.next().write_sequence(|writer| {
                let ecdsa_with_sha384 = [1, 2, 840, 10045, 4, 3, 3];
                writer.next().write_oid(&yasna::models::ObjectIdentifier::from_slice(&ecdsa_with_sha384));
            });
            writer.next().write_bitvec_bytes(&signature, signature.len() * 8);
        });
    })
}

/// Returns a subject in DER. Each part has the attributes of one set.
fn subject(parts: &[&[(u64, yasna::Tag, &str)]]) -> Vec<u8> {
    yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            for attributes in parts {
                writer.next().write_set_of(|writer| {
                    for (attribute, tag, value) in *attributes {
                        writer.next().write_sequence(|writer| {
                            writer
                                .next()
                                .write_oid(&yasna::models::ObjectIdentifier::from_slice(&[2, 5, 4, *attribute]));
                            writer.next().write_tagged_implicit(*tag, |writer| writer.write_bytes(value.as_bytes()));
                        });
                    }
                });
            }
        });
    })
}

const NAME: u64 = 3;
const ORGANIZATION: u64 = 10;

#[test]
fn subject_and_key_of_a_request_are_copied() {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    let [utf8, printable] = [yasna::tags::TAG_UTF8STRING, yasna::tags::TAG_PRINTABLESTRING];
    let subjects = [
        subject(&[&[(ORGANIZATION, utf8, "dev")], &[(ORGANIZATION, printable, "ops")], &[(NAME, printable, "jane")]]),
        // Go writes several organizations as one set.
        subject(&[&[(ORGANIZATION, printable, "dev"), (ORGANIZATION, printable, "ops")], &[(NAME, utf8, "jane")]]),
        subject(&[&[(NAME, utf8, "jane")], &[(12, utf8, "title")], &[(ORGANIZATION, utf8, "dev")]]),
        subject(&[]),
    ];
    let authority = CertificateAuthority::self_signed("a", day()).unwrap();
    for subject in subjects {
        let signed = authority.sign(&request(&subject, &key), &[Usage::ClientAuth], day()).unwrap();
        let (_, block) = x509_parser::pem::parse_x509_pem(signed.to_pem().as_bytes()).unwrap();
        let certificate = block.parse_x509().unwrap();
        assert_eq!(certificate.subject().as_raw(), subject);
        assert_eq!(certificate.public_key().raw, key.subject_public_key_info());
        let (_, issuer) = x509_parser::pem::parse_x509_pem(authority.certificate().to_pem().as_bytes()).unwrap();
        let issuer = issuer.parse_x509().unwrap();
        certificate.verify_signature(Some(issuer.public_key())).unwrap();
        assert_eq!(certificate.issuer().as_raw(), issuer.subject().as_raw());
    }
    let subject = subject(&[&[(ORGANIZATION, utf8, "dev"), (ORGANIZATION, utf8, "ops")]]);
    let signed = authority.sign(&request(&subject, &key), &[], day()).unwrap();
    assert_eq!(signed.organizations, ["dev", "ops"]);
}

#[test]
fn unreadable_and_unsigned_requests_are_refused() {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    let authority = CertificateAuthority::self_signed("a", day()).unwrap();
    let refused = |request: &[u8]| ErrorChain(&authority.sign(request, &[], day()).unwrap_err()).to_string();
    let valid = request(&subject(&[]), &key);
    let mut forged = valid.clone();
    *forged.last_mut().unwrap() ^= 1;
    assert!(refused(&forged).contains("the signature of the request is not valid"), "{}", refused(&forged));
    let longer = [&*valid, b"x"].concat();
    assert!(refused(&longer).contains("there are bytes after its end"), "{}", refused(&longer));
    assert!(refused(b"no request").contains("the request cannot be parsed"), "{}", refused(b"no request"));
    // Programs differ in how they decode it.
    let wide = (yasna::tags::TAG_BMPSTRING, "\0a");
    // The type has no underscores, no letters, or no umlauts.
    let printable = (yasna::tags::TAG_PRINTABLESTRING, "jane_doe");
    let numeric = (yasna::tags::TAG_NUMERICSTRING, "1a");
    let ascii = (yasna::tags::TAG_IA5STRING, "\u{e4}");
    for (tag, value) in [wide, printable, numeric, ascii] {
        let subject = subject(&[&[(NAME, tag, value)]]);
        assert!(refused(&request(&subject, &key)).contains("a value of the subject is not supported"), "{value}");
    }
}

#[test]
fn store_returns_the_last_saved_certificate() {
    let folder = Folder::new("certificates-store");
    let path = folder.path().join("client.pem");
    let authority = CertificateAuthority::self_signed("a", day()).unwrap();
    let stores: [&dyn CertificateStore; 2] = [&FileStore::new(&path), &MemoryStore::default()];
    for store in stores {
        assert!(store.load().unwrap().is_none());
        for name in ["one", "two"] {
            store.save(&authority.issue(&Leaf::client(name), day()).unwrap()).unwrap();
            assert_eq!(store.load().unwrap().unwrap().certificate().common_name, name);
        }
    }
    std::fs::write(&path, "half of it").unwrap();
    assert!(FileStore::new(&path).load().is_err());
    // One file can serve as certificate and as key, as in kubeconfigs.
    FileStore::new(&path).save(&authority.issue(&Leaf::server(["localhost"]), day()).unwrap()).unwrap();
    let both = Identity::new(Pem::File(path.clone()), Pem::File(path));
    handshake(&both, authority.certificate().to_pem(), "localhost").unwrap();
}

#[test]
fn a_server_shows_the_certificate_that_is_in_use() {
    let authority = CertificateAuthority::self_signed("a", day()).unwrap();
    let live = crate::connection_options::LiveIdentity::new();
    let serving = std::sync::Arc::new(ServingCertificate::new(live.clone()));
    let shown = |name: &str| shake(serving.clone(), authority.certificate().to_pem(), name);
    assert!(shown("one").is_err(), "there is none");
    live.set(authority.issue(&Leaf::server(["one"]), day()).unwrap().identity());
    shown("one").unwrap();
    live.set(authority.issue(&Leaf::server(["two"]), day()).unwrap().identity());
    shown("two").unwrap();
    assert!(shown("one").is_err());
    live.set(Identity::new("no", "use"));
    shown("two").unwrap();
}

/// Checks whether a client that trusts `authority` accepts a server with this identity for `name`.
fn handshake(identity: &Identity, authority: &str, name: &str) -> Result<(), rustls::Error> {
    let live = crate::connection_options::LiveIdentity::new();
    live.set(identity.clone());
    shake(std::sync::Arc::new(ServingCertificate::new(live)), authority, name)
}

/// The same for a serving certificate; in memory, with the certificates' day as current time.
fn shake(serving: std::sync::Arc<ServingCertificate>, authority: &str, name: &str) -> Result<(), rustls::Error> {
    use std::sync::Arc;

    use rustls::{
        ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection,
        pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
        time_provider::TimeProvider,
    };

    #[derive(Debug)]
    struct Then;
    impl TimeProvider for Then {
        fn current_time(&self) -> Option<UnixTime> {
            Some(UnixTime::since_unix_epoch(std::time::Duration::from_secs(now().as_second().unsigned_abs())))
        }
    }

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let client = ClientConfig::builder_with_details(provider.clone(), Arc::new(Then))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let server = ServerConfig::builder_with_details(provider, Arc::new(Then))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(serving);
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(client), name)?;
    let mut server = ServerConnection::new(Arc::new(server))?;
    while client.is_handshaking() || server.is_handshaking() {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        let mut read = &wire[..];
        while !read.is_empty() {
            server.read_tls(&mut read).unwrap();
            server.process_new_packets()?;
        }
        let mut wire = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        let mut read = &wire[..];
        while !read.is_empty() {
            client.read_tls(&mut read).unwrap();
            client.process_new_packets()?;
        }
    }
    Ok(())
}
