//! The programs of the pinned Go modules, built once into a cache outside the clone.

use std::{
    env, fmt, fs,
    path::{Path, PathBuf},
    process::Command,
    str::FromStr,
    time::Instant,
};

use clap::ValueEnum;

use super::root;
use crate::Result;

/// The parts of the control plane: program name and Go package. `tools/go.mod` has the versions.
const CONTROL_PLANE: &[(&str, &str)] = &[
    ("etcd", "go.etcd.io/etcd/server/v3"),
    ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    ("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
];

/// A kubectl with a different version than the control plane, pinned in `tools/kubectl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OtherKubectl {
    /// The newest released version.
    Newer,
    /// Two minor versions older.
    Older,
}

/// A minor version other than the default one, pinned in a file such as `tools/1.35.mod`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Minor {
    /// For example `1.35`.
    name: String,
}

/// The kind of program that is built from a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    /// The package's `main`.
    Program,
    /// The package's tests, compiled.
    Tests,
}

/// A Go module of this repository, which pins the versions of its dependencies.
struct Module {
    directory: PathBuf,
    /// Its go.mod file. A directory may have several, for several versions of a dependency.
    file: String,
}

/// Builds the programs that are missing in the cache, and returns their directory.
///
/// The cache is outside the clone: `$WINDLASS_CACHE`, else `$XDG_CACHE_HOME/windlass`, else `~/.cache/windlass`.
pub(crate) fn build() -> Result<PathBuf> {
    let module = Module::tools();
    let version = module.version_of("k8s.io/kubernetes")?;
    for (program, package) in CONTROL_PLANE {
        module.compile(program, package, &version)?;
    }
    directory(&version)
}

/// Builds the kube-apiserver of a minor version, if it is missing in the cache, and returns its directory.
pub(crate) fn build_minor(minor: &Minor) -> Result<PathBuf> {
    let module = minor.module();
    let version = minor.release()?;
    module.compile("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", &version)?;
    directory(&version)
}

/// Runs a program of `tools/` with arguments, built with the Go types of a minor version, and returns its output.
///
/// With `-trimpath`, Go's build cache has the packages of the control plane, which are built with it.
pub(crate) fn output_of(minor: Option<&Minor>, program: &str, arguments: &[&str]) -> Result<Vec<u8>> {
    let module = minor.map_or_else(Module::tools, Minor::module);
    let run = Command::new("go")
        .args(["run", "-trimpath", "-buildvcs=false", "-modfile", &module.file, program])
        .args(arguments)
        .current_dir(&module.directory)
        .output()
        .map_err(|error| format!("running go: {error}"))?;
    if !run.status.success() {
        return Err(format!("go run {program} failed: {}", String::from_utf8_lossy(&run.stderr)).into());
    }
    Ok(run.stdout)
}

/// Builds Polaris, which `tools/polaris` pins, if it is missing in the cache, and returns its path.
pub(crate) fn build_polaris() -> Result<PathBuf> {
    const POLARIS: &str = "github.com/polarismesh/polaris";
    let module = Module { directory: root().join("tools").join("polaris"), file: "go.mod".to_owned() };
    let version = module.version_of(POLARIS)?;
    module.compile("polaris-server", POLARIS, &version)
}

/// Builds kube-scheduler, if it is missing in the cache, and returns its path.
pub(super) fn build_scheduler() -> Result<PathBuf> {
    let module = Module::tools();
    let version = module.version_of("k8s.io/kubernetes")?;
    module.compile("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", &version)
}

/// Builds kwok, which `tools/kwok` pins, if it is missing in the cache. Returns its path, and the directory of its
/// source code, which has the released stages.
pub(super) fn build_kwok() -> Result<(PathBuf, PathBuf)> {
    const KWOK: &str = "sigs.k8s.io/kwok";
    let module = Module { directory: root().join("tools").join("kwok"), file: "go.mod".to_owned() };
    let program = module.compile("kwok", "sigs.k8s.io/kwok/cmd/kwok", &module.version_of(KWOK)?)?;
    Ok((program, module.source_of(KWOK)?))
}

/// Builds Kubernetes' end-to-end tests, which `tools/e2e` pins, if they are missing in the cache, and returns the
/// program.
pub(crate) fn build_e2e() -> Result<PathBuf> {
    let module = Module { directory: root().join("tools").join("e2e"), file: "go.mod".to_owned() };
    let version = module.version_of("k8s.io/kubernetes")?;
    module.compile_as(Output::Tests, "e2e.test", "k8s.io/kubernetes/test/e2e", &version)
}

/// Returns the kubectl of the control plane's version, if the cache has it.
pub(crate) fn built_kubectl() -> Option<PathBuf> {
    let module = Module::tools();
    let version = module.version_of("k8s.io/kubernetes").ok()?;
    Some(directory(&version).ok()?.join("kubectl")).filter(|path| path.exists())
}

// === impl Output ===

impl Output {
    const fn go_command(self) -> &'static [&'static str] {
        match self {
            Self::Program => &["build"],
            Self::Tests => &["test", "-c", "-vet=off"],
        }
    }
}

// === impl Minor ===

impl Minor {
    /// Returns the minor versions that are pinned, in ascending order.
    pub(crate) fn all() -> Result<Vec<Self>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(root().join("tools"))? {
            let name = entry?.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(".mod")).filter(|name| name.starts_with("1."));
            all.extend(name.map(|name| Self { name: name.to_owned() }));
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// Returns the pinned release, such as `v1.35.4`.
    pub(crate) fn release(&self) -> Result<String> {
        self.module().version_of("k8s.io/kubernetes")
    }

