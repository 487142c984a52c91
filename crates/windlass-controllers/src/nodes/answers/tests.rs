use super::*;

fn pod() -> Value {
    json!({"metadata": {"name": "db-0", "namespace": "shop", "labels": {"app": "db", "tier": "data"}}})
}

fn answers(text: &str) -> PodAnswers {
    PodAnswers::parse("a.yaml", text).unwrap()
}

fn container<'a>(pod: &'a Value, name: &'a str) -> ContainerId<'a> {
    ContainerId { pod, name, now: "2026-01-02T03:04:05Z".parse().unwrap() }
}

/// Returns the standard output of a command in the container `main`.
fn stdout(answers: &PodAnswers, command: &[&str]) -> Option<String> {
    let result = answers.exec(&container(&pod(), "main"), command).unwrap()?;
    Some(String::from_utf8(result.stdout.to_vec()).unwrap())
}

#[test]
fn first_matching_rule_answers() {
    let answers = answers(
        "exec:\n\
         - {namespace: other, stdout: a}\n\
         - {pod: db-1, stdout: b}\n\
         - {labels: {app: db, tier: web}, stdout: c}\n\
         - {container: sidecar, stdout: d}\n\
         - {command: [db, ping], stdout: exact}\n\
         - {commandPrefix: [db, ping], stdout: prefix}\n\
         - {commandPattern: '^db (start|stop)$', stdout: pattern}\n\
         - {namespace: shop, pod: db-0, labels: {app: db}, container: main, commandPrefix: [db], stdout: last}\n",
    );
    let stdout = |command: &[&str]| stdout(&answers, command);
    assert_eq!(stdout(&["db", "ping"]).as_deref(), Some("exact"));
    assert_eq!(stdout(&["db", "ping", "-q"]).as_deref(), Some("prefix"));
    assert_eq!(stdout(&["db", "stop"]).as_deref(), Some("pattern"));
    assert_eq!(stdout(&["db", "stop now"]).as_deref(), Some("last"));
    assert_eq!(stdout(&["db"]).as_deref(), Some("last"));
    assert_eq!(stdout(&["sh"]), None);
    let other = answers.exec(&container(&pod(), "sidecar"), &["db", "ping"]).unwrap().unwrap();
    assert_eq!(other.stdout, "d");
}

#[test]
fn rule_without_a_command_answers_all() {
    let answers = answers("exec:\n- {stderr: no, exitCode: 255, delay: 1.5s}\n");
    let result = answers.exec(&container(&pod(), "main"), &["x"]).unwrap().unwrap();
    let expected =
        CommandResult { stdout: Bytes::new(), stderr: "no".into(), exit_code: 255, delay: Duration::from_millis(1500) };
    assert_eq!(result, expected);
}

#[test]
fn texts_are_templates_of_the_pod() {
    let answers = answers(
        "exec:\n- stdout: '{{ .metadata.namespace }}/{{ .metadata.name }} {{ Container }} {{ join \" \" Command }} {{ Now }}'\n\
         logs:\n- {text: '{{ .metadata.name }} {{ Container }}', previous: before, interval: 2s}\n",
    );
    assert_eq!(stdout(&answers, &["a", "b"]).as_deref(), Some("shop/db-0 main a b 2026-01-02T03:04:05Z"));
    let (pod, log) =
        (pod(), |text: &str| ContainerLog { text: text.to_owned().into(), interval: Duration::from_secs(2) });
    assert_eq!(answers.log(&container(&pod, "main"), false), Ok(log("db-0 main")));
    assert_eq!(answers.log(&container(&pod, "main"), true), Ok(log("before")));
}

#[test]
fn failed_template_names_its_line() {
    let answers = answers("exec:\n- stdout: |\n    one\n    {{ index .metadata.finalizers 3 }}\n");
    let error = answers.exec(&container(&pod(), "main"), &["x"]).unwrap_err();
    assert!(error.starts_with("a.yaml:4: exec[0]: stdout: "), "{error}");
}

#[test]
fn log_without_a_rule_is_empty() {
    let answers = answers("logs:\n- {container: other, text: a}\n");
    assert_eq!(answers.log(&container(&pod(), "main"), false), Ok(ContainerLog::default()));
    assert!(!answers.is_empty() && PodAnswers::default().is_empty());
}

#[test]
fn rules_of_the_first_file_come_first() {
    let both = answers("exec:\n- {command: [a], stdout: first}\n").and(answers("exec:\n- {stdout: second}\n"));
    assert_eq!(stdout(&both, &["a"]).as_deref(), Some("first"));
    assert_eq!(stdout(&both, &["b"]).as_deref(), Some("second"));
}

#[test]
fn failed_node_is_not_reachable() {
    let node = |annotations: Value| json!({"metadata": {"annotations": annotations}});
    assert!(PodAnswers::default().is_reachable(&json!({"metadata": {}})));
    assert!(PodAnswers::default().is_reachable(&node(json!({FAIL: "false"}))));
    assert!(!PodAnswers::default().is_reachable(&node(json!({FAIL: "true"}))));
}

#[test]
fn invalid_rules_are_named() {
    for (text, message) in [
        (
            "exec:\n- {stdout: a}\n- {exitCode: 256}\n",
            "a.yaml:3: exec[1]: exitCode: 256 is not an exit code; expected 0 to 255",
        ),
        ("exec:\n- {exitCode: -1}\n", "a.yaml:2: exec[0]: exitCode: -1 is not an exit code"),
        ("exec:\n- {command: []}\n", "a.yaml:2: exec[0]: command: the command is empty; omit it for all commands"),
        (
            "exec:\n- {command: [a], commandPrefix: [a]}\n",
            "exec[0]: command: expected at most one of command, commandPrefix",
        ),
        ("exec:\n- commandPattern: '('\n", "a.yaml:2: exec[0]: commandPattern: regex parse error"),
        ("exec:\n- commandPattern: '(a{9999}){9999}'\n", "exec[0]: commandPattern: "),
        ("exec:\n- {delay: 2}\n", "a.yaml:2: exec[0]: delay: time: missing unit in duration \"2\""),
        ("exec:\n- {delay: 2h}\n", "a.yaml:2: exec[0]: delay: 2h is not between 0s and 1h"),
        ("exec:\n- {delay: -2s}\n", "exec[0]: delay: -2s is not between"),
        ("exec:\n- stdout: |\n    a\n    {{ unknown }}\n", "a.yaml:4: exec[0]: stdout: "),
        ("exec:\n- {stdin: a}\n", "a.yaml:2: unknown field `stdin`"),
        ("logs:\n- {text: '{{ Command }}'}\n", "a.yaml:2: logs[0]: text: "),
        ("logs:\n- {container: a}\n", "missing field `text`"),
        ("logs:\n- {text: a}\n- {text: b, interval: soon}\n", "a.yaml:3: logs[1]: interval: time: invalid duration"),
        ("commands: []\n", "a.yaml:1: unknown field `commands`"),
        ("- a\n", "a.yaml:1"),
    ] {
        let error = PodAnswers::parse("a.yaml", text).unwrap_err().to_string();
        assert!(error.contains(message), "{text}\n{error}\n{message}");
    }
}

#[test]
fn missing_file_is_named() {
    let error = PodAnswers::read("/none/answers.yaml").unwrap_err();
    assert_eq!(error.to_string(), "cannot read /none/answers.yaml");
}
