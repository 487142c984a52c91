use jiff::Timestamp;
use serde_json::json;

use super::*;

fn quota(name: &str, hard: Value, used: Value) -> Quota {
    Quota::new(json!({"metadata": {"name": name}, "status": {"hard": hard, "used": used}}))
}

fn pod(containers: Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"containers": containers}})
}

fn container(cpu: &str) -> Value {
    json!({"name": "a", "resources": {"requests": {"cpu": cpu}}})
}

fn charge(object: &Value, old: Option<&Value>) -> Charge {
    let evaluator = Evaluator::of("", "pods").unwrap();
    Charge {
        usage: evaluator.measure(object, Timestamp::UNIX_EPOCH),
        previous: old.map(|old| evaluator.measure(old, Timestamp::UNIX_EPOCH)),
        evaluator,
        resource: GroupResource::new("", "pods"),
        name: "p".to_owned(),
        is_limited: true,
        is_dry_run: false,
    }
}

/// Returns the usage after a charge, or the message of the refusal.
fn charged(charge: &Charge, quotas: &mut [Quota]) -> Result<Vec<String>, String> {
    charge.apply(quotas, &[]).map_err(|status| status.message)?;
    let shown = |quota: &Quota| quota.used.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>();
    Ok(quotas.iter().map(|quota| shown(quota).join(",")).collect())
}

#[test]
fn charge_adds_the_limited_amounts() {
    let mut quotas = [
        quota("a", json!({"pods": "2", "requests.cpu": "1"}), json!({"pods": "0", "requests.cpu": "0"})),
        quota("b", json!({"services": "1"}), json!({"services": "0"})),
    ];
    let charge = charge(&pod(json!([container("400m")])), None);
    assert_eq!(charged(&charge, &mut quotas).unwrap(), ["pods=1,requests.cpu=400m", "services=0"]);
    assert_eq!(charged(&charge, &mut quotas).unwrap(), ["pods=2,requests.cpu=800m", "services=0"]);
    assert!(quotas[0].is_charged() && !quotas[1].is_charged());
    let expected = "pods \"p\" is forbidden: exceeded quota: a, requested: pods=1,requests.cpu=400m, used: \
                    pods=2,requests.cpu=800m, limited: pods=2,requests.cpu=1";
    assert_eq!(charged(&charge, &mut quotas).unwrap_err(), expected);
}

#[test]
fn refusal_of_one_quota_charges_no_other() {
    let mut quotas = [
        quota("a", json!({"pods": "9"}), json!({"pods": "0"})),
        quota("b", json!({"pods": "9", "cpu": "1"}), json!({"pods": "0", "cpu": "800m"})),
    ];
    let charge = charge(&pod(json!([container("400m")])), None);
    let expected = "pods \"p\" is forbidden: exceeded quota: b, requested: cpu=400m, used: cpu=800m, limited: cpu=1";
    assert_eq!(charged(&charge, &mut quotas).unwrap_err(), expected);
    assert!(!quotas[0].is_charged() && !quotas[1].is_charged());
}

#[test]
fn pods_must_set_the_limited_compute_amounts() {
    let mut quotas = [quota("q", json!({"limits.cpu": "1", "pods": "1"}), json!({"limits.cpu": "0", "pods": "0"}))];
    let expected = "pods \"p\" is forbidden: failed quota: q: must specify limits.cpu for: a";
    assert_eq!(charged(&charge(&pod(json!([container("1")])), None), &mut quotas).unwrap_err(), expected);
}

#[test]
fn quota_without_usage_refuses_what_it_limits() {
    let mut quotas = [quota("q", json!({"pods": "5", "count/pods": "5"}), json!({"pods": "0"}))];
    let expected = "pods \"p\" is forbidden: status unknown for quota: q, resources: count/pods,pods";
    assert_eq!(charged(&charge(&pod(json!([])), None), &mut quotas).unwrap_err(), expected);
    let mut new = [quota("q", json!({}), json!({}))];
    assert_eq!(charge(&pod(json!([])), None).apply(&mut new, &[]), Ok(Outcome::Unaffected));
}

