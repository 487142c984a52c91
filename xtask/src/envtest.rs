//! Runs an operator's test, written with controller-runtime's envtest (`conformance/envtest`), unmodified: on the
//! stand-ins of `windlass envtest-assets`, and on request on the real binaries.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Result, clients, upstream};

/// The environment variable with the directory of envtest's binaries.
pub(crate) const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// A directory of stand-ins. It is removed on drop.
pub(crate) struct Assets(PathBuf);

/// Builds the test and runs it. `windlass` is the binary to test.
pub(crate) fn run(windlass: &Path, with_upstream: bool) -> Result {
    let test = clients::build("envtest")?;
    let assets = Assets::of(windlass)?;
    on("what windlass writes", &test, &assets.0)?;
    if with_upstream {
        on("the real binaries", &test, &upstream::build()?)?;
    }
    Ok(())
}

fn on(which: &str, test: &Path, assets: &Path) -> Result {
    println!("envtest on {which}");
    let status = Command::new(test).env(ASSETS, assets).status();
    let status = status.map_err(|error| format!("running {}: {error}", test.display()))?;
    if status.success() { Ok(()) } else { Err(format!("the test of envtest on {which} failed ({status})").into()) }
}

// === impl Assets ===

impl Assets {
    /// Returns the path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes the stand-ins with `windlass envtest-assets`.
    pub(crate) fn of(windlass: &Path) -> Result<Self> {
        Self::write(windlass, "", &[])
    }

    /// Writes the stand-ins for a minor version of Kubernetes.
    pub(crate) fn of_version(windlass: &Path, minor: &str) -> Result<Self> {
        Self::write(windlass, &format!("-{minor}"), &["--kubernetes-version", minor])
    }

    fn write(windlass: &Path, suffix: &str, flags: &[&str]) -> Result<Self> {
        let assets = Self(env::temp_dir().join(format!("windlass-envtest-{}{suffix}", std::process::id())));
        let written = Command::new(windlass).arg("envtest-assets").arg(&assets.0).args(flags).output();
        let written = written.map_err(|error| format!("running {}: {error}", windlass.display()))?;
        // Scripts parse this output.
        let told = String::from_utf8(written.stdout)?;
        let expected = format!("{ASSETS}={}\n", fs::canonicalize(&assets.0)?.display());
        if !written.status.success() || told != expected {
            return Err(format!("{} envtest-assets ({}) says {told:?}", windlass.display(), written.status).into());
        }
        Ok(assets)
    }
}

impl Drop for Assets {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
