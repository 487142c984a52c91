//! Imports CRDs of widely used operators as types: all without a compiler, and five of them with it.

use std::{fs, path::Path, process::Command};

use crate::{
    Result,
    cargo::{cargo, succeed},
    scaffold::Folder,
    upstream::root,
};

/// The environment variable with the folder of CRDs.
const CRDS: &str = "WINDLASS_CRDS";

/// CRD files, and the project code for their kinds.
const COMPILED: [(&str, &str); 5] = [
    ("cert-manager/cert-manager.io_certificates.yaml", ".kind::<cert_manager_io::v1::certificate::Certificate>()"),
    ("argo-cd/appproject-crd.yaml", ".kind::<argoproj_io::v1alpha1::app_project::AppProject>()"),
    (
        "flux-source/source.toolkit.fluxcd.io_gitrepositories.yaml",
        ".kind::<source_toolkit_fluxcd_io::v1::git_repository::GitRepository>()",
    ),
    (
        "gateway-api/gateway.networking.k8s.io_httproutes.yaml",
        ".definition(CrdBuilder::of::<gateway_networking_k8s_io::v1::http_route::HTTPRoute>()\
         .and::<gateway_networking_k8s_io::v1beta1::http_route::HTTPRoute>())",
    ),
    ("keda/keda.sh_scaledobjects.yaml", ".kind::<keda_sh::v1alpha1::scaled_object::ScaledObject>()"),
];

/// Compares the CRDs of the generated types with the input, and the responses to objects under both.
pub(crate) fn run(crds: &Path, seed: u64, objects: u64, only: &str) -> Result {
    let crds = crds.canonicalize().map_err(|error| format!("{}: {error}", crds.display()))?;
    let mut import = conformance();
    import.args([seed, objects].map(|number| number.to_string())).arg(only).env(CRDS, crds);
    succeed(&mut import)
}

/// Compiles types of five operators in a new project, and compares the output of `windlass generate crds`.
pub(crate) fn compile(crds: &Path, windlass: &Path) -> Result {
    let crds = crds.canonicalize().map_err(|error| format!("{}: {error}", crds.display()))?;
    let windlass = windlass.canonicalize().map_err(|error| format!("{}: {error}", windlass.display()))?;
    let folder = Folder::new("import")?;
    let project = folder.project();
    fs::copy(root().join("Cargo.lock"), project.join("Cargo.lock"))?;
    let windlass = |arguments: &[&str]| {
        let mut command = Command::new(&windlass);
        command.args(arguments).current_dir(&project).env("CARGO_TARGET_DIR", root().join("target"));
        command
    };
    succeed(windlass(&["init", "--domain", "example.com", "--windlass-path"]).arg(root()))?;
    let files = COMPILED.map(|(file, _)| crds.join(file));
    succeed(windlass(&["import", "--out", "src/api"]).args(&files))?;
    let groups = COMPILED.iter().filter_map(|(_, call)| call.split_once('<')?.1.split_once("::"));
    let groups = groups.map(|(group, _)| group).collect::<Vec<_>>();
    let modules = groups.iter().map(|group| format!("pub mod {group};\n")).collect::<String>();
    fs::write(project.join("src/api.rs"), modules)?;
    let calls = COMPILED.iter().map(|(_, call)| *call).collect::<String>();
    let manifests = format!(
        "use windlass::{{CrdBuilder, manifests::Manifests}};\nuse crate::api::{{{}}};\n\
         pub fn manifests() -> Manifests {{ Manifests::new(\"imported\"){calls} }}\n",
        groups.join(", ")
    );
    fs::write(project.join("src/manifests.rs"), manifests)?;
    // The generated types must not cause a warning.
    let library = project.join("src/lib.rs");
    fs::write(&library, format!("#![deny(warnings)]\n{}", fs::read_to_string(&library)?))?;
    succeed(&mut windlass(&["generate", "crds", "--output-dir", "out"]))?;
    succeed(conformance().arg("compare").arg(&crds).arg(project.join("out/crd/bases")))
}

fn conformance() -> Command {
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "conformance", "--bin", "import", "--"]).current_dir(root());
    command
}
