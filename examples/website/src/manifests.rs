//! The manifests of the operator.

use windlass::manifests::{Manifests, Webhook};

use crate::{api::Website, controller, webhooks};

/// Returns the CustomResourceDefinition, the role of the operator, and its webhook configurations. The webhook URLs
/// refer to this machine. For an operator in the cluster, leave out the URLs; the configurations then name a Service.
pub fn manifests() -> Manifests {
    Manifests::new("website-operator")
        .kind::<Website>()
        .rules(controller::RULES)
        .rules(webhooks::RULES)
        .webhook(Webhook::defaulting::<Website>().at("https://127.0.0.1:9443/mutate-shop-example-com-v1-website"))
        .webhook(Webhook::validating::<Website>().at("https://127.0.0.1:9443/validate-shop-example-com-v1-website"))
}
