//! One version of a custom resource: its decoder and its strategy.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
};

use futures::future::BoxFuture;
use serde_json::Value;
use windlass_api::{Cause, FieldValidation, GroupKind, GroupResource, Status, StatusDetails, reason};

use super::{
    prune,
    schema::{Field, Schema},
    structural::stored_dialect,
    validate,
};
use crate::apiextensions::crd::{Crd, DefinitionVersion, ScalePaths};
use crate::{
    codec::{CustomKind, Decoded, Format, decode_object_meta, go_numbers, sort_keys, strict_error},
    field_manager::{self, Type},
    kubernetes::KubernetesVersion::{self, V1_34, V1_35, V1_36},
    object::{self, Causes, Errors, Tree},
    patch,
    resource::{
        Allocation, AllocationMode, Conversion, CustomColumn, CustomShape, Generation, Hub, MetadataRule, Resets,
        ResourceInfo, Rules, ScaleRule, Shape, Strategy, SubresourceInfo, VersionConverter,
    },
};

/// The decoder of one version.
#[derive(Debug)]
pub(super) struct CustomType {
    kubernetes: KubernetesVersion,
    group: String,
    version: String,
    kind: String,
    storage_version: String,
    compiled: Arc<Schema>,
    /// The schema as written in the CRD, for OpenAPI.
    schema: Value,
    columns: Vec<CustomColumn>,
    /// The selectable fields.
    selectable: Vec<String>,
    terminating: bool,
    /// The type for server-side apply, created on first use.
    merged: OnceLock<Arc<Type>>,
}

/// The strategy of one version.
#[derive(Debug)]
struct CustomStrategy {
    rules: Rules,
    shape: Arc<CustomType>,
    /// The validation rules in the schema, compiled on the first write.
    conditions: OnceLock<Option<windlass_cel::Rules>>,
    resource: GroupResource,
    scale_rule: Option<ScaleRule>,
    scale: Option<ScalePaths>,
    /// `true` if no objects can be created any more.
    terminating: bool,
}

const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const SUBRESOURCE_VERBS: [&str; 3] = ["get", "patch", "update"];

/// Returns the resources of a CRD: one per served version.
pub(super) fn resources(
    crd: &Crd,
    kubernetes: KubernetesVersion,
    translator: Option<Arc<dyn VersionConverter>>,
) -> Vec<Arc<ResourceInfo>> {
    let Some(storage) = crd.storage() else { return Vec::new() };
    let mut stored = Stored::new(crd, storage, kubernetes, translator);
    let types = Arc::clone(&stored.types);
    let (served, unserved): (Vec<_>, Vec<_>) =
        crd.versions.iter().zip(&*types).partition(|(version, _)| version.served);
    let infos = |stored: &Stored, versions: Vec<(&DefinitionVersion, &Arc<CustomType>)>| -> Vec<_> {
        let infos = versions.into_iter().map(|(version, ty)| resource(crd, version, Arc::clone(ty), stored));
        infos.map(Arc::new).collect()
    };
    stored.unserved = infos(&stored, unserved).into();
    infos(&stored, served)
}

/// Returns the prefix of the objects' keys.
pub(super) fn prefix(crd: &Crd) -> String {
    format!("/registry/{}/{}/", crd.group, crd.accepted.plural)
}

/// Returns the resource of the stored version, served or not.
pub(super) fn stored_resource(
    crd: &Crd,
    kubernetes: KubernetesVersion,
    translator: Option<Arc<dyn VersionConverter>>,
) -> Option<Arc<ResourceInfo>> {
    let storage = crd.storage()?;
    let stored = Stored::new(crd, storage, kubernetes, translator);
    Some(Arc::new(resource(crd, storage, Arc::clone(&stored.ty), &stored)))
}

/// The data that the versions of a CRD share: the stored version and the conversion to it.
struct Stored {
    ty: Arc<CustomType>,
    /// All versions in the order of the CRD. An object may be stored in any of them.
    types: Arc<[Arc<CustomType>]>,
    translator: Option<Arc<dyn VersionConverter>>,
    unserved: Arc<[Arc<ResourceInfo>]>,
}

