//! Conversion between YAML and [`Kubeconfig`]. Fields are decoded individually, so that errors name the place and
//! contain no values.

use std::{collections::BTreeMap, path::PathBuf};

use serde_json::{Map, Value};
use serde_saphyr::options::DuplicateKeyPolicy;

use super::{AuthProvider, Cluster, Context, EnvVar, Exec, Kubeconfig, Named, Unknown, User};
use crate::{
    config_error::{ConfigError, Place},
    secret::Secret,
};

/// A mapping in the document with known fields.
trait Entry: Sized {
    /// Decodes the known fields.
    fn take(fields: Fields) -> Result<Self, ConfigError>;

    /// Returns all fields, including secrets. The known fields come first, in the order in which Go writes them.
    fn fields(&self) -> Map<String, Value>;
}

/// The kinds of named entries, with the key of each in the document.
trait Word {
    /// The key, such as `cluster`.
    const WORD: &'static str;
}

/// A mapping from which the known fields are removed. The remaining fields are unknown.
struct Fields {
    map: Map<String, Value>,
    place: Place,
}

/// A mapping to which fields are added. Fields without a value are omitted.
#[derive(Default)]
struct Written(Map<String, Value>);

impl Word for Cluster {
    const WORD: &'static str = "cluster";
}

impl Word for Context {
    const WORD: &'static str = "context";
}

impl Word for User {
    const WORD: &'static str = "user";
}

// === Reading ===

pub(super) fn parse(bytes: &[u8], origin: Option<PathBuf>) -> Result<Kubeconfig, ConfigError> {
    let place = Place::file(origin.clone());
    let document = yaml(bytes, &place)?;
    let mut fields = Fields::of(document, place)?;
    for (field, expected) in [("apiVersion", "v1"), ("kind", "Config")] {
        // Older tools omit these fields.
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

/// Parses the document.
pub(super) fn yaml(bytes: &[u8], place: &Place) -> Result<Value, ConfigError> {
    let syntax = |at| ConfigError::Syntax { place: Box::new(place.clone()), at };
    let text = std::str::from_utf8(bytes).map_err(|_| syntax(None))?;
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    // As in Go: of several documents the first is used, of duplicate keys the last.
    let options = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins };
    // The error's own text contains the surrounding lines, which may be secrets. Only its place is retained.
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options)
        .map_err(|error| syntax(error.location().map(|at| (at.line(), at.column()))))?;
    Ok(documents.into_iter().next().unwrap_or_default())
}

fn entries<T: Entry + Word>(
    document: &mut Fields,
    field: &str,
    origin: Option<&PathBuf>,
) -> Result<Vec<Named<T>>, ConfigError> {
    let list = document.list(field)?;
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

impl Fields {
    fn of(value: Value, place: Place) -> Result<Self, ConfigError> {
        match value {
            Value::Null => Ok(Self { map: Map::new(), place }),
            Value::Object(map) => Ok(Self { map, place }),
            other => Err(place.invalid(format!("is {}, not a map", kind_of(&other)))),
        }
    }

    /// Returns the place of a field: `exec.command` within `exec`.
    fn at(&self, field: &str) -> Place {
        match &self.place.field {
            Some(outer) => self.place.field(format!("{outer}.{field}")),
            None => self.place.field(field),
        }
    }

    /// Removes a field. `None` if it is missing or null.
    fn take(&mut self, field: &str) -> Option<Value> {
        self.map.shift_remove(field).filter(|value| !value.is_null())
    }

    fn text(&mut self, field: &str) -> Result<Option<String>, ConfigError> {
        self.take(field).map(|value| text(value, &self.at(field))).transpose()
    }

    fn secret(&mut self, field: &str) -> Result<Option<Secret>, ConfigError> {
        Ok(self.text(field)?.map(Secret::from))
    }

    fn flag(&mut self, field: &str) -> Result<Option<bool>, ConfigError> {
        match self.take(field) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(self.at(field).invalid(format!("is {}, not true or false", kind_of(&other)))),
        }
    }

    fn list(&mut self, field: &str) -> Result<Vec<Value>, ConfigError> {
        self.take(field).map_or_else(|| Ok(Vec::new()), |value| list(value, &self.at(field)))
    }

    fn texts(&mut self, field: &str) -> Result<Vec<String>, ConfigError> {
        let place = self.at(field);
        self.list(field)?.into_iter().map(|value| text(value, &place)).collect()
    }

    /// Removes a field with a mapping. `None` if it is missing.
    fn nested(&mut self, field: &str) -> Result<Option<Self>, ConfigError> {
        let place = self.at(field);
        self.take(field).map(|value| Self::of(value, place)).transpose()
    }

    fn entry<T: Entry>(&mut self, field: &str) -> Result<Option<T>, ConfigError> {
        self.nested(field)?.map(T::take).transpose()
    }

    /// Decodes each field of a mapping.
    fn each<T>(
        &mut self,
        field: &str,
        read: impl Fn(Value, &Place) -> Result<T, ConfigError>,
    ) -> Result<BTreeMap<String, T>, ConfigError> {
        let Some(nested) = self.nested(field)? else { return Ok(BTreeMap::new()) };
        let Self { map, place } = nested;
        let nested = Self { map: Map::new(), place };
        let each = map.into_iter().map(|(key, value)| {
            let value = read(value, &nested.at(&key))?;
            Ok((key, value))
        });
        each.collect()
    }

    fn rest(self) -> Unknown {
        Unknown(self.map)
    }
}

