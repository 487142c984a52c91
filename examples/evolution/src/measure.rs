//! Counts the requests of each program, between its client and the server.
//!
//! The clock is paused and only advances when nothing is left to do. A measurement of several minutes takes moments,
//! and the counts are the same each time.

use std::time::Duration;

use serde_json::{Value, from_value, json};
use windlass::{
    Client, Patch,
    api::BoxError,
    envtest::{Environment, RequestMatcher, Verb},
    k8s::{
        apps::v1::{Deployment, StatefulSet},
        core::v1::Pod,
    },
};

use crate::Program;

/// The size and duration of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// The number of Deployments, and of StatefulSets, with three pods each.
    pub of_each: usize,
    /// The duration of the measurement. Informers restart their watches after five minutes or more, so a shorter
    /// measurement contains no restart.
    pub lasting: Duration,
}

/// The number of requests of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// The number of lists.
    pub lists: usize,
    /// The number of watches. Each starts with the existing objects.
    pub watches: usize,
    /// The number of creations and deletions.
    pub writes: usize,
}

impl Measured {
    /// Returns the total number of requests.
    #[must_use]
    pub const fn requests(self) -> usize {
        self.lists + self.watches + self.writes
    }
}

/// Runs a program in a new in-process cluster, and counts its requests. One workload is scaled from three to five and
/// back to one, and a pod is deleted; after that nothing happens. Must be called in a runtime with a paused clock.
///
/// # Errors
/// Returns an error if the program fails, or if the number of pods is wrong.
pub async fn measure(program: Program, measurement: Measurement) -> Result<Measured, BoxError> {
    let env = Environment::builder().seed(1).start().await?;
    let heard = env.record(RequestMatcher::any());
    // The user's requests bypass the recorder, because only the program's are counted.
    let server = env.server().ok_or("the environment has an embedded server")?;
    let user = Client::from_service(server.service(), "default");
    for number in 0..measurement.of_each {
        user.create(&from_value::<Deployment>(asking(&format!("web-{number}")))?).await?;
        user.create(&from_value::<StatefulSet>(asking(&format!("db-{number}")))?).await?;
    }
    let (client, deadline) = (env.client(), tokio::time::Instant::now() + measurement.lasting);
    tokio::select! {
        ended = program.run(&client) => {
            ended?;
            return Err(format!("{program} has stopped").into());
        }
        lived = live(&user, measurement, deadline) => lived?,
    }
    let of = |verbs: &[Verb]| heard.requests().iter().filter(|recorded| verbs.contains(&recorded.sent.verb)).count();
    let measured =
        Measured { lists: of(&[Verb::List]), watches: of(&[Verb::Watch]), writes: of(&[Verb::Create, Verb::Delete]) };
    env.stop().await?;
    Ok(measured)
}

/// Performs the user's changes. The pauses between them are long enough for the slowest program.
async fn live(user: &Client, measurement: Measurement, deadline: tokio::time::Instant) -> Result<(), BoxError> {
    let rest = || tokio::time::sleep(Duration::from_secs(20));
    rest().await;
    expect(user, 6 * measurement.of_each).await?;
    for (replicas, pods) in [(5, 6 * measurement.of_each + 2), (1, 6 * measurement.of_each - 2)] {
        user.patch::<Deployment>("web-0", Patch::Merge(json!({"spec": {"replicas": replicas}}))).await?;
        rest().await;
        expect(user, pods).await?;
    }
    user.delete::<Pod>("db-0-1").await?;
    rest().await;
    expect(user, 6 * measurement.of_each - 2).await?;
    tokio::time::sleep_until(deadline).await;
    Ok(())
}

async fn expect(user: &Client, pods: usize) -> Result<(), BoxError> {
    let there = user.list::<Pod>().await?.items.len();
    if there == pods { Ok(()) } else { Err(format!("there are {there} pods instead of {pods}").into()) }
}

fn asking(name: &str) -> Value {
    let labels = json!({"app": name});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 3, "selector": {"matchLabels": labels}, "serviceName": name, "template": template});
    let mut asking = json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec});
    if name.starts_with("web")
        && let Some(spec) = asking["spec"].as_object_mut()
    {
        spec.remove("serviceName");
    }
    asking
}

/// Returns a Markdown table with the requests of all programs, for several sizes.
///
/// # Errors
/// Returns an error if a program fails.
pub async fn table(sizes: &[usize], lasting: Duration) -> Result<String, BoxError> {
    let mut table = String::from("| Deployments + StatefulSets | program | lists | watches | writes | requests |\n");
    table += "|---|---|---|---|---|---|\n";
    for &of_each in sizes {
        for program in Program::ALL {
            let measured = measure(program, Measurement { of_each, lasting }).await?;
            let Measured { lists, watches, writes } = measured;
            let all = measured.requests();
            table += &format!("| {of_each} + {of_each} | {program} | {lists} | {watches} | {writes} | {all} |\n");
        }
    }
    Ok(table)
}