#[test]
fn update_is_charged_with_the_difference() {
    let (old, new) = (pod(json!([container("1")])), pod(json!([container("3")])));
    let hard = json!({"cpu": "5", "pods": "1"});
    let mut quotas = [quota("q", hard.clone(), json!({"cpu": "2", "pods": "1"}))];
    assert_eq!(charged(&charge(&new, Some(&old)), &mut quotas).unwrap(), ["cpu=4,pods=1"]);
    assert_eq!(charged(&charge(&old, Some(&new)), &mut quotas).unwrap(), ["cpu=4,pods=1"], "a smaller pod is free");
    let expected = "pods \"p\" is forbidden: exceeded quota: q, requested: cpu=2, used: cpu=4, limited: cpu=5";
    assert_eq!(charged(&charge(&new, Some(&old)), &mut quotas).unwrap_err(), expected);
    let unlimited = Charge { is_limited: false, ..charge(&new, Some(&old)) };
    assert_eq!(charged(&unlimited, &mut quotas).unwrap(), ["cpu=6,pods=1"]);
}

#[test]
fn pod_that_enters_a_scope_is_charged_completely() {
    let mut new = pod(json!([container("1")]));
    let old = new.clone();
    new["spec"]["activeDeadlineSeconds"] = 5.into();
    let mut terminating = quota("q", json!({"pods": "1"}), json!({"pods": "0"}));
    terminating.scopes = ScopeRequirement::of_quota(&json!({"spec": {"scopes": ["Terminating"]}}));
    let mut quotas = [terminating];
    assert_eq!(charge(&old, None).apply(&mut quotas, &[]), Ok(Outcome::Unaffected));
    assert_eq!(charged(&charge(&new, Some(&old)), &mut quotas).unwrap(), ["pods=1"]);
}

#[test]
fn dry_run_is_checked_but_not_charged() {
    let mut quotas = [quota("q", json!({"pods": "1"}), json!({"pods": "0"}))];
    let dry_run = Charge { is_dry_run: true, ..charge(&pod(json!([])), None) };
    assert_eq!(dry_run.apply(&mut quotas, &[]), Ok(Outcome::Unaffected));
    assert_eq!(charged(&charge(&pod(json!([])), None), &mut quotas).unwrap(), ["pods=1"]);
    assert!(charged(&dry_run, &mut quotas).unwrap_err().contains("exceeded quota: q"));
}

#[test]
fn limited_resources_need_a_quota() {
    let limited = [LimitedResource {
        plural: "pods".to_owned(),
        match_contains: vec!["cpu".to_owned()],
        match_scopes: ScopeRequirement::list(&[
            json!({"scopeName": "PriorityClass", "operator": "In", "values": ["high", "higher"]}),
        ])
        .collect(),
        ..LimitedResource::default()
    }];
    let refused =
        |charge: &Charge, quotas: &mut [Quota]| charge.apply(quotas, &limited).map_err(|status| status.message);
    let expected = "pods \"p\" is forbidden: insufficient quota to consume: cpu,requests.cpu";
    let sized = charge(&pod(json!([container("1")])), None);
    assert_eq!(refused(&sized, &mut []).unwrap_err(), expected);
    let both = json!({"cpu": "9", "requests.cpu": "9"});
    let mut covering = [quota("q", both, json!({"cpu": "0", "requests.cpu": "0"}))];
    assert_eq!(refused(&sized, &mut covering), Ok(Outcome::Charged));

    let mut high = pod(json!([]));
    high["spec"]["priorityClassName"] = "high".into();
    let high = charge(&high, None);
    let expected = "insufficient quota to match these scopes: [{PriorityClass In [high higher]}]";
    assert_eq!(refused(&high, &mut []).unwrap_err(), expected);
    let mut scoped = quota("q", json!({"pods": "1"}), json!({"pods": "0"}));
    scoped.scopes = ScopeRequirement::of_quota(&json!({"spec": {"scopes": ["PriorityClass"]}}));
    assert_eq!(refused(&high, &mut [scoped]), Ok(Outcome::Charged));
    assert_eq!(refused(&charge(&pod(json!([])), None), &mut []), Ok(Outcome::Unaffected));
}

#[test]
fn negative_usage_is_refused() {
    let mut quotas = [quota("q", json!({"cpu": "1"}), json!({"cpu": "0"}))];
    let message = charged(&charge(&pod(json!([container("-1")])), None), &mut quotas).unwrap_err();
    assert!(message.ends_with("quota usage is negative for resource(s): cpu,requests.cpu"), "{message}");
}
