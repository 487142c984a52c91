//! The cases of `cases/` and `matrix/`, with one test per file.

use conformance::{assert_recorded, differences, files, names};

/// Defines a test for each file, and their list.
macro_rules! cases {
    ($($file:ident)*) => {
        const FILES: &[&str] = &[$(stringify!($file)),*];

        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $file() {
            assert_recorded(stringify!($file)).await;
        })*
    };
}

cases! {
    admission
    admission_policies
    aggregation
    apply
    attacks
    authorization
    bootstrap_tokens
    certificates
    clients
    conditions
    conversion
    core_kinds
    custom
    definitions
    deletion
    derived
    devices
    discovery
    each_is_read
    each_is_written
    each_refuses
    escalation
    fairness
    flow_control
    formats
    found
    health
    identity
    impersonation
    jobs
    lists
    mutating_policies
    namespaces
    networking
    node_restriction
    nodes
    other_kinds
    ownership
    patches
    paths
    plugins
    pod_parts
    pod_security
    pods
    policy
    quotas
    rbac
    refusals
    reset
    reviews
    rules
    schemas
    secret_tokens
    service_rules
    services
    storage
    strategic
    subresources
    verbs
    views
    watches
    workloads
}

#[test]
fn every_file_of_cases_is_held() {
    assert_eq!(files(), FILES, "the list above and the files differ");
}

/// The minimum number of cases, and the maximum share of differences.
const LEAST: usize = 1500;
const MOST_DIFFERENCES: usize = 2;

#[test]
fn suite_has_the_documented_size() {
    let cases = names(FILES).len();
    let listed = differences().len();
    println!("{cases} cases in {} files; {listed} listed differences", FILES.len());
    assert!(cases >= LEAST, "{cases} cases");
    assert!(listed * 100 <= cases * MOST_DIFFERENCES, "{listed} of {cases} cases differ");
}

#[test]
fn every_listed_difference_is_one_of_a_case() {
    let names = names(FILES);
    let unknown: Vec<_> = differences().into_keys().filter(|name| !names.contains(name)).collect();
    assert!(unknown.is_empty(), "DIFFERENCES.md lists no cases: {unknown:?}");
}
