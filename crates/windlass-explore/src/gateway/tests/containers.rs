//! Commands and logs of simulated pods, with the project's own client over a socket.

use http::Method;
use serde_json::json;
use tokio::time;
use windlass_client::Client;
use windlass_controllers::PodAnswers;

use crate::cluster::{
    ClusterOptions,
    fixture::{Fixture, PATIENCE},
};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A fixture with a pod that runs, and with answers.
async fn running(answers: &str) -> Fixture {
    let answers = Some(PodAnswers::parse("answers.yaml", answers).unwrap());
    let fixture = Fixture::start_with("none", &ClusterOptions { nodes: 1, answers, ..ClusterOptions::default() }).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "i"}]}});
    let administrator = fixture.administrator();
    administrator.succeed(Method::POST, PODS, pod).await;
    let runs = async {
        while administrator.get(&format!("{PODS}/p")).await.1["status"]["phase"] != "Running" {
            fixture.cluster.changed().await;
        }
    };
    time::timeout(PATIENCE, runs).await.expect("the pod runs");
    fixture
}

async fn output(client: &Client, command: &[&str]) -> (i32, String, String) {
    let output = client.exec("p", command.iter().copied()).await.unwrap().output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code, text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn commands_and_logs_have_answers() {
    let fixture = running(
        "exec: [{command: [date], stdout: 'in {{ .metadata.name }}', stderr: '!'}, {command: [fail], exitCode: 9}]\n\
         logs: [{container: main, text: \"a\\nb\\n\"}]",
    )
    .await;
    let program = fixture.process(1).0;
    assert_eq!(output(&program, &["date"]).await, (0, "in p".to_owned(), "!".to_owned()));
    assert_eq!(output(&program, &["fail"]).await, (9, String::new(), String::new()));
    let error = program.exec("p", ["other"]).await.unwrap().output().await.unwrap_err();
    assert!(error.chain().contains("\"other\": executable file not found in $PATH"), "{}", error.chain());
    let log = program.logs("p").tail(1).await.unwrap().text().await.unwrap();
    assert_eq!(log, "b\n");
    fixture.until(|cluster| cluster.activity().in_flight == 0).await;
    let observed = fixture.finish().await;
    let commands: Vec<_> = observed.requests.iter().filter(|request| request.target.contains("/exec?")).collect();
    assert_eq!(commands.len(), 3, "they are in the event log");
}

#[tokio::test]
async fn command_is_in_flight_until_it_ends() {
    let fixture = running("exec: [{delay: 1h}]").await;
    let program = fixture.process(1).0;
    let command = program.exec("p", ["sleep"]).await.unwrap();
    assert_eq!(fixture.cluster.activity().in_flight, 1);
    drop(command);
    fixture.until(|cluster| cluster.activity().in_flight == 0).await;
    fixture.finish().await;
}
