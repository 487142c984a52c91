//! What each program asks of the server, counted between its client and the server.
//!
//! The clock stands still while there is something to do, so the minutes of a measurement take moments, and the counts are the same
//! each time.

use std::time::Duration;

use serde_json::{Value, from_value, json};
use windlass::{
    Client, Patch,
    api::BoxError,
    envtest::{Environment, Requests, Verb},
    k8s::{
        apps::v1::{Deployment, StatefulSet},
        core::v1::Pod,
    },
};

use crate::Program;

/// How much there is, and what happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// So many Deployments and as many StatefulSets, with three pods each.
    pub of_each: usize,
    /// How long it is looked on. Informers begin their watches anew after five minutes or more: a shorter time has none of that.
    pub lasting: Duration,
}

/// The requests of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Lists.
    pub lists: usize,
    /// Watches, each of which begins with what there is.
    pub watches: usize,
    /// Creations and deletions.
    pub writes: usize,
}

impl Measured {
    /// All of them.
    #[must_use]
    pub const fn requests(self) -> usize {
        self.lists + self.watches + self.writes
    }
}

/// Lets a program work in a cluster of its own: the workloads are there, one is scaled from three to five and back to one, a pod
/// is lost, and for the rest of the time nothing happens. In a runtime whose clock is paused.
///
/// # Errors
/// When the program fails, or has not done its work in the end.
pub async fn measure(program: Program, workload: Workload) -> Result<Measured, BoxError> {
    let env = Environment::builder().seed(1).start().await?;
    let heard = env.record(Requests::any());
    // The user's requests are not the program's, and go past the recorder.
    let server = env.server().ok_or("the environment has a server of its own")?;
    let user = Client::from_service(server.service(), "default");
    for number in 0..workload.of_each {
        user.create(&from_value::<Deployment>(asking(&format!("web-{number}")))?).await?;
        user.create(&from_value::<StatefulSet>(asking(&format!("db-{number}")))?).await?;
    }
    let (client, deadline) = (env.client(), tokio::time::Instant::now() + workload.lasting);
    tokio::select! {
        ended = program.run(&client) => {
            ended?;
            return Err(format!("{program} has ended by itself").into());
        }
        lived = live(&user, workload, deadline) => lived?,
    }
    let of = |verbs: &[Verb]| heard.requests().iter().filter(|recorded| verbs.contains(&recorded.sent.verb)).count();
    let measured =
        Measured { lists: of(&[Verb::List]), watches: of(&[Verb::Watch]), writes: of(&[Verb::Create, Verb::Delete]) };
    env.stop().await?;
    Ok(measured)
}

/// What happens meanwhile. Between two things there is time for the slowest program.
async fn live(user: &Client, workload: Workload, deadline: tokio::time::Instant) -> Result<(), BoxError> {
    let rest = || tokio::time::sleep(Duration::from_secs(20));
    rest().await;
    expect(user, 6 * workload.of_each).await?;
    for (replicas, pods) in [(5, 6 * workload.of_each + 2), (1, 6 * workload.of_each - 2)] {
        user.patch::<Deployment>("web-0", Patch::Merge(json!({"spec": {"replicas": replicas}}))).await?;
        rest().await;
        expect(user, pods).await?;
    }
    user.delete::<Pod>("db-0-1").await?;
    rest().await;
    expect(user, 6 * workload.of_each - 2).await?;
    tokio::time::sleep_until(deadline).await;
    Ok(())
}

async fn expect(user: &Client, pods: usize) -> Result<(), BoxError> {
    let there = user.list::<Pod>().await?.items.len();
    if there == pods { Ok(()) } else { Err(format!("there are {there} pods, and should be {pods}").into()) }
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

/// The requests of all programs, for several sizes, as a table in Markdown.
///
/// # Errors
/// When a program fails.
pub async fn table(sizes: &[usize], lasting: Duration) -> Result<String, BoxError> {
    let mut table = String::from("| Deployments + StatefulSets | program | lists | watches | writes | requests |\n");
    table += "|---|---|---|---|---|---|\n";
    for &of_each in sizes {
        for program in Program::ALL {
            let measured = measure(program, Workload { of_each, lasting }).await?;
            let Measured { lists, watches, writes } = measured;
            let all = measured.requests();
            table += &format!("| {of_each} + {of_each} | {program} | {lists} | {watches} | {writes} | {all} |\n");
        }
    }
    Ok(table)
}