fn text(value: Value, place: &Place) -> Result<String, ConfigError> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(place.clone().invalid(format!("is {}, not text", kind_of(&other)))),
    }
}

fn list(value: Value, place: &Place) -> Result<Vec<Value>, ConfigError> {
    match value {
        Value::Array(list) => Ok(list),
        other => Err(place.clone().invalid(format!("is {}, not a list", kind_of(&other)))),
    }
}

/// Returns the type of a value without the value itself, which may be a secret.
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

// === Writing ===

pub(super) fn to_yaml(document: &Value) -> String {
    serde_saphyr::to_string(document).expect("maps with string keys always encode")
}

/// Returns the document, including secrets.
pub(super) fn to_value(kubeconfig: &Kubeconfig) -> Value {
    let mut written = Written::default();
    written.put("apiVersion", Some("v1"));
    written.put("clusters", Some(listed(&kubeconfig.clusters)));
    written.put("contexts", Some(listed(&kubeconfig.contexts)));
    written.put("current-context", Some(kubeconfig.current_context.as_deref().unwrap_or_default()));
    written.put("kind", Some("Config"));
    let mut map = written.with(&kubeconfig.other);
    map.insert("users".to_owned(), listed(&kubeconfig.users));
    map.into()
}

fn listed<T: Entry + Word>(entries: &[Named<T>]) -> Value {
    let entries = entries.iter().map(|named| {
        let mut written = Written::default();
        written.put(T::WORD, Some(named.entry.fields()));
        written.put("name", Some(&*named.name));
        Value::from(written.with(&named.other))
    });
    entries.collect()
}

impl Written {
    fn put(&mut self, name: &str, value: Option<impl Into<Value>>) {
        self.0.extend(value.map(|value| (name.to_owned(), value.into())));
    }

    fn secret(&mut self, name: &str, secret: Option<&Secret>) {
        self.put(name, secret.map(Secret::expose));
    }

    fn list(&mut self, name: &str, list: &[impl Clone + Into<Value>]) {
        self.put(name, Some(list).filter(|list| !list.is_empty()).map(<[_]>::to_vec));
    }

    fn map(&mut self, name: &str, map: Map<String, Value>) {
        self.put(name, Some(map).filter(|map| !map.is_empty()));
    }

    fn with(mut self, other: &Unknown) -> Map<String, Value> {
        self.0.extend(other.0.iter().map(|(field, value)| (field.clone(), value.clone())));
        self.0
    }
}

// === Entries ===

impl Entry for Cluster {
    fn take(mut fields: Fields) -> Result<Self, ConfigError> {
        Ok(Self {
            server: fields.text("server")?,
            tls_server_name: fields.text("tls-server-name")?,
            insecure_skip_tls_verify: fields.flag("insecure-skip-tls-verify")?,
            certificate_authority: fields.text("certificate-authority")?,
            certificate_authority_data: fields.text("certificate-authority-data")?,
            proxy_url: fields.secret("proxy-url")?,
            disable_compression: fields.flag("disable-compression")?,
            other: fields.rest(),
        })
    }

    fn fields(&self) -> Map<String, Value> {
        let mut written = Written::default();
        written.put("certificate-authority", self.certificate_authority.as_deref());
        written.put("certificate-authority-data", self.certificate_authority_data.as_deref());
        written.put("disable-compression", self.disable_compression);
        written.put("insecure-skip-tls-verify", self.insecure_skip_tls_verify);
        written.secret("proxy-url", self.proxy_url.as_ref());
        written.put("server", self.server.as_deref());
        written.put("tls-server-name", self.tls_server_name.as_deref());
        written.with(&self.other)
    }
}

