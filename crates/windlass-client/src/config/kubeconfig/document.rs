//! Between YAML and [`Kubeconfig`]. Fields are taken one by one, so that an error names its place and shows no value.

use std::path::PathBuf;

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value};

use super::{Cluster, Context, Kubeconfig, Named, Unknown, User};
use crate::{
    auth::Secret,
    config::{ConfigError, Place},
};

/// The kinds of entries, each under its own word.
trait Entry: Sized {
    /// `cluster`
    const WORD: &'static str;

    fn take(fields: Fields) -> Result<Self, ConfigError>;

    fn fields(&self) -> Vec<(&'static str, Value)>;

    fn other(&self) -> &Unknown;
}

/// An object whose fields are being taken out; what stays is what nobody knew.
struct Fields {
    map: Map<String, Value>,
    place: Place,
}

pub(super) fn parse(bytes: &[u8], origin: Option<PathBuf>) -> Result<Kubeconfig, ConfigError> {
    let place = Place::file(origin.clone());
    let document = yaml(bytes, &place)?;
    let mut fields = Fields::of(document, place)?;
    for (field, expected) in [("apiVersion", "v1"), ("kind", "Config")] {
        // Older tools leave them out.
        if let Some(found) = fields.text(field)?.filter(|found| !found.is_empty() && found != expected) {
            return Err(fields.place.field(field).invalid(format!("is {found:?} where {expected:?} is expected")));
        }
    }
    Ok(Kubeconfig {
        clusters: entries(&mut fields, "clusters", origin.as_ref())?,
        contexts: entries(&mut fields, "contexts", origin.as_ref())?,
        users: entries(&mut fields, "users", origin.as_ref())?,
        current_context: fields.text("current-context")?,
        other: fields.rest(),
        origin,
    })
}

pub(super) fn to_yaml(kubeconfig: &Kubeconfig) -> String {
    serde_saphyr::to_string(kubeconfig).expect("maps with string keys always encode")
}

fn yaml(bytes: &[u8], place: &Place) -> Result<Value, ConfigError> {
    let syntax = |at| ConfigError::Syntax { place: Box::new(place.clone()), at };
    let text = std::str::from_utf8(bytes).map_err(|_| syntax(None))?;
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    // The error's own text shows the lines around it, which may be secrets: only its place is kept.
    serde_saphyr::from_str(text).map_err(|error| syntax(error.location().map(|at| (at.line(), at.column()))))
}

fn entries<T: Entry>(
    document: &mut Fields,
    field: &str,
    origin: Option<&PathBuf>,
) -> Result<Vec<Named<T>>, ConfigError> {
    let place = document.place.field(field);
    let list = match document.map.shift_remove(field) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(other) => return Err(place.invalid(format!("is {}, not a list", kind_of(&other)))),
    };
    let mut entries: Vec<Named<T>> = Vec::with_capacity(list.len());
    for (index, item) in list.into_iter().enumerate() {
        let mut fields = Fields::of(item, document.place.entry(format!("{field}[{index}]")))?;
        let name = fields.text("name")?.unwrap_or_default();
        if name.is_empty() {
            return Err(fields.place.field("name").invalid("is not set"));
        }
        let place = document.place.entry(format!("{} {name:?}", T::WORD));
        if entries.iter().any(|known| known.name == name) {
            return Err(place.invalid("is there twice"));
        }
        let content = fields.map.shift_remove(T::WORD).unwrap_or_default();
        let entry = T::take(Fields::of(content, place)?)?;
        entries.push(Named { name, entry, other: fields.rest(), origin: origin.cloned() });
    }
    Ok(entries)
}

// === impl Fields ===

impl Fields {
    fn of(value: Value, place: Place) -> Result<Self, ConfigError> {
        match value {
            Value::Null => Ok(Self { map: Map::new(), place }),
            Value::Object(map) => Ok(Self { map, place }),
            other => Err(place.invalid(format!("is {}, not a map", kind_of(&other)))),
        }
    }

    fn text(&mut self, field: &str) -> Result<Option<String>, ConfigError> {
        match self.map.shift_remove(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.place.field(field).invalid(format!("is {}, not text", kind_of(&other)))),
        }
    }

    fn secret(&mut self, field: &str) -> Result<Option<Secret>, ConfigError> {
        Ok(self.text(field)?.map(Secret::from))
    }

    fn flag(&mut self, field: &str) -> Result<Option<bool>, ConfigError> {
        match self.map.shift_remove(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(self.place.field(field).invalid(format!("is {}, not true or false", kind_of(&other)))),
        }
    }

    fn rest(self) -> Unknown {
        Unknown(self.map)
    }
}

