//! Measures decisions per second. Run it with optimizations:
//!
//! ```sh
//! cargo test --release -p windlass-controllers --lib scheduler::tests::speed -- --ignored --nocapture
//! ```

use super::*;

const NODES: usize = 5_000;
/// The number of pods on the nodes before the measurement.
const PLACED: usize = 100_000;
const PODS: u32 = 4_000;

/// Returns a cluster in ten zones with pods of a thousand Deployments.
fn large_cluster() -> Cluster {
    let mut cluster = Cluster::of((0..NODES).map(|number| {
        let name = format!("node-{number}");
        let zone = format!("zone-{}", number % 10);
        let mut node = node(&name, &json!({"kubernetes.io/hostname": name, "zone": zone}));
        node["status"]["allocatable"] = json!({"cpu": "32", "memory": "256Gi", "pods": "110"});
        node
    }));
    for number in 0..PLACED {
        cluster.place(&replica(number % 1_000, number / 1_000, &json!({})), &format!("node-{}", number % NODES));
    }
    cluster
}

fn replica(deployment: usize, number: usize, spec: &Value) -> Value {
    let mut pod = pod(&format!("web-{deployment}-{number}"), "100m", spec.clone());
    pod["metadata"]["labels"] = json!({"app": format!("web-{deployment}")});
    pod
}

#[test]
#[ignore = "a measurement, which needs optimizations"]
fn decisions_per_second_with_5000_nodes() {
    let selector = json!({"matchLabels": {"app": "web-5000"}});
    let spread = json!({"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]});
    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}]}}});
    for (name, spec) in [("plain", json!({})), ("zone spread", spread), ("anti-affinity by host", apart)] {
        let mut cluster = large_cluster();
        let pods: Vec<_> = (0..PODS).map(|number| decoded(&replica(5_000, number as usize, &spec))).collect();
        let begun = Instant::now();
        for (key, pod) in &pods {
            let profile = cluster.profiles.of(pod);
            let candidate = Candidate { key, profile: &profile, claims: None, preferred: None };
            let slot = cluster.core.decide(candidate).expect("each pod fits");
            let node = Arc::clone(&cluster.core.snapshot.node(slot).name);
            let uid = pod.uid().unwrap().into();
            let placed = Placed {
                uid,
                slot,
                profile,
                terminating: false,
                assumed: true,
                preempted: false,
                started: None,
                generation: None,
            };
            cluster.core.snapshot.place(key, &node, placed);
        }
        let rate = f64::from(PODS) / begun.elapsed().as_secs_f64();
        println!("{name}: {rate:.0} decisions per second with {NODES} nodes and {PLACED} pods");
    }
    let mut full = large_cluster();
    let begun = Instant::now();
    assert!(full.decide(&pod("huge", "64", json!({}))).is_err());
    println!("unschedulable pod: {:?}", begun.elapsed());
}
