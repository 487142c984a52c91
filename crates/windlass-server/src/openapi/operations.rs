//! The operations on the paths of a resource, as one model for both versions of OpenAPI.

use std::collections::BTreeMap;

use super::{custom, root};
use crate::resource::{ResourceInfo, Shape, SubresourceInfo};
use crate::schemas::{self, META};

/// A path with its operations.
#[derive(Debug)]
pub(super) struct PathItem {
    /// For example `/apis/apps/v1/namespaces/{namespace}/deployments`.
    pub(super) path: String,
    /// The operations, in the order of the real server's documents.
    pub(super) operations: Vec<Operation>,
}

/// One method of a path.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) method: &'static str,
    /// For example `apps_v1`.
    pub(super) tag: String,
    /// For example `listAppsV1NamespacedDeployment`.
    pub(super) id: String,
    /// For example `list`. `None` for discovery.
    pub(super) action: Option<&'static str>,
    /// Group, version and kind if there is an action.
    pub(super) kind: [String; 3],
    /// Sorted by name.
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<Body>,
    pub(super) responses: Vec<Response>,
}

/// A parameter in the path or the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    /// `string`, `integer` or `boolean`.
    pub(super) kind: &'static str,
    pub(super) in_path: bool,
}

/// A request body.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) media: &'static [&'static str],
    pub(super) schema: String,
    pub(super) required: bool,
}

/// A response.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) code: u16,
    pub(super) media: &'static [&'static str],
    pub(super) schema: String,
}

