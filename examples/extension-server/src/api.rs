//! The versions of a ferry, and their rules.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass::{
    CustomResource, Schema,
    api::{BoxError, Cause, crd::CrdBuilder, k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta},
    server::ResourceRules,
};

/// The annotation with the number of cars in objects of version `v1alpha1`.
const CARS: &str = "ferries.example.com/cars";

/// A ferry of version `v1alpha1`, with both ports in one text.
#[derive(Clone, Debug, Default, Serialize, Deserialize, CustomResource)]
#[resource(group = "ferries.example.com", version = "v1alpha1", kind = "Ferry", plural = "ferries")]
pub struct OldFerry {
    /// The standard object metadata.
    pub metadata: ObjectMeta,
    /// The route of the ferry.
    pub spec: OldFerrySpec,
}

/// The route of a ferry of version `v1alpha1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct OldFerrySpec {
    /// The two ports, separated by a dash.
    pub route: String,
}

/// A ferry between two ports.
#[expect(clippy::duplicated_attributes, reason = "two columns have the same type")]
#[derive(Clone, Debug, Default, Serialize, Deserialize, CustomResource)]
#[resource(
    group = "ferries.example.com",
    version = "v1",
    plural = "ferries",
    storage,
    column(name = "From", type = "string", path = ".spec.from"),
    column(name = "To", type = "string", path = ".spec.to"),
    column(name = "Cars", type = "integer", path = ".spec.cars")
)]
pub struct Ferry {
    /// The standard object metadata.
    pub metadata: ObjectMeta,
    /// The route and the size of the ferry.
    pub spec: FerrySpec,
}

/// The route and the size of a ferry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(default)]
pub struct FerrySpec {
    /// The first port.
    pub from: String,
    /// The second port.
    pub to: String,
    /// The number of cars; by default 50.
    pub cars: i32,
}

/// Returns the definition of both versions. `v1` is stored.
pub fn definition() -> Result<Value, BoxError> {
    let definition = CrdBuilder::of::<Ferry>().and::<OldFerry>().build()?;
    Ok(serde_json::to_value(definition)?)
}

/// The rules that the schemas do not express.
#[derive(Debug)]
pub struct FerryRules;

impl ResourceRules for FerryRules {
    fn complete(&self, object: &mut Value) {
        if object["apiVersion"] == "ferries.example.com/v1" && object["spec"]["cars"].as_i64().unwrap_or_default() == 0
        {
            object["spec"]["cars"] = json!(50);
        }
    }

    fn validate(&self, object: &Value, _: Option<&Value>) -> Vec<Cause> {
        let problem = |field: &str, message: &str| {
            vec![Cause { reason: "FieldValueInvalid".to_owned(), message: message.to_owned(), field: field.to_owned() }]
        };
        let spec = &object["spec"];
        match spec["route"].as_str() {
            Some(route) if !route.contains('-') => problem("spec.route", "must be two ports with a dash between them"),
            None if spec["from"] == spec["to"] => problem("spec.to", "must differ from spec.from"),
            _ => Vec::new(),
        }
    }

    fn convert(&self, mut object: Value, to: &str) -> Result<Value, BoxError> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let spec = object["spec"].take();
        object["spec"] = if to.ends_with("/v1alpha1") {
            // The older version has no field for the cars, and a client may write back what it has read.
            object["metadata"]["annotations"][CARS] = spec["cars"].to_string().into();
            json!({"route": format!("{}-{}", text(&spec["from"]), text(&spec["to"]))})
        } else {
            let cars = object["metadata"]["annotations"].as_object_mut().and_then(|all| all.remove(CARS));
            let cars = cars.and_then(|cars| cars.as_str()?.parse::<i32>().ok()).unwrap_or(50);
            let route = text(&spec["route"]);
            let (from, to) = route.split_once('-').ok_or("the route has no dash")?;
            json!({"from": from, "to": to, "cars": cars})
        };
        object["apiVersion"] = to.into();
        Ok(object)
    }
}
