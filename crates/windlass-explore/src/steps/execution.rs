//! The execution of a step.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    process::Command,
    time::{Instant, timeout_at},
};
use windlass_api::{DynamicObject, ErrorChain, GroupKind, ObjectRef, Patch};
use windlass_client::{CachedDiscovery, Client, DeferredRestMapper, Resources, wait};

use super::{Action, Step, Target, condition::Condition, manifest::Document};
use crate::{
    plan::Mutation,
    program::{Log, ProcessGroup},
};

/// The field manager of the steps.
pub(super) const MANAGER: &str = "windlass-explore-steps";
/// The number of lines of an executable's output in an error.
const LINES: usize = 20;

/// Executes the steps of a run.
#[derive(Debug)]
pub(crate) struct Executor {
    client: Client,
    mapper: DeferredRestMapper,
    /// The administrator's kubeconfig.
    kubeconfig: PathBuf,
    directory: Option<PathBuf>,
    /// The time limit of one step.
    limit: Duration,
    /// The object before its mutation.
    before: Mutex<Option<Value>>,
}

/// The reason why a step failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) error: String,
    /// `true` if the step makes or reverts a mutation, and the server or an admission webhook does not accept the object.
    pub(crate) is_rejected: bool,
}

impl From<String> for Failure {
    fn from(error: String) -> Self {
        Self { error, is_rejected: false }
    }
}

impl Executor {
    pub(crate) fn new(client: Client, kubeconfig: PathBuf, directory: Option<PathBuf>, limit: Duration) -> Self {
        let discovery = CachedDiscovery::in_memory(client.clone());
        // The cluster is in this process, so a new discovery for each unknown kind costs little.
        let mapper = DeferredRestMapper::new(discovery).with_reload_after(Duration::ZERO);
        Self { client, mapper, kubeconfig, directory, limit, before: Mutex::default() }
    }

    /// Executes a step. The error names the step, and the line of the document that failed.
    pub(crate) async fn execute(&self, step: &Step) -> Result<(), Failure> {
        let deadline = Instant::now() + self.limit;
        let (Target { document, mutation }, reverts) = match &step.action {
            Action::Mutate(target) => (&**target, false),
            Action::Revert(target) => (&**target, true),
            action => return Ok(self.act(step.name(), action, deadline).await?),
        };
        let mutated = timeout_at(deadline, self.mutate(document, mutation, reverts)).await;
        let mutated = mutated.unwrap_or_else(|_| Err(format!("no response within {:?}", self.limit).into()));
        mutated.map_err(|Failure { error, is_rejected }| Failure {
            error: format!("{}, {document}: {error}", step.name()),
            is_rejected,
        })
    }

    async fn act(&self, name: &str, action: &Action, deadline: Instant) -> Result<(), String> {
        match action {
            // `execute` does these.
            Action::Mutate(_) | Action::Revert(_) => Ok(()),
            Action::Execute(program) => self.run(program, deadline).await.map_err(|error| format!("{name}: {error}")),
            Action::Apply(documents) => self.each(name, documents, deadline, Self::apply).await,
            Action::Patch(documents) => self.each(name, documents, deadline, Self::patch).await,
            Action::PatchStatus(documents) => self.each(name, documents, deadline, Self::patch_status).await,
            Action::Delete(documents) => self.each(name, documents, deadline, Self::delete).await,
            Action::Wait(waits) => {
                for (document, condition) in waits {
                    let waited = self.wait(document, condition, deadline).await;
                    waited.map_err(|error| failure(name, document, &error))?;
                }
                Ok(())
            }
        }
    }

    /// Executes a function for each document.
    async fn each(
        &self,
        name: &str,
        documents: &[Document],
        deadline: Instant,
        execute: impl AsyncFn(&Self, &Document, Instant) -> Result<(), String>,
    ) -> Result<(), String> {
        for document in documents {
            let executed = timeout_at(deadline, execute(self, document, deadline)).await;
            let executed = executed.unwrap_or_else(|_| Err(format!("no response within {:?}", self.limit)));
            executed.map_err(|error| failure(name, document, &error))?;
        }
        Ok(())
    }

    async fn apply(&self, document: &Document, _: Instant) -> Result<(), String> {
        let (objects, object) = self.find(document).await?;
        let patch = Patch::Apply(document.content.clone());
        let name = object.name().to_owned();
        objects.patch(object, patch).field_manager(MANAGER).force().await.map_err(|error| text(&error))?;
        if document.kind.kind == "CustomResourceDefinition" {
            // Later documents may be of the new kind.
            let established = wait::condition::<DynamicObject>("Established", "True");
            objects.wait_for(name).until(established).await.map_err(|error| text(&error))?;
        }
        Ok(())
    }

    async fn patch(&self, document: &Document, _: Instant) -> Result<(), String> {
        let (objects, object) = self.find(document).await?;
        let patch = Patch::Merge(document.content.clone());
        objects.patch(object, patch).field_manager(MANAGER).await.map(drop).map_err(|error| text(&error))
    }

