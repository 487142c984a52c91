//! `cargo xtask clientset`: generates the accessors of windlass-client's `Clientset` from the recorded discovery.
//!
//! The output is formatted Rust: a struct per group and version, a method per resource, and a line with the
//! capabilities of each resource. The bodies of the verbs are not generated. Resources that older minor versions of
//! k8s-openapi do not have are gated by its `k8s_if_ge_…` macros.

pub(crate) mod minors;

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    process::{Command, Stdio},
};

use crate::{
    Result,
    generated::{self, Mode},
    upstream,
};

pub(crate) const DISCOVERY: &str = "crates/windlass-server/data/discovery.tsv";
const GROUPS: &str = "crates/windlass-client/src/clientset/groups.rs";

/// Verbs and their traits in `windlass_client::can`.
const VERBS: [(&str, &str); 8] = [
    ("get", "Get"),
    ("list", "List"),
    ("watch", "Watch"),
    ("create", "Create"),
    ("update", "Update"),
    ("patch", "Patch"),
    ("delete", "Delete"),
    ("deletecollection", "DeleteCollection"),
];

/// Subresources and their traits. Streaming subresources have no trait, because they are not used through accessors.
const SUBRESOURCES: [(&str, Option<&str>); 14] = [
    ("approval", Some("Approval")),
    ("attach", None),
    ("binding", Some("Bind")),
    ("ephemeralcontainers", Some("EphemeralContainers")),
    ("eviction", Some("Evict")),
    ("exec", None),
    ("finalize", Some("Finalize")),
    ("log", None),
    ("portforward", None),
    ("proxy", None),
    ("resize", Some("Resize")),
    ("scale", Some("Scale")),
    ("status", Some("Status")),
    ("token", Some("Token")),
];

/// Groups whose types are outside `api` in k8s-openapi, with the path of their module.
const ELSEWHERE: [(&str, &str); 2] = [
    ("apiextensions.k8s.io", "apiextensions_apiserver::pkg::apis::apiextensions"),
    ("apiregistration.k8s.io", "kube_aggregator::pkg::apis::apiregistration"),
];

/// One version of a group.
#[derive(Debug, PartialEq)]
struct Group<'t> {
    name: &'t str,
    version: &'t str,
    resources: Vec<Resource<'t>>,
    /// Kinds of this group and version that are only used as subresources, such as `Scale`.
    parts: Vec<&'t str>,
}

#[derive(Debug, PartialEq)]
struct Resource<'t> {
    plural: &'t str,
    kind: &'t str,
    is_namespaced: bool,
    abilities: Vec<&'static str>,
    /// The first minor version of Kubernetes with this kind; `None` if all supported ones have it.
    since: Option<u32>,
}

/// Writes the accessors. With [`Mode::Check`], returns an error if they would change.
pub(crate) fn run(mode: Mode) -> Result {
    let table = fs::read_to_string(upstream::root().join(DISCOVERY))?;
    let mut groups = parse(&table)?;
    let minors = minors::Minors::of_workspace()?;
    for group in &mut groups {
        let module = group.module();
        for resource in &mut group.resources {
            resource.since = minors.since(&module, resource.kind)?;
        }
    }
    let source = formatted(&render(&groups))?;
    generated::write_or_check(&upstream::root().join(GROUPS), source.as_bytes(), mode)
}

// === reading the table ===

fn parse(table: &str) -> Result<Vec<Group<'_>>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    // The group of such a kind may come later in the table.
    let mut parts: Vec<(&str, &str)> = Vec::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('@') {
            let (name, version) = name.split_once('/').ok_or_else(|| format!("no version in {line:?}"))?;
            groups.push(Group { name, version, resources: Vec::new(), parts: Vec::new() });
            continue;
        }
        let group = groups.last_mut().ok_or("a resource before any group")?;
        let cells: Vec<&str> = line.split('\t').collect();
        match cells[..] {
            ["", subresource, elsewhere, kind, ..] => {
                if !elsewhere.is_empty() {
                    parts.push((elsewhere, kind));
                }
                let resource = group.resources.last_mut().ok_or("a subresource before any resource")?;
                let known = SUBRESOURCES.iter().find(|(name, _)| *name == subresource);
                let (_, ability) =
                    known.ok_or_else(|| format!("{}/{subresource}: an unknown subresource", resource.plural))?;
                resource.abilities.extend(ability);
            }
            [plural, kind, _, scope, verbs, ..] => {
                let abilities = abilities(kind, verbs)?;
                group.resources.push(Resource { plural, kind, is_namespaced: scope == "N", abilities, since: None });
            }
            _ => return Err(format!("{line:?}: too few cells").into()),
        }
    }
    for (api_version, kind) in parts {
        let group = groups.iter_mut().find(|group| group.api_version() == api_version);
        let group = group.ok_or_else(|| format!("{kind}: {api_version} is not served"))?;
        if !group.parts.contains(&kind) {
            group.parts.push(kind);
        }
    }
    Ok(groups)
}

