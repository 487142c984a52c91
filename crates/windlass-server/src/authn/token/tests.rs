use super::*;

fn grant(audiences: &[String]) -> Grant<'_> {
    Grant { namespace: "ns", name: "robot", uid: "u", bound: &[], audiences, lifetime: 600, warn_after: None, id: "t" }
}

#[test]
fn token_is_valid_in_its_lifetime_and_for_its_audience() {
    let issuer = Issuer::new(TokenIssuer::default());
    let now = Timestamp::from_second(1_000_000).unwrap();
    let later = |seconds: i64| Timestamp::from_second(1_000_000 + seconds).unwrap();
    let own = [ISSUER.to_owned()];
    let token = issuer.issue(&grant(&own), now).unwrap();
    let claims = issuer.verify(token.as_bytes(), &own).unwrap();
    claims.check_time(later(599)).unwrap();
    assert_eq!(claims.identity().user.name, "system:serviceaccount:ns:robot");

    let fails = |token: &str, audience: &str, now| {
        let verified = issuer.verify(token.as_bytes(), &[audience.to_owned()]);
        verified.and_then(|claims| claims.check_time(now)).unwrap_err().to_string()
    };
    assert!(fails(&token, ISSUER, later(700)).contains("has expired"));
    assert!(fails(&token, ISSUER, later(-100)).contains("not valid yet"));
    assert!(fails(&token, "vault", now).contains("target audiences [\"vault\"]"));
    let forged = Issuer::new(TokenIssuer::default()).issue(&grant(&own), now).unwrap();
    assert!(fails(&forged, ISSUER, now).contains("cryptographic"));
    assert_eq!(fails("abc", ISSUER, now), "invalid bearer token");
}

#[test]
fn verifier_accepts_tokens_of_the_issuers_key() {
    const NAME: &str = "https://127.0.0.1:6443/";
    let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
    let issuer = || Issuer::new(TokenIssuer::named(NAME).signing_with(&key).unwrap());
    let now = Timestamp::from_second(1_000_000).unwrap();
    let own = [NAME.to_owned()];
    let token = issuer().issue(&grant(&own), now).unwrap();
    assert!(issuer().verify(token.as_bytes(), &own).is_ok());
    assert_eq!(issuer().configuration("x")["issuer"], NAME);
}

#[test]
fn tokens_of_earlier_keys_and_names_are_accepted() {
    let rsa = include_str!("../keys/testdata/rsa-pkcs1.pem");
    let earlier = Issuer::new(TokenIssuer::named("https://old").signing_with(rsa).unwrap());
    let audience = ["api".to_owned()];
    let now = Timestamp::from_second(1_000_000).unwrap();
    let token = earlier.issue(&grant(&audience), now).unwrap();
    let with = |issuer: TokenIssuer| Issuer::new(issuer);
    let public = include_str!("../keys/testdata/rsa-pkcs1.pub");
    let current = with(TokenIssuer::named("https://new").accepting("https://old").verifying_with(public).unwrap());
    assert!(current.verify(token.as_bytes(), &audience).is_ok());
    let default = earlier.issue(&grant(earlier.audiences()), now).unwrap();
    assert!(current.verify(default.as_bytes(), current.audiences()).is_ok(), "the default audience is the issuer");
    let own = current.issue(&grant(&audience), now).unwrap();
    assert!(current.verify(own.as_bytes(), &audience).is_ok());
    assert_eq!(current.configuration("x")["id_token_signing_alg_values_supported"], json!(["ES256", "RS256"]));
    let keys = current.key_set();
    assert_eq!(
        (keys.items(&["keys"]).len(), &keys["keys"][1]["kty"], &keys["keys"][1]["e"]),
        (2, &json!("RSA"), &json!("AQAB"))
    );
    let other_name = with(TokenIssuer::named("https://new").verifying_with(public).unwrap());
    assert_eq!(other_name.verify(token.as_bytes(), &audience).unwrap_err().to_string(), "invalid bearer token");
    let other_key = with(TokenIssuer::named("https://new").accepting("https://old"));
    assert!(other_key.verify(token.as_bytes(), &audience).unwrap_err().to_string().contains("cryptographic"));
}