impl Stored {
    fn new(
        crd: &Crd,
        storage: &DefinitionVersion,
        kubernetes: KubernetesVersion,
        translator: Option<Arc<dyn VersionConverter>>,
    ) -> Self {
        let type_of = |version| Arc::new(CustomType::new(crd, version, kubernetes, &storage.name));
        let ty = type_of(storage);
        let types = crd.versions.iter().map(|version| if version.storage { Arc::clone(&ty) } else { type_of(version) });
        Self { types: types.collect(), ty, translator, unserved: Arc::new([]) }
    }
}

fn resource(crd: &Crd, version: &DefinitionVersion, shape: Arc<CustomType>, stored: &Stored) -> ResourceInfo {
    let own = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    let (group, names) = (&crd.group, &crd.accepted);
    let mut subresources = Vec::new();
    if version.has_status {
        subresources.push(SubresourceInfo {
            name: "status".to_owned(),
            group: group.clone(),
            version: version.name.clone(),
            kind: names.kind.clone(),
            verbs: own(&SUBRESOURCE_VERBS),
        });
    }
    if version.scale.is_some() {
        subresources.push(SubresourceInfo {
            name: "scale".to_owned(),
            group: "autoscaling".to_owned(),
            version: "v1".to_owned(),
            kind: "Scale".to_owned(),
            verbs: own(&SUBRESOURCE_VERBS),
        });
    }
    let strategy = CustomStrategy::new(crd, version, &shape);
    // Objects in another version, or from an earlier generation of the CRD, may lack defaults of this version.
    // Otherwise no conversion is necessary, except to apply the default of a new object's absent status.
    let has_defaults = version.has_status && shape.compiled.properties.get("status").is_some_and(Schema::has_default);
    let is_only = crd.versions.len() == 1 && crd.generation <= 1 && !has_defaults;
    let conversion = (!is_only).then(|| conversion(&shape, stored));
    ResourceInfo {
        group: group.clone(),
        version: version.name.clone(),
        kind: names.kind.clone(),
        list_kind: names.list_kind.clone(),
        plural: names.plural.clone(),
        singular: names.singular.clone(),
        short_names: names.short_names.clone(),
        categories: names.categories.clone(),
        scope: crd.scope,
        verbs: own(&VERBS),
        subresources,
        prefix: prefix(crd),
        shape: Shape::Custom(shape),
        strategy: Arc::new(strategy),
        conversion,
        deprecation: version.deprecation.clone(),
    }
}

/// Returns the conversion between a version and the stored one: apiVersion, schema and webhook.
fn conversion(shown: &Arc<CustomType>, stored: &Stored) -> Conversion {
    let convert = |target: &Arc<CustomType>| {
        let target = Arc::clone(target);
        move |mut object: Value| {
            target.convert_in_place(&mut object);
            object
        }
    };
    let types = Arc::clone(&stored.types);
    Conversion {
        hub: Hub::Requested,
        complete: Arc::new(move |object| {
            let version = object.text(&["apiVersion"]).rsplit('/').next().unwrap_or_default();
            if let Some(ty) = types.iter().find(|ty| ty.version == version) {
                ty.complete(object);
            }
        }),
        stored: Shape::Custom(Arc::clone(&stored.ty) as Arc<dyn CustomShape>),
        from_stored: Arc::new(convert(shown)),
        to_stored: Arc::new(convert(&stored.ty)),
        translator: stored.translator.clone(),
        unserved: Arc::clone(&stored.unserved),
    }
}

// === impl CustomType ===

impl CustomType {
    fn new(crd: &Crd, version: &DefinitionVersion, kubernetes: KubernetesVersion, storage_version: &str) -> Self {
        Self {
            kubernetes,
            group: crd.group.clone(),
            version: version.name.clone(),
            kind: crd.accepted.kind.clone(),
            storage_version: storage_version.to_owned(),
            compiled: Arc::new(Schema::compile(&version.schema, kubernetes)),
            schema: version.schema.clone(),
            columns: CustomColumn::read_all(&version.columns),
            selectable: version.selectable.clone(),
            terminating: crd.terminating,
            merged: OnceLock::new(),
        }
    }

