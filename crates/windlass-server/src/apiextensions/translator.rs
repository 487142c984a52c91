//! The conversion of custom resources between versions by a webhook, or by the rules of the program.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;
use windlass_api::Status;

use super::{
    conversion_webhook::{Webhook, checked, gvk},
    crd::Crd,
};
use crate::{
    object::Tree,
    registry::Registry,
    resource::{ResourceRules, VersionConverter},
};

/// Returns what converts the objects of a CRD, apart from their `apiVersion`.
pub(super) fn translator(registry: &Registry, crd: &Crd) -> Option<Arc<dyn VersionConverter>> {
    if let Some(rules) = registry.own_rules().get(&crd.group, &crd.names.plural) {
        return Some(Arc::new(OwnConverter(Arc::clone(rules))));
    }
    let webhook = Webhook::of(&crd.conversion, registry.entropy())?;
    Some(Arc::new(webhook))
}

/// Converts by the rules of the program.
#[derive(Debug)]
struct OwnConverter(Arc<dyn ResourceRules>);

impl VersionConverter for OwnConverter {
    fn translate<'a>(&'a self, objects: Vec<Value>, to: &'a str) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        let convert = |(place, object): (usize, Value)| {
            let converted = self.0.convert(object.clone(), to).map_err(|error| {
                let source = gvk(object.text(&["apiVersion"]), object.text(&["kind"]));
                Status::unclassified(format!("conversion for {source} failed: {error}"))
            })?;
            checked(&object, converted, to, place)
        };
        let converted = objects.into_iter().enumerate().map(convert).collect();
        Box::pin(std::future::ready(converted))
    }
}
