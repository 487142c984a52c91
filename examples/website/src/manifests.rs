//! What a cluster has to know of websites.

use windlass::manifests::{Manifests, Webhook};

use crate::{api::Website, controller, webhooks};

/// The definition of websites, what the operator has to be allowed, and its webhooks, which are on this machine: where the
/// operator runs in the cluster, leave out the URLs, and they are at a Service.
pub fn manifests() -> Manifests {
    Manifests::new("website-operator")
        .kind::<Website>()
        .rules(controller::RULES)
        .rules(webhooks::RULES)
        .webhook(Webhook::defaulting::<Website>().at("https://127.0.0.1:9443/mutate-shop-example-com-v1-website"))
        .webhook(Webhook::validating::<Website>().at("https://127.0.0.1:9443/validate-shop-example-com-v1-website"))
}
