//! The admission webhooks of websites.

use windlass::{
    rbac,
    webhook::{
        RegisterError, Webhooks,
        admission::{Denial, Request, Validator, Warnings},
    },
};

use crate::api::Website;

/// The maximum number of web servers.
const MANY: i32 = 10;

/// Returns the webhooks, at `/mutate-shop-example-com-v1-website` and `/validate-shop-example-com-v1-website`.
#[rbac(groups = "", resources = "secrets", verbs = "get,list,watch,create,update,patch")]
#[rbac(
    groups = "admissionregistration.k8s.io",
    resources = "mutatingwebhookconfigurations,validatingwebhookconfigurations",
    verbs = "get,list,watch,patch,update"
)]
#[rbac(groups = "coordination.k8s.io", resources = "leases", verbs = "get,create,update,patch")]
pub fn webhooks() -> Result<Webhooks, RegisterError> {
    Webhooks::builder().mutator(default).validator(Rules).build()
}

#[allow(clippy::unnecessary_wraps, reason = "other mutators return errors")]
fn default(website: &mut Website, _: &Request) -> Result<(), Denial> {
    website.spec.image.get_or_insert_with(|| "nginx:1.29".into());
    website.spec.replicas.get_or_insert(1);
    Ok(())
}

struct Rules;

impl Validator<Website> for Rules {
    async fn create(&self, website: &Website, _: &Request) -> Result<Warnings, Denial> {
        judge(website)
    }

    async fn update(&self, _: &Website, website: &Website, _: &Request) -> Result<Warnings, Denial> {
        judge(website)
    }
}

fn judge(website: &Website) -> Result<Warnings, Denial> {
    match website.spec.replicas {
        Some(many) if many > MANY => Err(format!("spec.replicas: {many} exceeds the maximum of {MANY}").into()),
        Some(0) => Ok(["spec.replicas: with 0 servers, the website is unavailable"].into()),
        _ => Ok(Warnings::none()),
    }
}
