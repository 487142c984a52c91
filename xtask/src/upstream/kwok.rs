//! kube-scheduler and kwok, which simulates the kubelets of fake nodes.

use std::{fs, path::Path};

use super::{
    Upstream,
    programs::{build_kwok, build_scheduler},
};
use crate::Result;

/// The folders of the released stages: all steps follow at once, and heartbeats are leases.
const STAGES: [&str; 3] = ["node/fast", "node/heartbeat-with-lease", "pod/fast"];

/// The options of kwok's released deployment, but with more concurrent changes.
const OPTIONS: &str = "\
apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  enablePodsOnNodeSyncListPager: false
  enablePodsOnNodeSyncStreamWatch: true
  nodeLeaseDurationSeconds: 40
  nodeLeaseParallelism: 16
  podPlayStageParallelism: 16
  nodePlayStageParallelism: 16
  cidr: 10.64.0.0/10
  manageAllNodes: false
  manageNodesWithAnnotationSelector: kwok.x-k8s.io/node=fake
";

impl Upstream {
    /// Starts kube-scheduler with these flags in addition to the defaults. Builds it if it is missing.
    pub(crate) fn start_scheduler(&mut self, flags: &[&str]) -> Result {
        let kubeconfig = self.kubeconfig().display().to_string();
        let mut flags: Vec<_> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        flags.extend([
            format!("--kubeconfig={kubeconfig}"),
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
            "--leader-elect=false".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            "--secure-port=0".to_owned(),
        ]);
        self.spawn_file("kube-scheduler", &build_scheduler()?, &flags)
    }

    /// Starts kwok with its released stages, for nodes with its annotation. Builds it if it is missing.
    pub(crate) fn start_kwok(&mut self) -> Result {
        let (program, source) = build_kwok()?;
        let file = self.file("kwok.yaml");
        fs::write(&file, configuration(&source.join("kustomize/stage"))?)?;
        let flags = [format!("--config={file}"), format!("--kubeconfig={}", self.kubeconfig().display())];
        self.spawn_file("kwok", &program, &flags)
    }
}

/// Returns the options and the stages of a folder.
fn configuration(stages: &Path) -> Result<String> {
    let mut configuration = OPTIONS.to_owned();
    for folder in STAGES.map(|name| stages.join(name)) {
        let read = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut files: Vec<_> = read.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
        files.sort();
        for file in files {
            let text = fs::read_to_string(file)?;
            if text.contains("kind: Stage") {
                configuration.extend(["---\n", &text]);
            }
        }
    }
    Ok(configuration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_has_the_stages_of_all_folders() {
        let directory = std::env::temp_dir().join(format!("windlass-stages-{}", std::process::id()));
        for (at, folder) in STAGES.iter().enumerate() {
            let folder = directory.join(folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("stage.yaml"), format!("kind: Stage\nname: {at}\n")).unwrap();
            fs::write(folder.join("kustomization.yaml"), "kind: Kustomization\n").unwrap();
            fs::write(folder.join("stage.md"), "kind: Stage\n").unwrap();
        }
        let text = configuration(&directory).unwrap();
        fs::remove_dir_all(&directory).unwrap();
        let stages: String = (0..STAGES.len()).map(|at| format!("---\nkind: Stage\nname: {at}\n")).collect();
        assert_eq!(text, format!("{OPTIONS}{stages}"));
        assert!(configuration(&directory).is_err());
    }
}
