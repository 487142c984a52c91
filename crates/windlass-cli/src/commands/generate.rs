//! `windlass generate`: the manifests of a project, by the program in it that knows its types.

use std::{error::Error, path};

use super::{run::build_manifests, scaffolding};

use clap::{Args, ValueEnum};
use tokio::process::Command;

/// The flags of `windlass generate`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// What to write
    #[arg(value_enum)]
    part: Part,
    /// With all: the policies too
    #[arg(long)]
    policies: bool,
    /// The folder that the files are written below; `config` of the project without it
    #[arg(long, value_name = "DIR")]
    output_dir: Option<path::PathBuf>,
    /// Write nothing, and fail if a file is not as it would be
    #[arg(long)]
    check: bool,
}

/// What a project has manifests of.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Part {
    /// The definitions of its kinds
    Crds,
    /// The roles that its controllers need
    Rbac,
    /// Its webhooks
    Webhooks,
    /// The rules of its kinds as ValidatingAdmissionPolicies, which an API server judges itself
    Policies,
    /// All of them but the policies
    All,
}

impl Options {
    /// The arguments of the project's program.
    fn arguments(&self) -> Vec<String> {
        let part = match self.part {
            Part::Crds => "crds",
            Part::Rbac => "rbac",
            Part::Webhooks => "webhooks",
            Part::Policies => "policies",
            Part::All => "all",
        };
        let mut arguments = vec![part.to_owned()];
        if self.policies {
            arguments.push("--policies".to_owned());
        }
        if let Some(folder) = &self.output_dir {
            arguments.extend(["--output-dir".to_owned(), folder.display().to_string()]);
        }
        if self.check {
            arguments.push("--check".to_owned());
        }
        arguments
    }
}

/// The program says itself what it wrote, or what is wrong.
pub(crate) async fn run(options: Options) -> Result<(), Box<dyn Error>> {
    let project = scaffolding::project()?;
    // The program works in the project, and who names a folder means one seen from here.
    let output_dir = options.output_dir.map(path::absolute).transpose()?;
    let options = Options { output_dir, ..options };
    let program = build_manifests(&project).await?;
    let status = Command::new(&program).args(options.arguments()).current_dir(&project).status().await;
    let status = status.map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("the manifests were not written: {} failed in {}", program.display(), project.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_told_what_the_command_was() {
        let options = Options { part: Part::Crds, policies: false, output_dir: Some("out".into()), check: true };
        assert_eq!(options.arguments().join(" "), "crds --output-dir out --check");
        let options = Options { part: Part::All, policies: true, output_dir: None, check: false };
        assert_eq!(options.arguments().join(" "), "all --policies");
    }
}