    fn as_kind(&self) -> CustomKind<'_> {
        CustomKind { group: &self.group, version: &self.version, kind: &self.kind }
    }

    /// Adds the defaults that an object of this version may lack because it was stored under an earlier schema.
    fn complete(&self, object: &mut Value) {
        prune::drop_nulls(object, &self.compiled);
        prune::default(object, &self.compiled);
    }

    /// Converts an object to this version: sets its apiVersion and prunes its fields.
    fn convert_in_place(&self, object: &mut Value) {
        if let Some(entries) = object.as_object_mut() {
            entries.insert("apiVersion".to_owned(), format!("{}/{}", self.group, self.version).into());
        }
        prune::prune(object, &self.compiled);
        sort_keys(object);
    }

    /// Prunes and orders an object, and normalizes its metadata to the Go type. Returns the paths of unknown fields;
    /// the error is Go's message.
    fn prune_and_normalize(
        &self,
        object: &mut Value,
        validation: FieldValidation,
        unknown: UnknownFields,
    ) -> Result<Vec<String>, String> {
        let mut warnings = Vec::new();
        if let Some(metadata) = object.get_mut("metadata") {
            let decoded = decode_object_meta(metadata, validation)?;
            warnings.extend(decoded.warnings);
            *metadata = decoded.value;
        }
        if unknown == UnknownFields::Drop {
            let pruned = prune::prune(object, &self.compiled);
            warnings.extend(pruned.into_iter().map(|path| format!("unknown field {path:?}")));
        }
        normalize_embedded(object, &self.compiled, "", validation, &mut warnings)?;
        if validation == FieldValidation::Ignore {
            warnings.clear();
        }
        go_numbers(object);
        sort_keys(object);
        Ok(warnings)
    }
}

/// The handling of fields that are not in the schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UnknownFields {
    Keep,
    Drop,
}

