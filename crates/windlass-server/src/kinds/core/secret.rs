//! `Secret`.

use base64::{Engine, engine::general_purpose::STANDARD};

use crate::{
    codec::check_json,
    kinds::{
        core::config_map::{MAX_SIZE, validate_binary_data, validate_immutable},
        prelude::*,
    },
};

pub(super) const KIND: Kind = Kind {
    name: "Secret",
    rules: Rules { fields: &[FieldRule { label: "type", path: "type" }], changes_first: true, ..Rules::COMMON },
    default,
    validate,
    validate_update,
    ..BASE
};

fn default(object: &mut Value) {
    let secret = as_object(object);
    default_to(secret, "type", "Opaque");
    // Merges the write-only field into the data.
    if let Some(Value::Object(texts)) = secret.shift_remove("stringData") {
        let data = object_mut(object, "data");
        for (key, text) in texts {
            data.insert(key, STANDARD.encode(text.as_str().unwrap_or_default()).into());
        }
    }
}

fn validate(object: &Field<'_>, errors: &mut Errors) {
    let data = object.child("data");
    if validate_binary_data(&data, errors) > MAX_SIZE {
        data.too_long(MAX_SIZE, errors);
    }
    validate_type(object, &data, errors);
}

fn validate_update(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    new.check_immutable(old, &["type"], errors);
    validate_immutable(&["data"], new, old, errors);
}

/// Validates that a secret has the data that its type requires.
fn validate_type(secret: &Field<'_>, data: &Field<'_>, errors: &mut Errors) {
    let required: &[&str] = match secret.child("type").text() {
        "kubernetes.io/service-account-token" => {
            let annotations = secret.child("metadata.annotations");
            let account = annotations.key("kubernetes.io/service-account.name");
            account.check_not_empty("", errors);
            &[]
        }
        "kubernetes.io/basic-auth" if data.key("username").is_set() || data.key("password").is_set() => &[],
        "kubernetes.io/basic-auth" => &["username", "password"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        _ => &[],
    };
    for key in required {
        let value = data.key(key);
        if !value.is_set() {
            value.required("", errors);
        } else if key.starts_with(".docker")
            && let Err(problem) = check_docker_config(value.text())
        {
            value.invalid_as("<secret contents redacted>", &problem, errors);
        }
    }
}

/// Checks that a Docker configuration in base64 is a JSON object. The error is Go's message.
fn check_docker_config(text: &str) -> Result<(), String> {
    let bytes = STANDARD.decode(text).unwrap_or_default();
    check_json(&bytes)?;
    let found = match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{' | b'n') | None => return Ok(()),
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "bool",
        Some(_) => "number",
    };
    Err(format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"))
}