/// What a value is, without saying which one: it may be a secret.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

// === the entries ===

impl Entry for Cluster {
    const WORD: &'static str = "cluster";

    fn take(mut fields: Fields) -> Result<Self, ConfigError> {
        Ok(Self {
            server: fields.text("server")?,
            tls_server_name: fields.text("tls-server-name")?,
            insecure_skip_tls_verify: fields.flag("insecure-skip-tls-verify")?,
            certificate_authority: fields.text("certificate-authority")?,
            certificate_authority_data: fields.text("certificate-authority-data")?,
            other: fields.rest(),
        })
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        let mut fields = Vec::new();
        push(&mut fields, "certificate-authority", self.certificate_authority.as_deref());
        push(&mut fields, "certificate-authority-data", self.certificate_authority_data.as_deref());
        push(&mut fields, "insecure-skip-tls-verify", self.insecure_skip_tls_verify);
        push(&mut fields, "server", self.server.as_deref());
        push(&mut fields, "tls-server-name", self.tls_server_name.as_deref());
        fields
    }

    fn other(&self) -> &Unknown {
        &self.other
    }
}

impl Entry for Context {
    const WORD: &'static str = "context";

    fn take(mut fields: Fields) -> Result<Self, ConfigError> {
        Ok(Self {
            cluster: fields.text("cluster")?,
            user: fields.text("user")?,
            namespace: fields.text("namespace")?,
            other: fields.rest(),
        })
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        let mut fields = Vec::new();
        push(&mut fields, "cluster", self.cluster.as_deref());
        push(&mut fields, "namespace", self.namespace.as_deref());
        push(&mut fields, "user", self.user.as_deref());
        fields
    }

    fn other(&self) -> &Unknown {
        &self.other
    }
}

impl Entry for User {
    const WORD: &'static str = "user";

    fn take(mut fields: Fields) -> Result<Self, ConfigError> {
        Ok(Self {
            client_certificate: fields.text("client-certificate")?,
            client_certificate_data: fields.text("client-certificate-data")?,
            client_key: fields.text("client-key")?,
            client_key_data: fields.secret("client-key-data")?,
            token: fields.secret("token")?,
            token_file: fields.text("tokenFile")?,
            username: fields.text("username")?,
            password: fields.secret("password")?,
            other: fields.rest(),
        })
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        let mut fields = Vec::new();
        let exposed = |secret: &'_ Option<Secret>| secret.as_ref().map(|secret| secret.expose().to_owned());
        push(&mut fields, "client-certificate", self.client_certificate.as_deref());
        push(&mut fields, "client-certificate-data", self.client_certificate_data.as_deref());
        push(&mut fields, "client-key", self.client_key.as_deref());
        push(&mut fields, "client-key-data", exposed(&self.client_key_data));
        push(&mut fields, "password", exposed(&self.password));
        push(&mut fields, "token", exposed(&self.token));
        push(&mut fields, "tokenFile", self.token_file.as_deref());
        push(&mut fields, "username", self.username.as_deref());
        fields
    }

    fn other(&self) -> &Unknown {
        &self.other
    }
}

fn push(fields: &mut Vec<(&'static str, Value)>, name: &'static str, value: Option<impl Into<Value>>) {
    fields.extend(value.map(|value| (name, value.into())));
}

// === writing ===

impl Serialize for Kubeconfig {
    /// Secrets included: this is the document.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("apiVersion", "v1")?;
        map.serialize_entry("clusters", &self.clusters)?;
        map.serialize_entry("contexts", &self.contexts)?;
        map.serialize_entry("current-context", self.current_context.as_deref().unwrap_or_default())?;
        map.serialize_entry("kind", "Config")?;
        for (field, value) in &self.other.0 {
            map.serialize_entry(field, value)?;
        }
        map.serialize_entry("users", &self.users)?;
        map.end()
    }
}

#[allow(private_bounds, reason = "the three entries are all there are")]
impl<T: Entry> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(T::WORD, &EntryFields(&self.entry))?;
        map.serialize_entry("name", &self.name)?;
        for (field, value) in &self.other.0 {
            map.serialize_entry(field, value)?;
        }
        map.end()
    }
}

struct EntryFields<'e, T>(&'e T);

impl<T: Entry> Serialize for EntryFields<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (field, value) in self.0.fields() {
            map.serialize_entry(field, &value)?;
        }
        for (field, value) in &self.0.other().0 {
            map.serialize_entry(field, value)?;
        }
        map.end()
    }
}
