//! `windlass create webhook --conversion`: conversion between the versions of a kind, one of which is the hub.

use std::path::Path;

use minijinja::{Value, context};

use crate::{
    Changes, Error, Kind, Version,
    crd::with_conversion,
    role::{grant, named, rule},
    source::{with_call, with_module},
    templates::{Template, create, templates},
};

/// The file of the hub, which lists the spokes.
const HUB: &[Template] = templates!("webhook":
    User "src/webhook/{{ module }}_conversion.rs" from "conversion.rs",
);

/// The files of a spoke.
const SPOKE: &[Template] = templates!("webhook":
    Scaffold "src/webhook/{{ module }}_conversion/{{ spoke }}.rs" from "spoke.rs",
    Scaffold "tests/{{ module }}_{{ spoke }}.rs" from "spoke_test.rs",
);

/// The part of the CRD that configures the conversion webhook.
const DEFINITION: &[Template] = templates!("webhook":
    Scaffold "config/crd/bases/{{ group }}_{{ plural }}.yaml" from "conversion.yaml",
);

/// Writes the conversions between the hub, whose names are in `values`, and each spoke.
pub(crate) fn convert(
    changes: &mut Changes,
    kind: &Kind,
    module: &str,
    spokes: &[Version],
    values: &Value,
) -> Result<(), Error> {
    for template in HUB {
        let (path, text) = template.render(values)?;
        changes.create_or_keep(path, text)?;
    }
    let hub = format!("src/webhook/{module}_conversion.rs");
    for spoke in spokes {
        create(changes, SPOKE, &context! { spoke => spoke.as_str(), ..values.clone() })?;
        changes.edit(&hub, |path, text| {
            let text = with_module(path, text, spoke.as_str())?;
            with_call(path, &text, "versions", &format!(".spoke::<crate::api::{spoke}::{module}::{kind}>()"))
        })?;
    }
    let call = format!(".converted_by(crate::webhook::{module}_conversion::client_config())");
    changes.edit("src/manifests.rs", |path, text| with_call(path, text, module, &call))?;
    for template in DEFINITION {
        let (path, conversion) = template.render(values)?;
        // A hand-written file is left to `windlass generate crds`.
        if let Some(text) = changes.text(Path::new(&path))?.and_then(|text| with_conversion(&text, &conversion)) {
            changes.set(path, text)?;
        }
    }
    let text = |name: &str| values.get_attr(name).map(|value| value.to_string()).unwrap_or_default();
    let crd = format!("{}.{}", text("plural"), text("group"));
    let rule = named(rule("apiextensions.k8s.io", "customresourcedefinitions", "get,patch"), &crd);
    grant(changes, values, &format!("crate::webhook::{module}_conversion::RULES"), &[rule])
}