    fn module(&self) -> Module {
        Module { file: format!("{}.mod", self.name), ..Module::tools() }
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl FromStr for Minor {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let all = Self::all().map_err(|error| error.to_string())?;
        let names: Vec<_> = all.iter().map(ToString::to_string).collect();
        let found = all.into_iter().find(|minor| minor.name == text.trim_start_matches('v'));
        found.ok_or_else(|| format!("no file tools/{text}.mod; pinned are {}", names.join(", ")))
    }
}

// === impl OtherKubectl ===

impl OtherKubectl {
    /// Builds it if it is missing in the cache, and returns its path.
    pub(crate) fn build(self) -> Result<PathBuf> {
        let file = match self {
            Self::Newer => "go.mod",
            Self::Older => "older.mod",
        };
        let module = Module { directory: root().join("tools").join("kubectl"), file: file.to_owned() };
        // Kubernetes publishes its modules with major version 0 instead of 1.
        let version = module.version_of("k8s.io/kubectl")?.replacen("v0.", "v1.", 1);
        module.compile("kubectl", ".", &version)
    }
}

// === impl Module ===

impl Module {
    /// Returns the module that pins the control plane.
    fn tools() -> Self {
        Self { directory: root().join("tools"), file: "go.mod".to_owned() }
    }

    /// Returns the required version of a dependency.
    fn version_of(&self, required: &str) -> Result<String> {
        let file = self.directory.join(&self.file);
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let version = required_version(required, &text);
        Ok(version.ok_or_else(|| format!("{} does not require {required}", file.display()))?.to_owned())
    }

    /// Returns the directory with the source code of a dependency.
    fn source_of(&self, required: &str) -> Result<PathBuf> {
        let list = Command::new("go")
            .args(["list", "-modfile", &self.file, "-m", "-f", "{{.Dir}}", required])
            .current_dir(&self.directory)
            .output()
            .map_err(|error| format!("running go: {error}"))?;
        let directory = String::from_utf8(list.stdout)?.trim().to_owned();
        if !list.status.success() || directory.is_empty() {
            return Err(format!("go list {required} failed: {}", String::from_utf8_lossy(&list.stderr)).into());
        }
        Ok(directory.into())
    }

    /// Builds a program, unless the cache has it.
    fn compile(&self, program: &str, package: &str, version: &str) -> Result<PathBuf> {
        self.compile_as(Output::Program, program, package, version)
    }

    /// Builds a program or the tests of a package, unless the cache has them.
    fn compile_as(&self, output: Output, program: &str, package: &str, version: &str) -> Result<PathBuf> {
        let directory = directory(version)?;
        let target = directory.join(program);
        if target.exists() {
            return Ok(target);
        }
        eprintln!("building {program} {version}, once; the first takes minutes");
        let started = Instant::now();
        // The output has a temporary name until it is complete, so an aborted build leaves no broken file.
        let unfinished = directory.join(format!("{program}.unfinished"));
        let status = Command::new("go")
            .args(output.go_command())
            .args(["-trimpath", "-buildvcs=false", "-modfile", &self.file])
            .args(["-ldflags", &linker_flags(version), "-o"])
            .arg(&unfinished)
            .arg(package)
            .current_dir(&self.directory)
            .status()
            .map_err(|error| format!("running go: {error}"))?;
        if !status.success() {
            return Err(format!("go {} {package} failed ({status})", output.go_command().join(" ")).into());
        }
        fs::rename(&unfinished, &target)?;
        eprintln!("built {program} in {} s", started.elapsed().as_secs());
        Ok(target)
    }
}

/// Returns the directory with the programs of a version.
fn directory(version: &str) -> Result<PathBuf> {
    let directory = cache()?.join("upstream").join(version);
    fs::create_dir_all(&directory)?;
    Ok(directory)
}

/// Returns the directory of the build cache, outside the clone.
pub(crate) fn cache() -> Result<PathBuf> {
    if let Some(own) = env::var_os("WINDLASS_CACHE") {
        return Ok(own.into());
    }
    let user = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    Ok(user.or_else(home).ok_or("neither WINDLASS_CACHE nor XDG_CACHE_HOME nor HOME is set")?.join("windlass"))
}

fn required_version<'t>(required: &str, go_mod: &'t str) -> Option<&'t str> {
    // The version may be followed by the comment `// indirect`.
    let mut requirements = go_mod.lines().map(|line| line.trim().trim_start_matches("require ").split_whitespace());
    requirements.find_map(|mut words| (words.next() == Some(required)).then(|| words.next())?)
}

/// Without these flags the programs report version v0.0.0-master, and clients disable features.
fn linker_flags(version: &str) -> String {
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let set = |name: &str, value: &str| format!(" -X k8s.io/component-base/version.{name}={value}");
    ["-s -w".to_owned(), set("gitVersion", version), set("gitMajor", major), set("gitMinor", minor)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_pinned_module() {
        let go_mod = "module k8s.io/kubernetes\nrequire (\n\tk8s.io/kubernetes v1.36.3 // indirect\n)";
        assert_eq!(required_version("k8s.io/kubernetes", go_mod), Some("v1.36.3"));
        assert_eq!(required_version("k8s.io/kubectl", "require k8s.io/kubectl v0.34.1"), Some("v0.34.1"));
        assert_eq!(required_version("k8s.io/kubectl", go_mod), None);
        assert!(linker_flags("v1.36.3").contains("gitMinor=36"));
    }
}
