//! The recorded schemas. They are looked up in the text, because parsing all of them would need more memory than an
//! idle server.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    sync::OnceLock,
};

use serde_json::{Value, json};

use crate::{
    descriptions::Schemas,
    kubernetes::{
        KubernetesVersion,
        removed::{REMOVED, RemovedKind, RemovedVersion},
    },
};

pub(crate) const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
pub(crate) const REFERENCE: &str = "#/components/schemas/";

/// The schemas that belong to a kind in every group. The documents list the kinds.
const MULTI_GROUP: [&str; 2] =
    ["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent"];

/// The schemas of a Kubernetes version, by name and by kind.
#[derive(Debug)]
pub(crate) struct Recorded {
    text: &'static str,
    by_name: BTreeMap<&'static str, &'static str>,
    /// The names of the schemas of kinds, by `group/version/kind`.
    by_kind: BTreeMap<String, &'static str>,
}

/// Returns the schemas of a Kubernetes version.
pub(crate) fn of(kubernetes: KubernetesVersion) -> &'static Recorded {
    static SCHEMAS: [OnceLock<Recorded>; KubernetesVersion::ALL.len()] =
        [const { OnceLock::new() }; KubernetesVersion::ALL.len()];
    SCHEMAS[kubernetes.index()].get_or_init(|| Recorded::parse(&kubernetes.tables().openapi))
}

/// Returns the first kind that a schema lists, as `group/version/kind`.
fn kind(json: &str) -> Option<String> {
    let list = json.split_once("\"x-kubernetes-group-version-kind\":[{")?.1;
    let entry = &list[..list.find('}')?];
    let field = |name: &str| {
        let value = entry.split_once(&format!("\"{name}\":\""))?.1;
        Some(&value[..value.find('"')?])
    };
    Some(format!("{}/{}/{}", field("group")?, field("version")?, field("kind")?))
}

// === impl Recorded ===

impl Recorded {
    fn parse(text: &'static str) -> Self {
        let by_name = text.lines().filter_map(|line| line.split_once('\t')).collect::<BTreeMap<_, _>>();
        let mut by_kind = BTreeMap::new();
        for (name, json) in &by_name {
            if let Some(kind) = kind(json) {
                by_kind.insert(kind, *name);
            }
        }
        let mut recorded = Self { text, by_name, by_kind };
        for removed in REMOVED {
            for kind in removed.kinds {
                recorded.add_removed(removed, kind);
            }
        }
        recorded
    }

    /// Adds the schemas of a kind of a removed version and of its list: those of the successor, with other names. A spec
    /// with other fields has no schema.
    fn add_removed(&mut self, removed: &RemovedVersion, kind: &RemovedKind) {
        let RemovedVersion { group, version, successor, .. } = removed;
        let of_item = (kind.name.to_owned(), self.of_kind(group, successor, kind.name));
        let list_kind = format!("{}List", kind.name);
        let of_list = self.of_kind(group, successor, &list_kind);
        let mut renamed = Vec::new();
        for (kind_name, name) in [of_item, (list_kind, of_list)] {
            let Some(name) = name else { return };
            let Some(package) = name.strip_suffix(&format!("{successor}.{kind_name}")) else { return };
            renamed.push((kind_name.clone(), name, format!("{package}{version}.{kind_name}")));
        }
        for (kind_name, name, new_name) in &renamed {
            let mut json = self.by_name[name].replace(
                &format!(r#""kind":"{kind_name}","version":"{successor}""#),
                &format!(r#""kind":"{kind_name}","version":"{version}""#),
            );
            let [(_, item, new_item), _] = renamed.as_slice() else { return };
            json = json.replace(&format!("{REFERENCE}{item}\""), &format!("{REFERENCE}{new_item}\""));
            if kind.has_own_spec
                && let Ok(mut schema) = serde_json::from_str::<Value>(&json)
                && let Some(spec) = schema.pointer_mut("/properties/spec")
            {
                *spec = json!({"type": "object"});
                json = schema.to_string();
            }
            // Parsed once per Kubernetes version, like the recorded ones.
            let (json, new_name): (&'static str, &'static str) = (json.leak(), new_name.clone().leak());
            self.by_name.insert(new_name, json);
            self.by_kind.insert(format!("{group}/{version}/{kind_name}"), new_name);
        }
    }

    /// Returns all schemas, one per line: name, tab, JSON.
    pub(crate) const fn text(&self) -> &'static str {
        self.text
    }

    /// Returns the JSON of a recorded schema.
    pub(crate) fn schema(&self, name: &str) -> Option<&'static str> {
        self.by_name.get(name).copied()
    }

