//! The scenario of an exploration.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::Value;
use windlass_controllers::{Controllers, PodAnswers};
use windlass_server::RuntimeConfig;

use super::Invariant;
use crate::{
    cluster::PodName,
    error::Result,
    steps::{self, Step},
};

/// A scenario: a program, and steps that give it work.
///
/// ```no_run
/// use windlass_explore::{Exploration, Scenario, Step};
///
/// # async fn example() -> windlass_explore::Result<()> {
/// let scenario = Scenario::new(["bin/operator", "--metrics-bind-address=0"])
///     .crds(&["config/crd/bases"])?
///     .step(Step::apply("create", include_str!("../../examples/websites/crds/websites.example.dev.yaml"))?);
/// let results = Exploration::new(scenario).run(std::future::pending()).await?;
/// assert!(results.is_clean());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The program and its arguments.
    pub(crate) program: Vec<String>,
    /// Variables in addition to those of this process.
    pub(crate) environment: BTreeMap<String, String>,
    /// The working directory of the program and of executable steps.
    pub(crate) directory: Option<PathBuf>,
    /// The pod that represents the program, with an in-cluster environment.
    pub(crate) pod: Option<PodName>,
    pub(crate) crds: Vec<Value>,
    /// The removed API versions that the server serves.
    pub(crate) runtime: RuntimeConfig,
    /// The built-in controllers of the cluster.
    pub(crate) controllers: Controllers,
    /// The number of simulated nodes.
    pub(crate) nodes: usize,
    /// The answers for simulated pods.
    pub(crate) answers: Option<PodAnswers>,
    pub(crate) steps: Vec<Step>,
    pub(crate) invariants: Vec<Invariant>,
}

impl Scenario {
    /// Creates a scenario without steps for a program and its arguments.
    ///
    /// In the arguments, `{kubeconfig}` is replaced by the path of the kubeconfig, and `{port}` by a free port, which is
    /// the same for all processes of a run.
    #[must_use]
    pub fn new<S: Into<String>>(program: impl IntoIterator<Item = S>) -> Self {
        Self {
            program: program.into_iter().map(Into::into).collect(),
            environment: BTreeMap::new(),
            directory: None,
            pod: None,
            crds: Vec::new(),
            runtime: RuntimeConfig::default(),
            controllers: Controllers::all(),
            nodes: 0,
            answers: None,
            steps: Vec::new(),
            invariants: Vec::new(),
        }
    }

    /// Reads a scenario from files: the CRDs from files or directories, the steps from a directory, and the invariants
    /// from a file.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or is invalid.
    pub fn open(crds: &[PathBuf], directory: &Path, invariants: Option<&Path>, program: Vec<String>) -> Result<Self> {
        let mut scenario = Self::new(program).crds(crds)?;
        scenario.steps = steps::steps(directory)?;
        if let Some(path) = invariants {
            scenario.invariants = Invariant::open(path)?;
        }
        Ok(scenario)
    }

    /// Adds the CRDs in files or directories. Those of `apiextensions.k8s.io/v1beta1` are converted to `v1`.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, contains another kind, or contains a CRD that cannot be converted.
    pub fn crds<P: AsRef<Path>>(mut self, paths: &[P]) -> Result<Self> {
        for path in paths {
            self.crds.extend(steps::crds(path.as_ref())?);
        }
        Ok(self)
    }

    /// Sets the API versions that Kubernetes has removed and that the program still uses, such as `policy/v1beta1`. By
    /// default the server has none of them.
    #[must_use]
    pub fn runtime_config(mut self, config: RuntimeConfig) -> Self {
        self.runtime = config;
        self
    }

    /// Adds a step after the others.
    #[must_use]
    pub fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Adds invariants.
    #[must_use]
    pub fn invariants(mut self, invariants: impl IntoIterator<Item = Invariant>) -> Self {
        self.invariants.extend(invariants);
        self
    }

    /// Sets a variable in the environment of the program.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Sets the working directory of the program and of executable steps. Defaults to that of this process.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Gives the program the environment of a pod instead of a kubeconfig: the directory of a service account,
    /// `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT`, `POD_NAMESPACE` and `POD_NAME`, and the host name of the
    /// pod. The pod exists before the program starts; its namespace is created if necessary.
    ///
    /// The program is an administrator, whatever its service account. Needs
    /// [`Exploration::isolation`](crate::Exploration::isolation).
    #[must_use]
    pub fn in_cluster(mut self, namespace: impl Into<String>, pod: impl Into<String>) -> Self {
        self.pod = Some(PodName { namespace: namespace.into(), name: pod.into() });
        self
    }

    /// Sets the built-in controllers that the cluster runs. Defaults to all. Exclude those that the program provides:
    ///
    /// ```
    /// use windlass_explore::Scenario;
    ///
    /// let scenario = Scenario::new(["bin/job-controller"]).controllers("*,-job".parse()?);
    /// # Ok::<_, windlass_explore::ControllersError>(())
    /// ```
    ///
    /// The number of nodes is that of [`nodes`](Self::nodes). The exploration sets their durations, the certificate
    /// authority and the signer of tokens.
    #[must_use]
    pub fn controllers(mut self, controllers: Controllers) -> Self {
        self.controllers = controllers;
        self
    }

    /// Sets the number of simulated nodes. Defaults to 0: pods stay pending.
    #[must_use]
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    /// Sets the results of commands in simulated pods, and their logs. By default, such requests fail.
    #[must_use]
    pub fn pod_answers(mut self, answers: PodAnswers) -> Self {
        self.answers = Some(answers);
        self
    }
}