const ANY: &[&str] = &["*/*"];
const JSON: &[&str] = &["application/json"];
const JSON_YAML: &[&str] = &["application/json", "application/yaml"];
const ALL: &[&str] = &["application/json", "application/vnd.kubernetes.protobuf", "application/yaml"];
const ALL_STREAMED: &[&str] = &[
    "application/json",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf",
    "application/vnd.kubernetes.protobuf;stream=watch",
    "application/yaml",
];
const PATCHES: &[&str] = &[
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

const LIST: &[Parameter] = &[
    query("allowWatchBookmarks", "boolean"),
    query("continue", "string"),
    query("fieldSelector", "string"),
    query("labelSelector", "string"),
    query("limit", "integer"),
    query("resourceVersion", "string"),
    query("resourceVersionMatch", "string"),
    query("sendInitialEvents", "boolean"),
    query("shardSelector", "string"),
    query("timeoutSeconds", "integer"),
    query("watch", "boolean"),
];
const DELETE: &[Parameter] = &[
    query("dryRun", "string"),
    query("gracePeriodSeconds", "integer"),
    query("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    query("orphanDependents", "boolean"),
    query("propagationPolicy", "string"),
];
const WRITE: &[Parameter] =
    &[query("dryRun", "string"), query("fieldManager", "string"), query("fieldValidation", "string")];
const FORCE: Parameter = query("force", "boolean");
const PRETTY: Parameter = query("pretty", "string");
const NAME: Parameter = Parameter { name: "name", kind: "string", in_path: true };
const NAMESPACE: Parameter = Parameter { name: "namespace", kind: "string", in_path: true };

/// The kinds whose deletion returns the object.
const RETURNED: [&str; 16] = [
    "csidrivers",
    "csinodes",
    "deviceclasses",
    "persistentvolumeclaims",
    "persistentvolumes",
    "pods",
    "podtemplates",
    "resourceclaims",
    "resourceclaimtemplates",
    "resourcequotas",
    "resourceslices",
    "serviceaccounts",
    "services",
    "storageclasses",
    "volumeattachments",
    "volumeattributesclasses",
];

const fn query(name: &'static str, kind: &'static str) -> Parameter {
    Parameter { name, kind, in_path: false }
}

/// Returns the single path of a document for discovery.
pub(super) fn discovery(path: String, tag: &str, id: String, schema: String) -> PathItem {
    let media = if tag == "version" { JSON } else { ALL };
    let operation = Operation {
        method: "get",
        tag: tag.to_owned(),
        id,
        action: None,
        kind: Default::default(),
        parameters: Vec::new(),
        body: None,
        responses: vec![Response { code: 200, media, schema }],
    };
    PathItem { path, operations: vec![operation] }
}

/// Returns all paths of a resource and its subresources.
pub(super) fn paths(resource: &ResourceInfo) -> Vec<PathItem> {
    let builder = OperationBuilder::new(resource);
    let base = format!("/{}", root(&resource.group, &resource.version));
    let plural = &resource.plural;
    let (collection, scope) = if resource.is_namespaced() {
        (format!("{base}/namespaces/{{namespace}}/{plural}"), "Namespaced")
    } else {
        (format!("{base}/{plural}"), "")
    };
    let item = format!("{collection}/{{name}}");
    let mut all = vec![builder.collection(collection.clone(), scope), builder.item(item.clone(), scope)];
    if resource.is_namespaced() && resource.has_verb("list") {
        let everywhere = builder.list(&format!("{}ForAllNamespaces", resource.kind), &[]);
        all.push(PathItem { path: format!("{base}/{plural}"), operations: vec![everywhere] });
    }
    if resource.has_verb("watch") && !builder.custom {
        all.extend(builder.watches(&base, scope));
    }
    all.extend(resource.subresources.iter().map(|subresource| builder.subresource(&item, subresource, scope)));
    all.retain(|item| !item.operations.is_empty());
    all
}

/// Returns the name of a group in camel case, such as `Apps` or `RbacAuthorization`.
pub(super) fn camel_group(group: &str) -> String {
    if group.is_empty() {
        return "Core".to_owned();
    }
    group.trim_end_matches(".k8s.io").split(['.', '-']).map(title).collect()
}

/// Returns the name of a group for tags, such as `apps` or `rbacAuthorization`.
pub(super) fn tag_group(group: &str) -> String {
    let camel = camel_group(group);
    let mut letters = camel.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

pub(super) fn title(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Generates the operations of one resource.
struct OperationBuilder<'a> {
    resource: &'a ResourceInfo,
    custom: bool,
    /// For example `AppsV1`.
    version: String,
    tag: String,
    schema: String,
    list_schema: String,
    path_parameters: &'static [Parameter],
}

impl<'a> OperationBuilder<'a> {
    fn new(resource: &'a ResourceInfo) -> Self {
        let custom = matches!(resource.shape, Shape::Custom(_));
        let recorded = schemas::of(resource.shape.kubernetes());
        let name = |kind: &str| match recorded.of_kind(&resource.group, &resource.version, kind) {
            Some(name) if !custom => name.to_owned(),
            _ => custom::schema_name(&resource.group, &resource.version, kind),
        };
        Self {
            resource,
            custom,
            version: format!("{}{}", camel_group(&resource.group), title(&resource.version)),
            tag: format!("{}_{}", tag_group(&resource.group), resource.version),
            schema: name(&resource.kind),
            list_schema: name(&resource.list_kind),
            path_parameters: if resource.is_namespaced() { &[NAMESPACE] } else { &[] },
        }
    }

    fn media(&self) -> &'static [&'static str] {
        if self.custom { JSON_YAML } else { ALL }
    }

    fn request_media(&self) -> &'static [&'static str] {
        if self.custom { JSON_YAML } else { ANY }
    }

    fn operation(
        &self,
        method: &'static str,
        action: &'static str,
        id: String,
        parameters: &[&[Parameter]],
    ) -> Operation {
        let mut parameters = parameters.iter().copied().flatten().copied().chain([PRETTY]).collect::<Vec<_>>();
        parameters.sort_by_key(|parameter| parameter.name);
        let ResourceInfo { group, version, kind, .. } = self.resource;
        Operation {
            method,
            tag: self.tag.clone(),
            id,
            action: Some(action),
            kind: [group.clone(), version.clone(), kind.clone()],
            parameters,
            body: None,
            responses: Vec::new(),
        }
    }

    /// Returns the same response for several codes.
    fn responses(&self, codes: &[u16], schema: &str) -> Vec<Response> {
        let response = |code: &u16| Response { code: *code, media: self.media(), schema: schema.to_owned() };
        codes.iter().map(response).collect()
    }

    fn list(&self, what: &str, path_parameters: &[Parameter]) -> Operation {
        let id = format!("list{}{what}", self.version);
        let mut operation = self.operation("get", "list", id, &[path_parameters, LIST]);
        let media = if self.custom { JSON_YAML } else { ALL_STREAMED };
        operation.responses.push(Response { code: 200, media, schema: self.list_schema.clone() });
        operation
    }

    fn collection(&self, path: String, scope: &str) -> PathItem {
        let (kind, version) = (&self.resource.kind, &self.version);
        let mut operations = Vec::new();
        if self.resource.has_verb("list") {
            operations.push(self.list(&format!("{scope}{kind}"), self.path_parameters));
        }
        if self.resource.has_verb("create") {
            let id = format!("create{version}{scope}{kind}");
            let mut create = self.operation("post", "post", id, &[self.path_parameters, WRITE]);
            create.body = Some(Body { media: self.request_media(), schema: self.schema.clone(), required: true });
            create.responses = self.responses(&[200, 201, 202], &self.schema);
            operations.push(create);
        }
        if self.resource.has_verb("deletecollection") {
            let id = format!("delete{version}Collection{scope}{kind}");
            // For custom resources the documents omit deletion parameters and offer `watch` instead.
            let list = LIST.iter().filter(|p| self.custom || !matches!(p.name, "watch" | "allowWatchBookmarks"));
            let list = list.copied().collect::<Vec<_>>();
            let delete = if self.custom { &[] } else { DELETE };
            let mut all = self.operation("delete", "deletecollection", id, &[self.path_parameters, &list, delete]);
            if !self.custom {
                all.body = Some(self.delete_options());
            }
            all.responses = self.responses(&[200], &format!("{META}Status"));
            operations.push(all);
        }
        PathItem { path, operations }
    }

    fn delete_options(&self) -> Body {
        Body { media: self.request_media(), schema: format!("{META}DeleteOptions"), required: false }
    }

    fn item(&self, path: String, scope: &str) -> PathItem {
        let what = format!("{}{scope}{}", self.version, self.resource.kind);
        let verbs = |verb: &str| self.resource.has_verb(verb);
        let mut operations = self.read_and_write(&what, verbs, &self.schema);
        if self.resource.has_verb("delete") {
            let parameters: [&[Parameter]; 3] = [self.path_parameters, &[NAME], DELETE];
            let mut delete = self.operation("delete", "delete", format!("delete{what}"), &parameters);
            delete.body = Some(self.delete_options());
            let returned = !self.custom && RETURNED.contains(&self.resource.plural.as_str());
            let status = format!("{META}Status");
            delete.responses = self.responses(&[200, 202], if returned { &self.schema } else { &status });
            operations.push(delete);
        }
        operations
            .sort_by_key(|operation| ["get", "put", "delete", "patch"].iter().position(|m| *m == operation.method));
        PathItem { path, operations }
    }

    /// Returns get, update and patch of an object or a subresource.
    fn read_and_write(&self, what: &str, has: impl Fn(&str) -> bool, schema: &str) -> Vec<Operation> {
        let path: [&[Parameter]; 2] = [self.path_parameters, &[NAME]];
        let mut operations = Vec::new();
        if has("get") {
            let version: &[Parameter] = if self.custom { &[query("resourceVersion", "string")] } else { &[] };
            let mut get = self.operation("get", "get", format!("read{what}"), &[path[0], path[1], version]);
            get.responses = self.responses(&[200], schema);
            operations.push(get);
        }
        if has("update") {
            let mut put = self.operation("put", "put", format!("replace{what}"), &[path[0], path[1], WRITE]);
            put.body = Some(Body { media: self.request_media(), schema: schema.to_owned(), required: true });
            put.responses = self.responses(&[200, 201], schema);
            operations.push(put);
        }
        if has("patch") {
            let parameters: [&[Parameter]; 4] = [path[0], path[1], WRITE, &[FORCE]];
            let mut change = self.operation("patch", "patch", format!("patch{what}"), &parameters);
            let media = if self.custom { &PATCHES[..3] } else { PATCHES };
            change.body = Some(Body { media, schema: format!("{META}Patch"), required: true });
            change.responses = self.responses(if self.custom { &[200] } else { &[200, 201] }, schema);
            operations.push(change);
        }
        operations
    }

    fn watches(&self, base: &str, scope: &str) -> Vec<PathItem> {
        let (plural, kind, version) = (&self.resource.plural, &self.resource.kind, &self.version);
        let watch = |path: String, action: &'static str, id: String, parameters: &[&[Parameter]]| {
            let mut watch = self.operation("get", action, id, &[parameters, &[LIST]].concat());
            let schema = format!("{META}WatchEvent");
            watch.responses.push(Response { code: 200, media: ALL_STREAMED, schema });
            PathItem { path, operations: vec![watch] }
        };
        let namespace = if scope.is_empty() { "" } else { "namespaces/{namespace}/" };
        let collection = format!("{base}/watch/{namespace}{plural}");
        let mut all = vec![
            watch(
                format!("{collection}/{{name}}"),
                "watch",
                format!("watch{version}{scope}{kind}"),
                &[self.path_parameters, &[NAME]],
            ),
            watch(collection, "watchlist", format!("watch{version}{scope}{kind}List"), &[self.path_parameters]),
        ];
        if !scope.is_empty() {
            let id = format!("watch{version}{kind}ListForAllNamespaces");
            all.push(watch(format!("{base}/watch/{plural}"), "watchlist", id, &[]));
        }
        all
    }

    fn subresource(&self, item: &str, subresource: &SubresourceInfo, scope: &str) -> PathItem {
        let path = format!("{item}/{}", subresource.name);
        let what = format!("{}{scope}{}{}", self.version, self.resource.kind, title(&subresource.name));
        let SubresourceInfo { group, version, kind, .. } = subresource;
        let has = |verb: &str| subresource.verbs.iter().any(|own| own == verb);
        let schema = match schemas::of(self.resource.shape.kubernetes()).of_kind(group, version, kind) {
            Some(name) => name.to_owned(),
            None if self.custom => self.schema.clone(),
            // A subresource for connections, such as `exec`: its kind contains options and has no schema here.
            None => return PathItem { path, operations: Vec::new() },
        };
        let mut operations = match subresource.name.as_str() {
            "log" | "exec" | "attach" | "portforward" | "proxy" => Vec::new(),
            _ => self.read_and_write(&what, has, &schema),
        };
        if has("create") && !has("get") {
            let parameters: [&[Parameter]; 3] = [self.path_parameters, &[NAME], WRITE];
            let mut create = self.operation("post", "post", format!("create{what}"), &parameters);
            create.body = Some(Body { media: self.request_media(), schema: schema.clone(), required: true });
            create.responses = self.responses(&[200, 201, 202], &schema);
            operations.push(create);
        }
        if !self.custom {
            for operation in &mut operations {
                operation.kind = [group.clone(), version.clone(), kind.clone()];
            }
        }
        PathItem { path, operations }
    }
}

// === impl PathItem ===

impl PathItem {
    /// Returns the parameters that all operations share, and the remaining parameters of each operation.
    pub(super) fn shared_parameters(&self) -> (Vec<Parameter>, Vec<Vec<Parameter>>) {
        let mut counts = BTreeMap::<(&str, bool), (Parameter, usize)>::new();
        for parameter in self.operations.iter().flat_map(|operation| &operation.parameters) {
            counts.entry((parameter.name, parameter.in_path)).or_insert((*parameter, 0)).1 += 1;
        }
        let all = self.operations.len();
        let shared = counts.values().filter(|(_, count)| *count == all).map(|(p, _)| *p).collect::<Vec<_>>();
        let own = self.operations.iter().map(|operation| {
            operation.parameters.iter().copied().filter(|parameter| !shared.contains(parameter)).collect()
        });
        let own = own.collect();
        (shared, own)
    }
}