fn abilities(kind: &str, verbs: &str) -> Result<Vec<&'static str>> {
    // The response to a binding is a `Status`, not a binding.
    if kind == "Binding" {
        return Ok(vec!["Submit"]);
    }
    let verbs: Vec<&str> = verbs.split(',').collect();
    if let Some(unknown) = verbs.iter().find(|verb| !VERBS.iter().any(|(known, _)| known == *verb)) {
        return Err(format!("{kind}: the unknown verb {unknown:?}").into());
    }
    if verbs.len() == VERBS.len() {
        return Ok(vec!["All"]);
    }
    Ok(VERBS.iter().filter(|(verb, _)| verbs.contains(verb)).map(|(_, ability)| *ability).collect())
}

// === writing the source ===

fn render(groups: &[Group<'_>]) -> String {
    let mut out = "//! Generated by `cargo xtask clientset` from the discovery documents of a real kube-apiserver; do not edit.\n\n\
                   use windlass_api::k8s_openapi::{\n"
        .to_owned();
    for group in groups.iter().filter(|group| group.since().is_none()) {
        out += &format!("    {} as {},\n", group.module(), group.method());
    }
    let gates: BTreeSet<u32> = groups.iter().flat_map(|group| &group.resources).filter_map(|kind| kind.since).collect();
    for minor in &gates {
        out += &format!("    k8s_if_ge_1_{minor},\n");
    }
    out += "};\nuse windlass_api::{GroupVersionKind, Scheme, SchemeError};\n\nuse super::Clientset;\nuse crate::{Client, accessor::{Accessor, served}};\n";
    for group in groups.iter().filter(|group| group.since().is_some()) {
        let import = format!("use windlass_api::k8s_openapi::{} as {};\n", group.module(), group.method());
        out += &format!("\n{}", gated(group.since(), &import));
    }
    out += "\nimpl Clientset {\n";
    for (index, group) in groups.iter().enumerate() {
        let gap = if index == 0 { "" } else { "\n" };
        let method = format!(
            "/// The resources of `{}`.\n#[must_use]\npub fn {}(&self) -> {} {{\n    {}(self.client.clone())\n}}\n",
            group.api_version(),
            group.method(),
            group.type_name(),
            group.type_name(),
        );
        out += &format!("{gap}{}", gated(group.since(), &method));
    }
    out += "}\n";
    for group in groups {
        out += &format!("\n{}", gated(group.since(), &group.render()));
    }
    out += "\n/// Registers all of these kinds in a scheme.\n\
            #[inline]\n            pub(super) fn register(scheme: &mut Scheme) -> Result<(), SchemeError> {\n";
    out += &registrations(groups, None);
    for minor in gates {
        out += &gated(Some(minor), &registrations(groups, Some(minor)));
    }
    out + "    Ok(())\n}\n"
}

/// Returns the statement that registers the kinds with this first minor version.
fn registrations(groups: &[Group<'_>], since: Option<u32>) -> String {
    let mut out = "    scheme".to_owned();
    for group in groups {
        let (module, name, version) = (group.method(), group.name, group.version);
        for Resource { kind, .. } in group.resources.iter().filter(|resource| resource.since == since) {
            out += &format!("\n        .register::<{module}::{kind}>()?");
        }
        // These kinds have no URL, so their types do not implement all traits of a resource.
        for kind in group.parts.iter().filter(|_| group.since() == since) {
            let kind_of = format!("GroupVersionKind::new(\"{name}\", \"{version}\", \"{kind}\")");
            out += &format!("\n        .register_as::<{module}::{kind}>({kind_of})?");
        }
    }
    out + ";\n"
}

/// Returns code that is compiled with this minor version and later ones only. rustfmt does not format it.
fn gated(since: Option<u32>, code: &str) -> String {
    let Some(minor) = since else { return code.to_owned() };
    // rustfmt moves the code with the macro, relative to its first line.
    let margin = code.len() - code.trim_start().len();
    let indented = code.lines().map(|line| match line.get(margin..) {
        None | Some("") => "\n".to_owned(),
        Some(line) => format!("    {line}\n"),
    });
    format!("k8s_if_ge_1_{minor}! {{\n{}}}\n", indented.collect::<String>())
}

impl Group<'_> {
    /// Returns the first minor version with a resource of this group; `None` if all supported ones have one.
    fn since(&self) -> Option<u32> {
        self.resources.iter().map(|resource| resource.since).min().flatten()
    }

    /// Returns the gate of a resource inside the gate of its group.
    fn inner(&self, resource: &Resource<'_>) -> Option<u32> {
        resource.since.filter(|_| resource.since != self.since())
    }

    fn render(&self) -> String {
        let mut out = format!(
            "/// The resources of `{}`.\n#[derive(Clone, Debug)]\npub struct {}(Client);\n\nimpl {} {{\n",
            self.api_version(),
            self.type_name(),
            self.type_name(),
        );
        for (index, resource) in self.resources.iter().enumerate() {
            let Resource { plural, kind, is_namespaced, .. } = resource;
            let gap = if index == 0 { "" } else { "\n" };
            let (parameter, argument) =
                if *is_namespaced { (", namespace: impl Into<String>", "namespace") } else { ("", "\"\"") };
            // Inline: an accessor without a generic parameter would be compiled here, with the encoder of its kind.
            let inline = if *is_namespaced { "" } else { "    #[inline]\n" };
            let method = format!(
                "    /// `{plural}`\n{inline}    pub fn {}(&self{parameter}) -> Accessor<{}::{kind}> {{\n        Accessor::typed(&self.0, {argument})\n    }}\n",
                plural_method(kind, plural),
                self.method(),
            );
            out += &format!("{gap}{}", gated(self.inner(resource), &method));
        }
        out += "}\n";
        let gates: BTreeSet<Option<u32>> = self.resources.iter().map(|resource| self.inner(resource)).collect();
        for gate in gates {
            let mut table = "served! {\n".to_owned();
            for resource in self.resources.iter().filter(|resource| self.inner(resource) == gate) {
                table += &format!("    {}::{}: {};\n", self.method(), resource.kind, resource.abilities.join(" "));
            }
            out += &format!("\n{}", gated(gate, &(table + "}\n")));
        }
        out
    }

    fn api_version(&self) -> String {
        if self.name.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.name, self.version) }
    }

    /// Returns the first part of the name, the short name of the group.
    fn short(&self) -> &str {
        if self.name.is_empty() { "core" } else { self.name.split('.').next().unwrap_or_default() }
    }

    fn method(&self) -> String {
        format!("{}_{}", self.short(), self.version)
    }

    fn type_name(&self) -> String {
        capitalized(self.short()) + &capitalized(self.version)
    }

    fn module(&self) -> String {
        let elsewhere = ELSEWHERE.iter().find(|(group, _)| *group == self.name);
        let path = elsewhere.map_or_else(|| format!("api::{}", self.short()), |(_, path)| (*path).to_owned());
        format!("{path}::{}", self.version)
    }
}

