//! Runs an operator's test, written with controller-runtime's envtest (`conformance/envtest`), unmodified: on what `windlass
//! envtest-assets` writes, and on the real binaries where asked.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Result, clients, upstream};

/// Where envtest looks for its binaries.
pub(crate) const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// A folder of stand-ins; removed when dropped.
pub(crate) struct Assets(PathBuf);

/// Builds the test and runs it. `windlass` is the binary to judge.
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
    /// Returns where they are.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Has `windlass` write them.
    pub(crate) fn of(windlass: &Path) -> Result<Self> {
        let assets = Self(env::temp_dir().join(format!("windlass-envtest-{}", std::process::id())));
        let written = Command::new(windlass).arg("envtest-assets").arg(&assets.0).output();
        let written = written.map_err(|error| format!("running {}: {error}", windlass.display()))?;
        // Scripts read it.
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
