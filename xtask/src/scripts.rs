//! Runs flows of the unmodified Python and JavaScript clients (`conformance/python`, `conformance/javascript`) with
//! `windlass up`, and on request with the real control plane. Languages and clients that cannot be installed are
//! skipped with a line of output.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    Result,
    embedded::Embedded,
    upstream::{Profile, Upstream, root},
};

/// A language, and the preparation of its flows.
struct Language {
    name: &'static str,
    /// The folder in `conformance`.
    folder: &'static str,
    script: &'static str,
    /// The commands that install the client into a folder; `{}` is replaced by the folder.
    install: &'static [&'static [&'static str]],
    /// The interpreter of the script, relative to that folder.
    interpreter: &'static str,
}

const LANGUAGES: &[Language] = &[
    Language {
        name: "Python",
        folder: "python",
        script: "flows.py",
        install: &[
            &["python3", "-m", "venv", "{}/venv"],
            &["{}/venv/bin/pip", "install", "--quiet", "--requirement", "{}/requirements.txt"],
        ],
        interpreter: "{}/venv/bin/python",
    },
    Language {
        name: "JavaScript",
        folder: "javascript",
        script: "flows.mjs",
        install: &[&["npm", "install", "--prefix", "{}", "--no-package-lock", "--no-audit", "--no-fund", "--silent"]],
        interpreter: "node",
    },
];

/// Prepares the flows and runs them. `windlass` is the binary to test.
pub(crate) fn run(windlass: &Path, with_upstream: bool) -> Result {
    let mut ready = Vec::new();
    for language in LANGUAGES {
        match language.prepare()? {
            Ok(folder) => ready.push((language, folder)),
            Err(why) => println!("{} clients: skipped, {why}", language.name),
        }
    }
    if ready.is_empty() {
        return Ok(());
    }
    let embedded = Embedded::start(windlass, &[])?;
    let mut failed = against("windlass", &ready, &embedded.kubeconfig())?;
    drop(embedded);
    if with_upstream {
        let upstream = Upstream::start(Profile::Identity)?;
        failed += against("the real control plane", &ready, &upstream.kubeconfig())?;
    }
    if failed == 0 { Ok(()) } else { Err(format!("{failed} runs of flows failed").into()) }
}

/// Runs all flows, also after a failure, and returns the number of runs.
fn against(server: &str, ready: &[(&Language, PathBuf)], kubeconfig: &Path) -> Result<usize> {
    let mut failed = 0;
    for (language, folder) in ready {
        println!("{} against {server}", language.name);
        let interpreter = language.interpreter.replace("{}", &folder.display().to_string());
        let mut command = Command::new(&interpreter);
        // The certificate of the real control plane is self-signed, and Python warns about it with each request.
        command.arg(folder.join(language.script)).arg(kubeconfig).env("PYTHONWARNINGS", "ignore");
        let status = command.status().map_err(|error| format!("running {interpreter}: {error}"))?;
        failed += usize::from(!status.success());
    }
    Ok(failed)
}

impl Language {
    /// Copies the flows and installs their client in cargo's target directory. Returns the reason if the client cannot
    /// be installed.
    fn prepare(&self) -> Result<std::result::Result<PathBuf, String>> {
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
        let folder = target.join("clients").join(self.folder);
        fs::create_dir_all(&folder)?;
        for entry in fs::read_dir(root().join("conformance").join(self.folder))? {
            let entry = entry?;
            fs::copy(entry.path(), folder.join(entry.file_name()))?;
        }
        for words in self.install {
            let words: Vec<_> = words.iter().map(|word| word.replace("{}", &folder.display().to_string())).collect();
            let installed = Command::new(&words[0]).args(&words[1..]).stdin(Stdio::null()).status();
            match installed {
                Ok(status) if status.success() => {}
                Ok(status) => return Ok(Err(format!("{} failed ({status})", words.join(" ")))),
                Err(error) => return Ok(Err(format!("{}: {error}", words[0]))),
            }
        }
        Ok(Ok(folder))
    }
}
