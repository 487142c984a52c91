use std::fmt::Write;

use super::*;

/// A stage with a `spec` that is indented by two spaces.
fn stage(spec: &str) -> String {
    let mut text = String::from("apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata:\n  name: one\nspec:\n");
    for line in spec.lines() {
        writeln!(text, "  {line}").unwrap();
    }
    text
}

fn error(text: &str) -> String {
    parse("s.yaml", text).unwrap_err().to_string()
}

#[test]
fn file_has_stages_of_pods_and_nodes() {
    let pod = stage("resourceRef: {apiGroup: v1, kind: Pod}\nselector: {}\nnext: {delete: true}\nweight: 3");
    let node = stage(
        "resourceRef: {kind: Node}\nselector:\n  matchExpressions:\n  - jq: {key: .status.phase, operator: Exists}\n\
         delay: {durationMilliseconds: 5, jitterDurationFrom: {jq: {expression: .metadata.x}}}\n\
         steps:\n- event: {type: Warning, reason: A, message: b}\n- patch: {root: status, subresource: status, \
         template: 'phase: {{ NodeName }}', type: merge}\n- finalizers: {add: [{value: a/b}], empty: true}",
    );
    let stages = parse("s.yaml", &format!("{pod}---\n{node}")).unwrap();
    let (pod, node) = (&stages.pods[0], &stages.nodes[0]);
    assert_eq!((&*pod.steps, pod.weight, pod.line), (&[Step::Delete][..], 3, 4));
    assert_eq!(node.selector.requirements[0].operator, Operator::Exists);
    assert!(node.delay.jitter.as_ref().is_some_and(|jitter| jitter.from.is_some()));
    let event = Step::Event { is_warning: true, reason: "A".into(), message: "b".into() };
    let finalizers = Step::Finalizers { add: vec!["a/b".into()], remove: Vec::new(), empty: true };
    assert!(node.steps[0] == event && node.steps[2] == finalizers, "{:?}", node.steps);
    let Step::Patch(patch) = &node.steps[1] else { panic!("{:?}", node.steps) };
    assert_eq!((patch.kind, patch.is_status, patch.root.as_deref()), (PatchKind::Merge, true, Some("status")));
}

#[test]
fn next_has_the_order_of_kwok() {
    let text = stage(
        "resourceRef: {kind: Pod}\nselector: {}\nnext:\n  delete: true\n  statusTemplate: 'phase: Failed'\n  \
         event: {type: Normal}\n  finalizers: {remove: [{value: a}]}",
    );
    let steps = &parse("s.yaml", &text).unwrap().pods[0].steps;
    assert!(
        matches!(&**steps, [Step::Event { .. }, Step::Finalizers { .. }, Step::Patch(patch), Step::Delete]
            if patch.kind == PatchKind::Strategic && patch.is_status),
        "{steps:?}"
    );
}

#[test]
fn unsupported_fields_are_named() {
    let base = "resourceRef: {kind: Pod}\nselector: {}\n";
    for (spec, message) in [
        ("selector: {}", "missing field `resourceRef`"),
        ("resourceRef: {kind: Pod}", "s.yaml:4: stage \"one\": spec.selector: without a selector"),
        ("resourceRef: {kind: Job, apiGroup: batch/v1}\nselector: {}", "spec.resourceRef: Job of batch/v1"),
        ("resourceRef: {kind: Pod}\nselector: {}\nwait: 3", "s.yaml:8: unknown field `wait`"),
        ("selector: {matchFields: []}\nresourceRef: {kind: Pod}", "unknown field `matchFields`"),
        (&format!("{base}next: {{statusPatchAs: {{username: a}}}}"), "spec.next.statusPatchAs: this field is not"),
        (&format!("{base}next: {{statusTemplate: a, statusSubresource: scale}}"), "the subresource \"scale\""),
        (&format!("{base}next: {{patches: [{{template: a, type: apply}}]}}"), "spec.next.patches[0].type: \"apply\""),
        (&format!("{base}next: {{patches: [{{template: a}}], statusTemplate: a}}"), "cannot be combined"),
        (&format!("{base}next: {{}}\nsteps: [{{delete: true}}]"), "spec.steps: cannot be combined"),
        (&format!("{base}steps: [{{apply: {{}}}}]"), "spec.steps[0].apply: this field is not supported"),
        (&format!("{base}next: {{event: {{reason: A}}}}"), "spec.next.event.type: \"\" is not one of"),
        (&format!("{base}weightFrom: {{cel: {{expression: a}}}}"), "spec.weightFrom.cel: this field is not"),
        (&format!("{base}weightFrom: {{}}"), "spec.weightFrom: expected expressionFrom or jq"),
        (&format!("{base}weight: -1"), "s.yaml:8"),
        (
            &format!("{base}delay: {{durationFrom: {{expressionFrom: '.a + 1'}}}}"),
            "s.yaml:8: stage \"one\": spec.delay",
        ),
    ] {
        let error = error(&stage(spec));
        assert!(error.contains(message), "{spec}: {error}");
    }
}

#[test]
fn selectors_are_checked() {
    for (expression, message) in [
        ("{key: .a, operator: In}", "matchExpressions[0].values: In and NotIn need values"),
        ("{key: .a, operator: Exists, values: [a]}", "Exists and DoesNotExist have none"),
        ("{key: .a, operator: Gt, values: [a]}", "matchExpressions[0].operator: \"Gt\" is not one of"),
        ("{key: .a}", "matchExpressions[0]: expected key and operator, or jq"),
        ("{key: '.a as $x | $x', operator: Exists}", "matchExpressions[0].key: unsupported or unexpected syntax"),
        ("{cel: {expression: a}}", "matchExpressions[0].cel: this field is not supported"),
    ] {
        let spec = format!("resourceRef: {{kind: Pod}}\nselector: {{matchExpressions: [{expression}]}}");
        let error = error(&stage(&spec));
        assert!(error.contains(message), "{expression}: {error}");
    }
}

#[test]
fn template_errors_have_file_line_and_stage() {
    let spec = "resourceRef: {kind: Node}\nselector: {}\nnext:\n  statusTemplate: ";
    for (template, line) in [("|\n    a: b\n    c: {{ Nope }}\n", 11), ("'{{ Nope }}'", 9)] {
        let found = error(&stage(&format!("{spec}{template}")));
        let expected =
            format!("s.yaml:{line}: stage \"one\": spec.next.statusTemplate: the function \"Nope\" is not supported");
        assert_eq!(found, expected, "{template}");
    }
    let of_pods = error(&stage(&format!("{spec}'{{{{ PodIP }}}}'")));
    assert!(of_pods.contains("the function \"PodIP\" is not supported"), "nodes have no pod address: {of_pods}");
}

#[test]
fn other_kinds_and_duplicates_are_rejected() {
    let one = stage("resourceRef: {kind: Pod}\nselector: {}");
    let other = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n";
    assert_eq!(
        error(&format!("{one}---\n{other}")),
        "s.yaml:9: the kind \"Pod\" of the API version \"v1\" is not supported; expected Stage of kwok.x-k8s.io/v1alpha1"
    );
    let error = error(&format!("{one}---\n{one}"));
    assert!(error.contains("s.yaml:12: stage \"one\": s.yaml:4: stage \"one\" has a stage of this name"), "{error}");
    assert!(parse("s.yaml", "a: [").is_err());
}
