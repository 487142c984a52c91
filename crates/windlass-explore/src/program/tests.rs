use std::time::Duration;

use windlass_api::ErrorChain;

use super::*;

const PATIENCE: Duration = Duration::from_mins(1);

fn options<'r>(arguments: &'r [String], variables: &'r BTreeMap<String, String>) -> ProgramOptions<'r> {
    ProgramOptions { arguments, variables, directory: None, isolation: None, pod: None, run: 7 }
}

fn access(kubeconfig: &str) -> Access {
    Access { kubeconfig: kubeconfig.to_owned(), ..Access::default() }
}

#[allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]
fn shell(script: &str, variables: &[(&str, &str)]) -> Program {
    let arguments = ["sh", "-c", script, "{kubeconfig}", "{port}"].map(str::to_owned);
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Program::new(options(&arguments, &variables), Instant::now()).unwrap()
}

fn log(process: &record::Process) -> Vec<&str> {
    process.log.iter().map(|line| line.text.as_str()).collect()
}

/// Runs a process until it ends by itself.
#[allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]
async fn finished(program: &Program, number: usize) -> record::Process {
    let mut process = program.start(number, &access(&format!("# kubeconfig {number}\n"))).await.unwrap();
    timeout(PATIENCE, process.ended()).await.unwrap().unwrap();
    process.collect().await
}

/// Waits until the process has printed a line.
async fn printed(process: &Process, line: &str) {
    let found = async {
        while !process.log.contains(line) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, found).await.expect("the line is printed");
}

#[tokio::test]
async fn arguments_and_environment_are_filled() {
    let script = "cat \"$0\"; test \"$0\" = \"$KUBECONFIG\" && echo \"$WINDLASS_RUN $X $1\" >&2; exit 4";
    let program = shell(script, &[("X", "at {port}")]);
    let (first, second) = (finished(&program, 1).await, finished(&program, 2).await);
    let port = program.port.as_ref().unwrap().number();
    for (number, process) in [(1, &first), (2, &second)] {
        let mut lines = log(process);
        lines.sort_unstable();
        assert_eq!(lines, [format!("# kubeconfig {number}"), format!("7 at {port} {port}")]);
        let Some((at, ProcessEnd::Exited(status))) = &process.ended else { panic!("{:?}", process.ended) };
        assert_eq!((process.number, status.as_str(), *at >= process.started), (number, "exit status: 4", true));
    }
}

#[tokio::test]
async fn killed_process_keeps_its_log() {
    let program = shell("trap '' TERM; echo 'panic: boom'; echo up; sleep 1000", &[]);
    let process = program.start(1, &access("")).await.unwrap();
    printed(&process, "up").await;
    let killed = timeout(PATIENCE, process.kill()).await.unwrap();
    assert_eq!(log(&killed), ["panic: boom", "up"]);
    assert_eq!(killed.panics[0].message, "panic: boom");
    assert!(matches!(killed.ended, Some((_, ProcessEnd::Killed))));
}

#[tokio::test]
async fn stopped_process_can_end_in_time() {
    let program = shell("trap 'echo bye; exit' TERM; echo up; sleep 1000 & wait", &[]);
    let process = program.start(1, &access("")).await.unwrap();
    printed(&process, "up").await;
    let stopped = timeout(PATIENCE, process.stop(PATIENCE)).await.unwrap();
    assert_eq!(log(&stopped).last(), Some(&"bye"));
    assert!(matches!(stopped.ended, Some((_, ProcessEnd::Stopped))));
}

#[tokio::test]
async fn process_that_ignores_sigterm_is_killed_after_grace_period() {
    let program = shell("trap '' TERM; echo up; while :; do sleep 0.02; done", &[]);
    let process = program.start(1, &access("")).await.unwrap();
    printed(&process, "up").await;
    let stopped = timeout(PATIENCE, process.stop(Duration::from_millis(50))).await.unwrap();
    assert!(matches!(stopped.ended, Some((_, ProcessEnd::Stopped))));
}

#[tokio::test]
async fn missing_program_is_named() {
    let new = |arguments: &[&str]| {
        let arguments: Vec<_> = arguments.iter().map(|&text| text.to_owned()).collect();
        Program::new(options(&arguments, &BTreeMap::new()), Instant::now())
    };
    assert_eq!(ErrorChain(&new(&[]).unwrap_err()).to_string(), "cannot start : no program is specified");
    let error = new(&["/missing/operator"]).unwrap().start(1, &access("")).await.unwrap_err();
    let error = ErrorChain(&error).to_string();
    assert!(error.starts_with("cannot start /missing/operator: No such file"), "{error}");
}