    async fn patch_status(&self, document: &Document, _: Instant) -> Result<(), String> {
        let (objects, object) = self.find(document).await?;
        let patch = Patch::Merge(document.content.clone());
        let patched = objects.patch(object, patch).subresource("status").field_manager(MANAGER).await;
        patched.map(drop).map_err(|error| text(&error))
    }

    async fn delete(&self, document: &Document, deadline: Instant) -> Result<(), String> {
        let (objects, object) = self.find(document).await?;
        let deleted = objects.get(&object).await.map_err(|error| text(&error))?;
        objects.delete(&object).await.map_err(|error| text(&error))?;
        let uid = deleted.metadata.uid;
        self.until(&objects, object, &Condition::Absent, deadline, |found| found.metadata.uid == uid).await
    }

    async fn wait(&self, document: &Document, condition: &Condition, deadline: Instant) -> Result<(), String> {
        let (objects, object) = timeout_at(deadline, self.find(document))
            .await
            .unwrap_or_else(|_| Err(format!("no response within {:?}", self.limit)))?;
        self.until(&objects, object, condition, deadline, |_| true).await
    }

    /// Waits until an object meets a condition. An object that is not `relevant` counts as absent.
    async fn until(
        &self,
        objects: &Resources<DynamicObject>,
        object: ObjectRef<DynamicObject>,
        condition: &Condition,
        deadline: Instant,
        relevant: impl Fn(&DynamicObject) -> bool + Send + Sync,
    ) -> Result<(), String> {
        let mut unmet = "no response".to_owned();
        let is_met = |found: Option<&DynamicObject>| {
            let found = found.filter(|found| relevant(found)).map(serde_json::to_value).transpose();
            let checked = found.map_err(|error| error.to_string()).and_then(|found| condition.check(found.as_ref()));
            checked.map_err(|reason| unmet = reason).is_ok()
        };
        match timeout_at(deadline, objects.wait_for(object).until(is_met)).await {
            Ok(waited) => waited.map(drop).map_err(|error| text(&error)),
            Err(_) => Err(format!("not {condition} within {:?}: {unmet}", self.limit)),
        }
    }

    /// Changes a field of an object, or sets it back.
    async fn mutate(&self, document: &Document, mutation: &Mutation, reverts: bool) -> Result<(), Failure> {
        let rejected = |error: String| Failure { error, is_rejected: true };
        let (objects, object) = self.find(document).await?;
        loop {
            let found = objects.get(&object).await.map_err(|error| text(&error))?;
            let current = serde_json::to_value(&found).map_err(|error| text(&error))?;
            let mut wanted = current.clone();
            let before = self.before.lock().clone();
            let changed = match &before {
                Some(before) if reverts => mutation.revert(before, &mut wanted),
                _ => mutation.apply(&mut wanted),
            };
            // A program may have removed the field.
            changed.map_err(rejected)?;
            let wanted: DynamicObject = serde_json::from_value(wanted).map_err(|error| text(&error))?;
            match objects.update(&wanted).field_manager(MANAGER).await {
                Ok(_) => {
                    *self.before.lock() = Some(current);
                    return Ok(());
                }
                // Another client has changed the object since it was read.
                Err(error) if error.is_conflict() => {}
                Err(error) => {
                    let code = error.status().map(|status| status.code);
                    let is_rejected = matches!(code, Some(400 | 403 | 422));
                    return Err(Failure { error: text(&error), is_rejected });
                }
            }
        }
    }

    /// Returns the resource of a document and a reference to its object.
    async fn find(&self, document: &Document) -> Result<(Resources<DynamicObject>, ObjectRef<DynamicObject>), String> {
        let kind = GroupKind::new(document.kind.group.clone(), document.kind.kind.clone());
        let found = self.mapper.mapping(&kind, &[&document.kind.version]).await.map_err(|error| text(&error))?;
        let mut object = ObjectRef::new(&*document.name);
        if found.is_namespaced() {
            object = object.within(document.namespace.as_deref().unwrap_or("default"));
        }
        Ok((self.client.dynamic(&found.resource), object))
    }

    /// Runs an executable. Its children end with it.
    async fn run(&self, program: &Path, deadline: Instant) -> Result<(), String> {
        let mut command = Command::new(program);
        command.env("KUBECONFIG", &self.kubeconfig);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let mut group =
            ProcessGroup::start(&mut command).await.map_err(|error| format!("it cannot be started: {error}"))?;
        let log = Log::read(group.take_output(), Instant::now());
        let in_time = timeout_at(deadline, group.ended()).await.is_ok();
        let status = group.kill().await.map_err(|error| format!("its exit status is unknown: {error}"))?;
        if in_time && status.success() {
            return Ok(());
        }
        let reason = if in_time { status.to_string() } else { format!("it runs longer than {:?}", self.limit) };
        let lines = log.finish().await.lines;
        let output = lines.iter().skip(lines.len().saturating_sub(LINES));
        Err(output.fold(reason, |text, line| format!("{text}\n{}", line.text)))
    }
}

fn text(error: &(dyn std::error::Error + 'static)) -> String {
    ErrorChain(error).to_string()
}

fn failure(step: &str, document: &Document, error: &str) -> String {
    format!("{step}, line {}: {document}: {error}", document.line)
}