    /// Returns the name of the recorded schema of a kind.
    pub(crate) fn of_kind(&self, group: &str, version: &str, kind: &str) -> Option<&'static str> {
        self.by_kind.get(&format!("{group}/{version}/{kind}")).copied()
    }

    /// Returns the names of all recorded schemas that these texts refer to, directly or indirectly.
    pub(crate) fn closure<'t>(&self, texts: impl IntoIterator<Item = &'t str>) -> BTreeSet<&'static str> {
        let mut found = BTreeSet::new();
        let mut open = Vec::new();
        let mut scan = |text: &str, open: &mut Vec<&'static str>| {
            for reference in text.split(REFERENCE).skip(1) {
                let name = reference.split(['"', '\\']).next().unwrap_or_default();
                if let Some((name, json)) = self.by_name.get_key_value(name)
                    && found.insert(*name)
                {
                    open.push(json);
                }
            }
        };
        for text in texts {
            scan(text, &mut open);
        }
        while let Some(json) = open.pop() {
            scan(json, &mut open);
        }
        found
    }

    /// Appends a recorded schema to `out`, in the form for the document of a group version.
    pub(crate) fn write(&self, out: &mut String, name: &str, group: &str, version: &str, descriptions: &Schemas) {
        let json = self.described(name, descriptions);
        let json = &*json;
        if !MULTI_GROUP.contains(&name) {
            out.push_str(json);
            return;
        }
        let kind = name.rsplit('.').next().unwrap_or_default();
        let entry =
            |group: &str, version: &str| format!(r#"{{"group":"{group}","kind":"{kind}","version":"{version}"}}"#);
        let mut kinds = entry("", "v1");
        if !group.is_empty() {
            kinds.push(',');
            kinds.push_str(&entry(group, version));
        }
        let open = json.strip_suffix('}').unwrap_or(json);
        // Writing into a String cannot fail.
        let _ = write!(out, r#"{open},"x-kubernetes-group-version-kind":[{kinds}]}}"#);
    }

    fn described(&self, name: &str, descriptions: &Schemas) -> Cow<'static, str> {
        let json = self.schema(name).unwrap_or("{}");
        if descriptions.is_empty() {
            return json.into();
        }
        let Ok(mut schema) = serde_json::from_str(json) else { return json.into() };
        descriptions.describe(name, &mut schema);
        schema.to_string().into()
    }
}

#[cfg(test)]
mod tests {
    use crate::schemas::*;

    #[test]
    fn schemas_are_found_by_group_version_and_kind() {
        let schemas = of(KubernetesVersion::default());
        assert_eq!(schemas.of_kind("apps", "v1", "Deployment"), Some("io.k8s.api.apps.v1.Deployment"));
        assert_eq!(schemas.of_kind("", "v1", "PodList"), Some("io.k8s.api.core.v1.PodList"));
        assert_eq!(schemas.of_kind("autoscaling", "v1", "Scale"), Some("io.k8s.api.autoscaling.v1.Scale"));
        assert_eq!(schemas.of_kind("", "v1", "Nothing"), None);
    }

    #[test]
    fn closure_contains_direct_and_indirect_references() {
        let reference = format!("{REFERENCE}io.k8s.api.core.v1.ConfigMapList\"");
        let found = of(KubernetesVersion::default()).closure([reference.as_str()]);
        assert!(found.contains("io.k8s.api.core.v1.ConfigMap"));
        assert!(found.contains("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"));
        assert!(!found.contains("io.k8s.api.core.v1.Pod"));
    }
}
