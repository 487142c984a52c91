//! The inference of a configuration from the environment.

use super::{Config, in_cluster};
use crate::{
    config_error::ConfigError,
    environment::Environment,
    kubeconfig::{Kubeconfig, KubeconfigFiles, Selection},
};

pub(super) fn infer(environment: &Environment, selection: &Selection) -> Result<Config, ConfigError> {
    if let Some(kubeconfig) = KubeconfigFiles::of(environment).read()? {
        return Config::from_kubeconfig(&kubeconfig, selection);
    }
    if selection.names_server() {
        return Config::from_kubeconfig(&Kubeconfig::default(), selection);
    }
    match in_cluster::load(environment) {
        Err(ConfigError::NotInCluster { .. }) => {
            Err(ConfigError::NotFound { default_file: environment.default_file() })
        }
        Ok(config) => Ok(match &selection.namespace {
            Some(namespace) => config.with_default_namespace(namespace),
            None => config,
        }),
        Err(error) => Err(error),
    }
}
