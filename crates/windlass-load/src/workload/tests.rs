use super::*;

fn error(text: &str) -> String {
    Workload::parse("w.yaml", text).unwrap_err().to_string()
}

/// A valid workload with these phases.
fn with_phases(phases: &str) -> String {
    format!("name: t\nobjects:\n  a: {{count: 1, template: {{apiVersion: v1, kind: A}}}}\nphases:\n{phases}\n")
}

#[test]
fn built_in_workloads_are_valid() {
    for name in Workload::names() {
        assert_eq!(Workload::built_in(name).unwrap().name(), name);
        for nodes in [1, 3, 99, 100, 5000] {
            let scaled = Workload::built_in(name).unwrap().scale(&Size { nodes, ..Size::default() }).unwrap();
            assert_eq!(scaled.namespaces, (nodes / 100).max(1), "{name} {nodes}");
            // The number of pods in Deployments is about that of the size.
            let pods: f64 = scaled
                .sets
                .iter()
                .filter(|set| set.kind == "Deployment")
                .map(|set| match set.count {
                    Count::PerNamespace(count) => float(count * scaled.namespaces) * set.replicas.unwrap_or(1.0),
                    Count::Total(_) => 0.0,
                })
                .sum();
            let wanted = float(nodes * 30);
            assert!((wanted * 0.6..=wanted * 1.1).contains(&pods), "{name} {nodes}: {pods} instead of {wanted}");
        }
    }
}

#[test]
fn load_of_100_nodes_has_the_documented_size() {
    let scaled = Workload::built_in("load").unwrap().scale(&Size { nodes: 100, ..Size::default() }).unwrap();
    let count = |name: &str| scaled.sets.iter().find(|set| set.name == name).unwrap().count;
    assert_eq!(count("big-deployment"), Count::PerNamespace(3));
    assert_eq!(count("medium-deployment"), Count::PerNamespace(25));
    assert_eq!(count("small-deployment"), Count::PerNamespace(298));
    assert_eq!(count("config"), Count::PerNamespace(326));
    assert_eq!(count("daemon-set"), Count::Total(1));
}

#[test]
#[expect(clippy::float_cmp, reason = "the values are exact")]
fn flags_replace_the_values_of_the_file() {
    let size = Size {
        nodes: 10,
        pods_per_node: Some(5.0),
        rate: Some(7.0),
        namespaces: Some(2),
        churn: 3.0,
        duration: Duration::from_mins(1),
        parameters: [("smallSize".to_owned(), 1.0)].into(),
    };
    let scaled = Workload::built_in("load").unwrap().scale(&size).unwrap();
    let values = ["pods", "rate", "namespaces", "podsPerNamespace", "smallSize"].map(|name| scaled.variable(name));
    assert_eq!(values, [50.0, 7.0, 2.0, 25.0, 1.0]);
    let churn = scaled.phases.iter().find(|phase| phase.name == "churn").unwrap();
    assert!(churn.pace == Pace::Limited { rate: 3.0, duration: 60.0 } && !churn.is_skipped());
    let scaled = Workload::built_in("load").unwrap().scale(&Size { churn: 0.0, ..size }).unwrap();
    assert!(scaled.phases.iter().find(|phase| phase.name == "churn").unwrap().is_skipped());
}

#[test]
fn errors_name_the_file_and_the_line() {
    let text = error("name: t\nobjets: {}\nphases: []\n");
    assert!(text.starts_with("workload w.yaml: ") && text.contains("objets") && text.contains("line 2"), "{text}");
    let text = error("name: t\nrate: 1 +\nobjects: {}\nphases: []\n");
    assert!(text.contains("invalid expression \"1 +\"") && text.contains("line 2"), "{text}");
    assert!(error("name: [").contains("line 1"), "{}", error("name: ["));
    let text = Workload::open("/does/not/exist.yaml").unwrap_err().to_string();
    assert_eq!(text, "cannot read workload /does/not/exist.yaml");
}

#[test]
fn errors_name_the_place() {
    for (phases, expected) in [
        ("- {name: x, create: [b]}", "phases[0]: unknown objects \"b\"; the objects are a"),
        ("- {name: x}", "phases[0]: needs exactly one of create"),
        ("- {name: x, create: [a], delete: [a]}", "phases[0]: needs exactly one of create"),
        ("- {name: x, create: [a]}\n- {name: y, scale: [a]}", "phases[1]: scale needs factor"),
        ("- {name: x, scale: [a], factor: {min: 2, max: 1}}", "phases[0].factor: 2 is more than 1"),
        ("- {name: x, create: [a], patch: {}}", "phases[0]: patch belongs to update"),
        ("- {name: x, create: [a], factor: {min: 1, max: 1}}", "phases[0]: factor belongs to scale"),
        ("- {name: x, churn: [a], duration: 5}", "phases[0]: churn needs rate and duration"),
        ("- {name: x, create: [a], rate: nods}", "phases[0].rate: unknown variable \"nods\"; the variables are churn"),
        ("- {name: x, create: [a], rate: 0 - 1}", "phases[0].rate: 0 - 1 is -1, which is negative"),
        ("- {name: x, create: [a], timeout: 5}", "phases[0].timeout: time: missing unit in duration \"5\""),
        ("- {name: x, update: [a], patch: {a: '${1+'}}", "phases[0]: patch.a: \"${1+\" has no }"),
    ] {
        let text = error(&with_phases(phases));
        assert!(text.starts_with(&format!("workload w.yaml: {expected}")), "{phases}: {text}");
    }
    for (objects, expected) in [
        ("a: {template: {apiVersion: v1, kind: A}}", "objects.a: needs either count or total"),
        ("a: {count: 1, template: {kind: A}}", "objects.a.template: apiVersion is missing"),
        ("A: {count: 1, template: {apiVersion: v1, kind: A}}", "objects.A: a name consists of"),
        ("a: {count: 1e9, template: {apiVersion: v1, kind: A}}", "objects.a: 1000000000 objects are more than"),
        (
            "a: {count: 1, template: {apiVersion: v1, kind: A, x: ['${(}']}}",
            "objects.a.template.x[0]: invalid expression",
        ),
    ] {
        let text = error(&format!("name: t\nobjects:\n  {objects}\nphases: []\n"));
        assert!(text.starts_with(&format!("workload w.yaml: {expected}")), "{objects}: {text}");
    }
    let text = error(&format!("slos: {{get: fast}}\n{}", with_phases("- {name: x, create: [a]}")));
    assert!(text.starts_with("workload w.yaml: slos: get: "), "{text}");
    let text =
        error(&format!("reads: [{{verb: get, share: 1, limit: 5}}]\n{}", with_phases("- {name: x, create: [a]}")));
    assert!(text.contains("reads[0]: get has neither scope nor limit"), "{text}");
    let unknown = Size { nodes: 1, parameters: [("x".to_owned(), 1.0)].into(), ..Size::default() };
    let text = Workload::built_in("density").unwrap().scale(&unknown).unwrap_err().to_string();
    assert_eq!(text, "workload density: unknown parameter \"x\"; the parameters are size, latencyPods, latencyRate");
}