/// `HorizontalPodAutoscaler`, `horizontalpodautoscalers` → `horizontal_pod_autoscalers`
fn plural_method(kind: &str, plural: &str) -> String {
    let words = words(kind);
    let (_, first) = words.split_last().unwrap_or((&words[0], &[]));
    let prefix: String = first.concat();
    let last = plural.strip_prefix(&prefix).unwrap_or(plural);
    first.iter().map(String::as_str).chain([last]).collect::<Vec<_>>().join("_")
}

/// Splits a camel-case name into lower-case words. Consecutive capitals are one word, except the last one before a
/// lower-case letter: `CSINode` becomes `csi`, `node`.
pub(crate) fn words(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut words: Vec<String> = Vec::new();
    for (at, letter) in letters.iter().enumerate() {
        let is_upper = |at: usize| letters.get(at).is_some_and(char::is_ascii_uppercase);
        let is_lower = |at: usize| letters.get(at).is_some_and(char::is_ascii_lowercase);
        let begins = is_upper(at) && (at == 0 || is_lower(at - 1) || is_lower(at + 1));
        match words.last_mut() {
            Some(word) if !begins => word.push(letter.to_ascii_lowercase()),
            _ => words.push(letter.to_ascii_lowercase().to_string()),
        }
    }
    words
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase().to_string()).unwrap_or_default() + letters.as_str()
}

