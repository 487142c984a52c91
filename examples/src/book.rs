//! The pages of `docs/`, so that their code is compiled and run with the documentation tests. The guide for users of
//! kube-rs belongs to those of windlass-kube, so that this crate does not depend on kube-rs.

macro_rules! pages {
    ($($page:ident: $file:literal,)*) => {$(
        #[doc = include_str!(concat!("../../docs/", $file))]
        mod $page {}
    )*};
}

pages! {
    contents: "README.md",
    caches: "concepts/caches.md",
    evolution: "examples/evolution.md",
    ingress_manager: "examples/ingress-manager.md",
    registry_sync: "examples/registry-sync.md",
    custom_resources: "concepts/custom-resources.md",
    informers: "concepts/informers.md",
    managers: "concepts/managers.md",
    queues: "concepts/queues.md",
    rate_limiters: "concepts/rate-limiters.md",
    test_environments: "concepts/test-environments.md",
    data_flow: "concepts/data-flow.md",
    audit: "how-to/audit.md",
    authorize_with_a_webhook: "how-to/authorize-with-a-webhook.md",
    choose_admission_plugins: "how-to/choose-admission-plugins.md",
    keep_memory_small: "how-to/keep-memory-small.md",
    run_several_replicas: "how-to/run-several-replicas.md",
    run_a_project: "how-to/run-a-project.md",
    scaffold_a_project: "how-to/scaffold-a-project.md",
    server_side_apply: "how-to/server-side-apply.md",
    third_party_kinds: "how-to/third-party-kinds.md",
    talk_to_a_cluster: "how-to/talk-to-a-cluster.md",
    test_a_controller: "how-to/test-a-controller.md",
    test_from_go: "how-to/test-from-go.md",
    fault_exploration: "how-to/fault-exploration.md",
    trace: "how-to/trace.md",
    webhooks: "how-to/webhooks.md",
    write_a_controller: "how-to/write-a-controller.md",
    attributes: "reference/attributes.md",
    commands: "reference/commands.md",
    configuration: "reference/configuration.md",
    metrics: "reference/metrics.md",
    from_client_go: "from-client-go.md",
    from_kube_rs: "from-kube-rs.md",
    from_kubebuilder: "from-kubebuilder.md",
}
