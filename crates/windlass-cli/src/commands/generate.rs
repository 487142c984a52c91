//! `windlass generate`: writes the manifests of a project with the project's own program, which knows its types.

use std::{error::Error, path};

use super::{run::build_manifests, scaffolding};

use clap::{Args, ValueEnum};
use tokio::process::Command;

/// The flags of `windlass generate`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Manifests to write
    #[arg(value_enum)]
    part: Part,
    /// With all: write the policies as well
    #[arg(long)]
    policies: bool,
    /// Target folder; defaults to `config` in the project
    #[arg(long, value_name = "DIR")]
    output_dir: Option<path::PathBuf>,
    /// Write nothing, and fail if a file differs
    #[arg(long)]
    check: bool,
}

/// The parts of a project's manifests.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Part {
    /// CustomResourceDefinitions
    Crds,
    /// Roles that the controllers require
    Rbac,
    /// Webhook configurations
    Webhooks,
    /// Validation rules of the kinds as ValidatingAdmissionPolicies, which an API server evaluates itself
    Policies,
    /// Everything except the policies
    All,
}

impl Options {
    /// Returns the arguments for the project's program.
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

/// The project's program prints its own results and errors.
pub(crate) async fn run(options: Options) -> Result<(), Box<dyn Error>> {
    let project = scaffolding::project()?;
    // The program runs in the project's folder, but a relative path refers to the current folder.
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
    fn generator_gets_the_command_arguments() {
        let options = Options { part: Part::Crds, policies: false, output_dir: Some("out".into()), check: true };
        assert_eq!(options.arguments().join(" "), "crds --output-dir out --check");
        let options = Options { part: Part::All, policies: true, output_dir: None, check: false };
        assert_eq!(options.arguments().join(" "), "all --policies");
    }
}
