//! Runs a credential plugin and decodes its output.

use std::{
    io::{self, IsTerminal as _},
    process::{Output, Stdio},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{process::Command, time::Instant};

use super::issuer::{Credential, Fresh};
use crate::{
    auth::{AuthError, ExecConfig, Interaction, PluginError, bearer},
    connection_options::Identity,
    metrics::{MetricsRecorder, PluginCall, PolicyDecision},
};

/// The environment variable with the input of a plugin.
const INFO: &str = "KUBERNETES_EXEC_INFO";
/// The maximum number of installation hints, and the period in which they are counted.
const HINTS: (u32, Duration) = (10, Duration::from_hours(1));

#[derive(Debug)]
pub(super) struct Plugin {
    config: ExecConfig,
    recorder: MetricsRecorder,
    /// The start of the period, and the number of hints in it.
    hints: Mutex<Option<(Instant, u32)>>,
}

/// The fields of `ExecCredential` that are read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Answer {
    kind: String,
    api_version: String,
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    expiration_timestamp: Option<String>,
    token: String,
    client_certificate_data: String,
    client_key_data: String,
}

impl Plugin {
    pub(super) fn new(config: ExecConfig, recorder: MetricsRecorder) -> Self {
        Self { config, recorder, hints: Mutex::default() }
    }

    pub(super) async fn run(&self) -> Result<Credential, AuthError> {
        let named = |source| AuthError::Plugin { command: self.config.command.clone(), source };
        let answer = self.ask().await;
        let call = answer.as_ref().map_or_else(call_result, |_| PluginCall::Succeeded);
        self.recorder.record(|metrics| metrics.plugin_called(call));
        let status = answer.map_err(named)?;
        let identity = (!status.client_certificate_data.is_empty())
            .then(|| Arc::new(Identity::new(status.client_certificate_data, status.client_key_data)));
        let header = match &*status.token {
            "" => None,
            token => Some(bearer(token).ok_or_else(|| AuthError::Unprintable { origin: self.config.command.clone() })?),
        };
        let fresh = match status.expiration_timestamp {
            None => Fresh::Always,
            Some(text) => Fresh::Until(
                windlass_api::parse_time(&text)
                    .map_err(|_| named(self.answer("status.expirationTimestamp is not a time")))?,
            ),
        };
        let end = if let Fresh::Until(end) = fresh { Some(end) } else { None };
        self.recorder.record(|metrics| metrics.credentials_expire(end));
        Ok(Credential { header, identity, fresh })
    }

    async fn ask(&self) -> Result<Status, PluginError> {
        self.status(&self.output(io::stdin().is_terminal()).await?.stdout)
    }

    /// Runs the program and returns its output. Dropping the future kills the program.
    async fn output(&self, terminal: bool) -> Result<Output, PluginError> {
        let interactive = match (self.config.interaction, terminal) {
            (Interaction::Never, _) | (Interaction::IfAvailable, false) => false,
            (Interaction::IfAvailable | Interaction::Always, true) => true,
            (Interaction::Always, false) => return Err(PluginError::NoTerminal),
        };
        let admitted = self.config.policy.admit(&self.config.command);
        let decision = if admitted.is_ok() { PolicyDecision::Allowed } else { PolicyDecision::Denied };
        self.recorder.record(|metrics| metrics.plugin_policy_checked(decision));
        let program = admitted?;
        let variables = self.config.env.iter().map(|(name, value)| (name, value.expose()));
        let output = Command::new(program)
            .args(&self.config.args)
            .envs(variables)
            .env(INFO, self.info(interactive).to_string())
            .stdin(if interactive { Stdio::inherit() } else { Stdio::null() })
            // Messages to the user.
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .output()
            .await;
        match output {
            Ok(output) if output.status.success() => Ok(output),
            Ok(output) => Err(PluginError::Failed { code: output.status.code() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(PluginError::Missing { hint: self.hint() }),
            Err(error) => Err(PluginError::Run(error)),
        }
    }

    /// Returns the input of the plugin.
    fn info(&self, interactive: bool) -> Value {
        let mut info = json!({
            "kind": "ExecCredential",
            "apiVersion": self.config.version.as_str(),
            "spec": { "interactive": interactive },
        });
        if let Some(cluster) = &self.config.cluster {
            info["spec"]["cluster"] = cluster.clone();
        }
        info
    }

    fn status(&self, output: &[u8]) -> Result<Status, PluginError> {
        // The error's own text would contain a part of the output.
        let read = serde_json::from_slice(output);
        let answer: Answer = read.map_err(|error| {
            self.answer(format!("it is not such JSON, at line {}, column {}", error.line(), error.column()))
        })?;
        if answer.kind != "ExecCredential" {
            return Err(self.answer(format!("it is of the kind {:?}", answer.kind)));
        }
        if answer.api_version != self.config.version.as_str() {
            return Err(self.answer(format!("it is of the version {:?}", answer.api_version)));
        }
        let status = answer.status.ok_or_else(|| self.answer("it has no status"))?;
        match (status.client_certificate_data.is_empty(), status.client_key_data.is_empty()) {
            (true, true) if status.token.is_empty() => Err(self.answer("it has neither a token nor a certificate")),
            (true, true) | (false, false) => Ok(status),
            (false, true) => Err(self.answer("it has a certificate without a key")),
            (true, false) => Err(self.answer("it has a key without a certificate")),
        }
    }

    fn answer(&self, problem: impl Into<String>) -> PluginError {
        PluginError::Answer { version: self.config.version, problem: problem.into() }
    }

    /// Returns the installation hint, unless it was given too often.
    fn hint(&self) -> Option<String> {
        let (often, within) = HINTS;
        let mut hints = self.hints.lock();
        let (since, count) = hints.filter(|(since, _)| since.elapsed() < within).unwrap_or((Instant::now(), 0));
        *hints = Some((since, count + 1));
        self.config.install_hint.as_deref().filter(|_| count < often).map(printable)
    }
}

/// Removes control characters, which could move the terminal's cursor or change its colors.
fn printable(text: &str) -> String {
    let shown = |c: char| {
        if c.is_control() && !c.is_ascii_whitespace() { format!("U+{:04X}", u32::from(c)) } else { c.to_string() }
    };
    text.chars().map(shown).collect()
}

/// Returns the result of a failed call for the metrics.
fn call_result(error: &PluginError) -> PluginCall {
    match error {
        PluginError::Failed { code } => PluginCall::Failed(*code),
        PluginError::Missing { .. } => PluginCall::Missing,
        _ => PluginCall::Unusable,
    }
}

#[cfg(test)]
mod tests;