impl Entry for Context {
    fn take(mut fields: Fields) -> Result<Self, ConfigError> {
        Ok(Self {
            cluster: fields.text("cluster")?,
            user: fields.text("user")?,
            namespace: fields.text("namespace")?,
            other: fields.rest(),
        })
    }

    fn fields(&self) -> Map<String, Value> {
        let mut written = Written::default();
        written.put("cluster", self.cluster.as_deref());
        written.put("namespace", self.namespace.as_deref());
        written.put("user", self.user.as_deref());
        written.with(&self.other)
    }
}

impl Entry for User {
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
            impersonate: fields.text("as")?,
            impersonate_uid: fields.text("as-uid")?,
            impersonate_groups: fields.texts("as-groups")?,
            impersonate_extra: fields.each("as-user-extra", |value, place| {
                list(value, place)?.into_iter().map(|value| text(value, place)).collect()
            })?,
            auth_provider: fields.entry("auth-provider")?,
            exec: fields.entry("exec")?,
            other: fields.rest(),
        })
    }

    fn fields(&self) -> Map<String, Value> {
        let mut written = Written::default();
        written.put("as", self.impersonate.as_deref());
        written.list("as-groups", &self.impersonate_groups);
        written.put("as-uid", self.impersonate_uid.as_deref());
        let extra = self.impersonate_extra.iter().map(|(key, values)| (key.clone(), values.clone().into()));
        written.map("as-user-extra", extra.collect());
        written.put("auth-provider", self.auth_provider.as_ref().map(Entry::fields));
        written.put("client-certificate", self.client_certificate.as_deref());
        written.put("client-certificate-data", self.client_certificate_data.as_deref());
        written.put("client-key", self.client_key.as_deref());
        written.secret("client-key-data", self.client_key_data.as_ref());
        written.put("exec", self.exec.as_ref().map(Entry::fields));
        written.secret("password", self.password.as_ref());
        written.secret("token", self.token.as_ref());
        written.put("tokenFile", self.token_file.as_deref());
        written.put("username", self.username.as_deref());
        written.with(&self.other)
    }
}

impl Entry for AuthProvider {
    fn take(mut fields: Fields) -> Result<Self, ConfigError> {
        Ok(Self {
            name: fields.text("name")?,
            config: fields.each("config", |value, place| text(value, place).map(Secret::from))?,
            other: fields.rest(),
        })
    }

    fn fields(&self) -> Map<String, Value> {
        let mut written = Written::default();
        let config = self.config.iter().map(|(key, value)| (key.clone(), value.expose().into()));
        written.map("config", config.collect());
        written.put("name", self.name.as_deref());
        written.with(&self.other)
    }
}

impl Entry for Exec {
    fn take(mut fields: Fields) -> Result<Self, ConfigError> {
        Ok(Self {
            command: fields.text("command")?,
            args: fields.texts("args")?,
            env: variables(&mut fields)?,
            api_version: fields.text("apiVersion")?,
            install_hint: fields.text("installHint")?,
            provide_cluster_info: fields.flag("provideClusterInfo")?,
            interactive_mode: fields.text("interactiveMode")?,
            other: fields.rest(),
        })
    }

    fn fields(&self) -> Map<String, Value> {
        let mut written = Written::default();
        written.put("apiVersion", self.api_version.as_deref());
        written.list("args", &self.args);
        written.put("command", self.command.as_deref());
        let variable = |variable: &EnvVar| {
            let mut written = Written::default();
            written.put("name", Some(&*variable.name));
            written.secret("value", Some(&variable.value));
            Value::from(written.0)
        };
        written.list("env", &self.env.iter().map(variable).collect::<Vec<_>>());
        written.put("installHint", self.install_hint.as_deref());
        written.put("interactiveMode", self.interactive_mode.as_deref());
        written.put("provideClusterInfo", self.provide_cluster_info);
        written.with(&self.other)
    }
}

fn variables(exec: &mut Fields) -> Result<Vec<EnvVar>, ConfigError> {
    let place = exec.at("env");
    let variable = |value| {
        let mut fields = Fields::of(value, place.clone())?;
        let (name, value) = (fields.text("name")?, fields.secret("value")?);
        Ok(EnvVar { name: name.unwrap_or_default(), value: value.unwrap_or_default() })
    };
    exec.list("env")?.into_iter().map(variable).collect()
}
