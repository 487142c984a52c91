//! The endpoint of conversion reviews.

use std::collections::HashMap;

use futures::future::BoxFuture;
use http::request::Parts;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass_api::{BoxError, ErrorChain, GroupKind, GroupVersion};

use super::DynConverter;
use crate::{
    body::RequestError,
    endpoint::{Answer, Endpoint},
    metrics::WebhookMetrics,
    review::{Family, contained},
};

const FAMILY: Family = Family { kind: "ConversionReview", versions: &["apiextensions.k8s.io/v1"] };

/// A list is converted in one call, which may contain hundreds of objects of up to 3 MiB.
const LIMIT: usize = 512 << 20;

/// The converters behind `/convert`.
#[derive(Default)]
pub(crate) struct Conversions(pub(crate) HashMap<GroupKind, Box<dyn DynConverter>>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    #[serde(default)]
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    desired_api_version: String,
    #[serde(default)]
    objects: Vec<Value>,
}

impl Conversions {
    /// Converts all objects, or fails.
    async fn convert(&self, request: Request) -> Result<Vec<Value>, BoxError> {
        let to: GroupVersion = request.desired_api_version.parse()?;
        let mut converted = Vec::with_capacity(request.objects.len());
        for object in request.objects {
            converted.push(self.convert_one(object, &to).await?);
        }
        Ok(converted)
    }

    async fn convert_one(&self, object: Value, to: &GroupVersion) -> Result<Value, BoxError> {
        let said = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (from, kind) = (said("apiVersion").parse::<GroupVersion>()?, said("kind"));
        if from.group != to.group {
            return Err(format!("{kind} of {from} and {to} do not belong to the same API group").into());
        }
        if from == *to {
            return Err(format!("conversion of {kind} is not allowed between the same version {to}").into());
        }
        let converter = self.0.get(&GroupKind::new(from.group.clone(), kind.clone()));
        let converter = converter.ok_or_else(|| format!("{kind} of {from} is not convertible to {to}"))?;
        let Value::Object(fields) = converter.convert(object, to).await? else {
            return Err(format!("the converter of {kind} returned no object").into());
        };
        // The type fields come first, whatever the converter has set.
        let types = [("apiVersion", to.to_string()), ("kind", kind)].map(|(key, text)| (key.to_owned(), text.into()));
        let rest = fields.into_iter().filter(|(key, _)| key != "apiVersion" && key != "kind");
        Ok(Value::Object(types.into_iter().chain(rest).collect::<Map<_, _>>()))
    }
}

impl Endpoint for Conversions {
    fn limit(&self) -> usize {
        LIMIT
    }

    /// The request has no UID for a review in the response.
    fn refuse(&self, refused: &RequestError) -> Answer {
        Answer::failure(refused.code())
    }

    fn answer<'a>(
        &'a self,
        _: Parts,
        document: Value,
        metrics: &'a dyn WebhookMetrics,
    ) -> BoxFuture<'a, Result<Answer, RequestError>> {
        Box::pin(async move {
            let mut review = FAMILY.read(document)?;
            let request: Request = review.part("request")?;
            let uid = request.uid.clone();
            let result = contained(self.convert(request)).await.unwrap_or_else(|_| {
                metrics.conversion_panicked();
                Err("internal error occurred during conversion".into())
            });
            let response = match result {
                Ok(objects) => {
                    json!({"uid": uid, "convertedObjects": objects, "result": {"metadata": {}, "status": "Success"}})
                }
                Err(error) => {
                    let message = ErrorChain(&*error).to_string();
                    tracing::error!(uid, message, "objects could not be converted");
                    let result = json!({"metadata": {}, "status": "Failure", "message": message});
                    json!({"uid": uid, "convertedObjects": null, "result": result})
                }
            };
            Ok(Answer::ok(FAMILY.answer(Some(&review.api_version), "response", response)))
        })
    }
}