/// Formats the source with rustfmt and the configuration of this workspace.
pub(crate) fn formatted(source: &str) -> Result<String> {
    let mut rustfmt = Command::new("rustfmt")
        .args(["--edition=2024", "--config-path"])
        .arg(upstream::root().join("rustfmt.toml"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("start rustfmt: {error}"))?;
    rustfmt.stdin.take().ok_or("rustfmt has no input")?.write_all(source.as_bytes())?;
    let output = rustfmt.wait_with_output()?;
    if !output.status.success() {
        return Err("rustfmt rejects the generated source".into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# comment\n@/v1\nbindings\tBinding\tbinding\tN\tcreate\n\
                         componentstatuses\tComponentStatus\tcomponentstatus\tC\tget,list\tcs\n\
                         pods\tPod\tpod\tN\tcreate,delete,deletecollection,get,list,patch,update,watch\tpo\n\
                         \tlog\t\tPod\tget\n\tstatus\t\tPod\tget,patch,update\n";

    #[test]
    fn accessors_have_the_verbs_and_subresources() {
        let groups = parse(TABLE).unwrap();
        let abilities: Vec<_> = groups[0].resources.iter().map(|resource| resource.abilities.join(" ")).collect();
        assert_eq!(abilities, ["Submit", "Get List", "All Status"]);
        let source = render(&groups);
        assert!(source.contains("pub fn core_v1(&self) -> CoreV1"), "{source}");
        assert!(source.contains("pub fn pods(&self, namespace: impl Into<String>) -> Accessor<core_v1::Pod>"));
        assert!(source.contains("pub fn component_statuses(&self) -> Accessor<core_v1::ComponentStatus>"));
    }

    #[test]
    fn every_built_in_resource_has_an_accessor() {
        let read = |page: &str| fs::read_to_string(upstream::root().join(page)).unwrap();
        let (table, source) = (read(DISCOVERY), read(GROUPS));
        let mut resources = 0;
        for group in parse(&table).unwrap() {
            assert!(source.contains(&format!("pub fn {}(&self) -> {} {{", group.method(), group.type_name())));
            let (_, own) = source.split_once(&format!("impl {} {{\n", group.type_name())).unwrap();
            let (own, _) = own.split_once("served! {").unwrap();
            for Resource { plural, kind, is_namespaced, .. } in &group.resources {
                let parameter = if *is_namespaced { ", namespace: impl Into<String>" } else { "" };
                let accessor = format!(
                    "pub fn {}(&self{parameter}) -> Accessor<{}::{kind}> {{",
                    plural_method(kind, plural),
                    group.method()
                );
                // rustfmt breaks long lines.
                let own = own.split_whitespace().collect::<String>().replace(",)", ")");
                assert!(own.contains(&accessor.split_whitespace().collect::<String>()), "{accessor}");
                resources += 1;
            }
        }
        assert!(resources > 60, "{resources}");
    }

    #[test]
    fn newer_kinds_and_groups_are_gated() {
        let mut groups = parse("@/v1\na\tA\ta\tN\tget\nb\tB\tb\tN\tget\n@x.io/v1\nc\tC\tc\tN\tget\n").unwrap();
        groups[0].resources[1].since = Some(36);
        groups[1].resources[0].since = Some(34);
        let source = render(&groups);
        assert!(
            source.contains("k8s_if_ge_1_34! {\n    use windlass_api::k8s_openapi::api::x::v1 as x_v1;\n}"),
            "{source}"
        );
        assert!(source.contains("k8s_if_ge_1_36! {\n    served! {\n        core_v1::B: Get;\n    }\n}"), "{source}");
        assert_eq!(source.matches("k8s_if_ge_1_36! {").count(), 3, "{source}"); // the method, its verbs, the scheme
        assert!(formatted(&source).is_ok(), "{source}");
    }

    #[test]
    fn kinds_that_are_parts_of_others_are_known_once() {
        let table = "@/v1\npods\tPod\tpod\tN\tget\n\tscale\tautoscaling/v1\tScale\tget\n\
                     nodes\tNode\tnode\tC\tget\n\tscale\tautoscaling/v1\tScale\tget\n@autoscaling/v1\n";
        let source = render(&parse(table).unwrap());
        assert_eq!(source.matches(".register_as::<autoscaling_v1::Scale>(").count(), 1, "{source}");
        assert!(source.contains(".register::<core_v1::Node>()?"), "{source}");
        let error = parse(table.strip_suffix("@autoscaling/v1\n").unwrap()).unwrap_err().to_string();
        assert_eq!(error, "Scale: autoscaling/v1 is not served");
    }

    #[test]
    fn unknown_entry_is_an_error() {
        let error = |table: &str| parse(table).unwrap_err().to_string();
        assert_eq!(error("@/v1\na\tA\ta\tN\tget\n\todd\t\tA\tget"), "a/odd: an unknown subresource");
        assert_eq!(error("@/v1\na\tA\ta\tN\tget,juggle"), "A: the unknown verb \"juggle\"");
    }

    #[test]
    fn accessor_methods_are_plural_kind_names() {
        for (kind, plural, method) in [
            ("Pod", "pods", "pods"),
            ("Endpoints", "endpoints", "endpoints"),
            ("NetworkPolicy", "networkpolicies", "network_policies"),
            ("CSIStorageCapacity", "csistoragecapacities", "csi_storage_capacities"),
            ("IPAddress", "ipaddresses", "ip_addresses"),
            ("ServiceCIDR", "servicecidrs", "service_cidrs"),
        ] {
            assert_eq!(plural_method(kind, plural), method);
        }
    }
}
