//! The flag for API versions that Kubernetes has removed, with the syntax of kube-apiserver.

use clap::Args;
use windlass_server::RuntimeConfig;

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct RuntimeConfigFlags {
    #[arg(long, value_name = "VERSION=BOOL,...", help = help())]
    runtime_config: Vec<RuntimeConfig>,
}

impl RuntimeConfigFlags {
    /// Returns the configuration of all flags. Later ones override earlier ones.
    pub(crate) fn joined(&self) -> RuntimeConfig {
        self.runtime_config.iter().cloned().collect()
    }
}

fn help() -> String {
    let versions: Vec<String> = RuntimeConfig::versions().collect();
    format!(
        "API versions that Kubernetes has removed, to serve them for old clients, such as policy/v1beta1=true; can be \
         repeated: {}",
        versions.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        flags: RuntimeConfigFlags,
    }

    #[test]
    fn flags_are_joined_and_unknown_versions_rejected() {
        let parse = |flags: &[&str]| Command::try_parse_from(std::iter::once("up").chain(flags.iter().copied()));
        let flags =
            parse(&["--runtime-config", "policy/v1beta1=true,batch/v1beta1", "--runtime-config=policy/v1beta1=false"]);
        assert_eq!(flags.unwrap().flags.joined().to_string(), "batch/v1beta1=true,policy/v1beta1=false");
        assert_eq!(parse(&[]).unwrap().flags.joined(), RuntimeConfig::default());
        let error = parse(&["--runtime-config=api/legacy=true"]).unwrap_err().to_string();
        assert!(error.contains("--runtime-config") && error.contains("unknown api groups api/legacy"), "{error}");
    }
}