/// Normalizes the metadata of embedded objects to the Go type.
fn normalize_embedded(
    value: &mut Value,
    schema: &Schema,
    path: &str,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<(), String> {
    match value {
        Value::Object(entries) => {
            if schema.embedded
                && let Some(metadata) = entries.get_mut("metadata")
            {
                let decoded = decode_object_meta(metadata, validation)
                    .map_err(|message| format!("{path}.metadata: Invalid value: {metadata}: {message}"))?;
                // Makes the paths of unknown fields relative to the whole object.
                let inside = |warning: String| warning.replacen("\"metadata.", &format!("\"{path}.metadata."), 1);
                warnings.extend(decoded.warnings.into_iter().map(inside));
                *metadata = decoded.value;
            }
            for (name, value) in entries {
                if let Field::Known(schema) = schema.field(name) {
                    let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    normalize_embedded(value, schema, &below, validation, warnings)?;
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                for (index, item) in items.iter_mut().enumerate() {
                    normalize_embedded(item, schema, &format!("{path}[{index}]"), validation, warnings)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

impl CustomShape for CustomType {
    fn decode(&self, body: &[u8], format: Format, validation: FieldValidation) -> Result<Decoded, Status> {
        let decoded = self.as_kind().decode(body, format, validation)?;
        let (mut value, mut warnings) = (decoded.value, decoded.warnings);
        let kind = value.text(&["kind"]).to_owned();
        if kind != self.kind {
            let mut errors = Errors::default();
            errors.invalid(&crate::object::Path::new("kind"), &kind, &format!("must be {}", self.kind));
            let name = value.text(&["metadata", "name"]).to_owned();
            errors.check(&GroupKind::new(self.group.clone(), kind.clone()), &name)?;
        }
        let content_error = |message: &str| Status::from(self.as_kind().content_error(&kind, message));
        prune::drop_nulls(&mut value, &self.compiled);
        warnings.extend(
            self.prune_and_normalize(&mut value, validation, UnknownFields::Drop)
                .map_err(|message| content_error(&message))?,
        );
        if validation == FieldValidation::Strict && !warnings.is_empty() {
            return Err(content_error(&strict_error(&warnings)));
        }
        Ok(Decoded { value, warnings })
    }

    fn normalize(&self, value: Value, validation: FieldValidation) -> Result<Decoded, Status> {
        let mut normalized = value.clone();
        prune::drop_nulls(&mut normalized, &self.compiled);
        let shown = || crate::codec::go_json(&value);
        let warnings = self
            .prune_and_normalize(&mut normalized, validation, UnknownFields::Drop)
            .map_err(|message| patch::invalid(&shown(), &message))?;
        if validation == FieldValidation::Strict && !warnings.is_empty() {
            return Err(patch::invalid(&shown(), &strict_error(&warnings)));
        }
        Ok(Decoded { value: normalized, warnings })
    }

    fn arrange(&self, mut value: Value) -> Result<Value, Status> {
        self.prune_and_normalize(&mut value, FieldValidation::Ignore, UnknownFields::Keep).map_err(Status::internal)?;
        Ok(value)
    }

    fn prune(&self, value: &mut Value) {
        prune::prune(value, &self.compiled);
        prune::drop_nulls(value, &self.compiled);
    }

    fn storage_version(&self) -> &str {
        &self.storage_version
    }

    fn merge_type(&self) -> Arc<Type> {
        Arc::clone(self.merged.get_or_init(|| Arc::new(field_manager::custom(self.kubernetes, &self.schema))))
    }

    fn columns(&self) -> &[CustomColumn] {
        &self.columns
    }

    fn schema(&self) -> &Value {
        &self.schema
    }

    fn selectable(&self) -> &[String] {
        &self.selectable
    }

    fn is_terminating(&self) -> bool {
        self.terminating
    }
}

// === impl CustomStrategy ===

impl CustomStrategy {
    fn new(crd: &Crd, version: &DefinitionVersion, shape: &Arc<CustomType>) -> Self {
        let path = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        let scale_rule = version.scale.as_ref().map(|scale| ScaleRule {
            spec_replicas: path(&scale.spec_replicas),
            status_replicas: path(&scale.status_replicas),
            selector: scale.selector.as_deref().map(path),
        });
        Self {
            scale_rule,
            rules: Rules {
                kubernetes: shape.kubernetes,
                resets: match version.has_status {
                    true if shape.kubernetes < V1_36 => {
                        Resets { status_unowned: Some(&["spec"]), ..Resets::BARE_STATUS }
                    }
                    true => Resets::BARE_STATUS,
                    false => Resets::NONE,
                },
                metadata: MetadataRule::CHANGES,
                generation: Generation::Content,
                unconditional_update: false,
                ..if version.has_status { Rules::WITH_STATUS } else { Rules::COMMON }
            },
            shape: Arc::clone(shape),
            conditions: OnceLock::new(),
            resource: GroupResource::new(crd.group.clone(), crd.accepted.plural.clone()),
            scale: version.scale.clone(),
            terminating: crd.terminating,
        }
    }

    /// Validates an object, or the part of it at `path`. Unchanged values are not validated.
    fn validate_at(&self, new: &Value, old: Option<&Value>, path: &str, errors: &mut Errors) {
        let mut causes = Causes::default();
        let schema = &*self.shape.compiled;
        if path.is_empty() {
            validate::validate(new, old, schema, "", "", &mut causes);
            validate::validate_embedded(new, schema, "", self.shape.kubernetes, &mut causes);
        } else if let (Some(value), Some(schema)) = (new.at(&[path]), schema.properties.get(path)) {
            let old = old.and_then(|old| old.at(&[path]));
            validate::validate(value, old, schema, path, path, &mut causes);
            validate::validate_embedded(value, schema, path, self.shape.kubernetes, &mut causes);
        }
        if let Some(scale) = &self.scale {
            check_scale(new, scale, path, &mut causes);
        }
        errors.append_causes(causes);
        self.apply_rules(new, old, errors);
    }

    /// Evaluates the validation rules in the schema, unless earlier errors could mislead them.
    fn apply_rules(&self, new: &Value, old: Option<&Value>, errors: &mut Errors) {
        const STRUCTURAL_REASONS: [&str; 5] = [
            "FieldValueNotSupported",
            "FieldValueRequired",
            "FieldValueTooLong",
            "FieldValueTooMany",
            "FieldValueTypeInvalid",
        ];
        let rules = self.conditions.get_or_init(|| {
            let rules = windlass_cel::Rules::compile_in(stored_dialect(self.shape.kubernetes), &self.shape.schema)?;
            Some(rules.show_types(self.shape.kubernetes < V1_35))
        });
        let Some(rules) = rules else { return };
        if errors.has_any(&STRUCTURAL_REASONS) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing \
                       errors to complete validation";
            errors.invalid(&crate::object::Path::new("<nil>"), &Value::Null, why);
            return;
        }
        let verdict = rules.validate(new, old);
        errors.append_rule_errors(verdict.causes);
        for warning in verdict.warnings {
            errors.warn(warning);
        }
    }
}

/// Validates the fields of the scale subresource. A non-empty `part` restricts the check to that part of the object.
fn check_scale(object: &Value, scale: &ScalePaths, part: &str, causes: &mut Causes) {
    for path in [&scale.spec_replicas, &scale.status_replicas] {
        let steps = path.split('.').collect::<Vec<_>>();
        if !part.is_empty() && steps.first() != Some(&part) {
            continue;
        }
        let (shown, detail) = match replicas(object, &steps) {
            Ok(Some(count)) if count < 0 => (count, "should be a non-negative integer".to_owned()),
            Ok(_) => continue,
            Err(why) => (0, why),
        };
        let message = format!("Invalid value: {shown}: {detail}");
        causes.push(Cause { reason: "FieldValueInvalid".to_owned(), message, field: format!(".{path}") });
    }
}

/// Returns the number at a path, or `None` if it is absent. The error is Go's message for a value of another type.
fn replicas(object: &Value, steps: &[&str]) -> Result<Option<i64>, String> {
    let type_error = |value: &Value, depth: usize, expected: &str| {
        let (path, shown, ty) = (steps[..depth].join("."), patch::go_format(value), patch::go_type(value));
        Err(format!(".{path} accessor error: {shown} is of the type {ty}, expected {expected}"))
    };
    let mut value = object;
    for (index, step) in steps.iter().enumerate() {
        value = match value {
            Value::Null => return Ok(None),
            Value::Object(entries) => match entries.get(*step) {
                Some(value) => value,
                None => return Ok(None),
            },
            other => return type_error(other, index + 1, "map[string]interface{}"),
        };
    }
    match value.as_i64() {
        Some(count) => Ok(Some(count)),
        None => type_error(value, steps.len(), "int64"),
    }
}

impl Strategy for CustomStrategy {
    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn scale(&self) -> Option<&ScaleRule> {
        self.scale_rule.as_ref()
    }

    fn default(&self, object: &mut Value) {
        prune::default(object, &self.shape.compiled);
    }

    fn validate_create(&self, object: &object::Field<'_>, errors: &mut Errors) {
        self.validate_at(object.json(), None, "", errors);
    }

    fn validate_update(&self, new: &object::Field<'_>, old: &object::Field<'_>, errors: &mut Errors) {
        self.validate_at(new.json(), Some(old.json()), "", errors);
    }

    fn validate_status(&self, new: &object::Field<'_>, old: &object::Field<'_>, errors: &mut Errors) {
        self.validate_at(new.json(), Some(old.json()), "status", errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let known = old.map_or(&[][..], |old| old.items(&["metadata", "finalizers"]));
        let standard = ["kubernetes", "orphan", "foregroundDeletion"];
        let finalizers = new.items(&["metadata", "finalizers"]).iter().filter(|finalizer| !known.contains(finalizer));
        let finalizers = finalizers.filter_map(Value::as_str);
        let plain = finalizers.filter(|text| !text.contains('/') && !standard.contains(text));
        plain
            .map(|text| {
                format!(
                    "metadata.finalizers: {text:?}: prefer a domain-qualified finalizer name to avoid accidental conflicts \
                     with other finalizer writers"
                )
            })
            .collect()
    }

    fn allocate<'a>(
        &'a self,
        new: &'a mut Value,
        old: Option<&'a Value>,
        _mode: AllocationMode,
    ) -> Option<BoxFuture<'a, Result<Box<dyn Allocation>, Status>>> {
        if !self.terminating || old.is_some() {
            return None;
        }
        let why = "create not allowed while custom resource definition is terminating";
        let rejection = if self.shape.kubernetes < V1_34 {
            let details = StatusDetails {
                group: self.resource.group.clone().into_owned(),
                kind: self.resource.resource.clone().into_owned(),
                ..StatusDetails::default()
            };
            Status::failure(405, reason::METHOD_NOT_ALLOWED, why).with_details(details)
        } else {
            Status::forbidden(&self.resource, new.text(&["metadata", "name"]), why)
        };
        Some(Box::pin(std::future::ready(Err(rejection))))
    }

    fn field<'v>(&self, object: &'v Value, label: &str) -> Cow<'v, str> {
        let path = label.split('.').collect::<Vec<_>>();
        match object.at(&path) {
            Some(Value::String(text)) => Cow::Borrowed(text),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => Cow::Owned(value.to_string()),
            _ => Cow::Borrowed(""),
        }
    }

    fn knows_field(&self, label: &str) -> bool {
        self.shape.selectable.iter().any(|field| field == label)
    }
}
