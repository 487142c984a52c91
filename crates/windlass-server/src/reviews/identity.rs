//! Self subject reviews and token reviews.

use serde_json::{Value, json};
use windlass_api::{Status, format_time};

use super::Review;
use crate::{
    authn::TokenError,
    object::{Tree, as_object},
};

/// Answers a `SelfSubjectReview`. The response contains nothing from the request.
pub(super) async fn create_self_subject_review(mut review: Review<'_>) -> Result<Value, Status> {
    review.admit().await?;
    let Review { context, mut object, .. } = review;
    let review = as_object(&mut object);
    let now = format_time(context.registry.clock().now());
    review.insert("metadata".to_owned(), json!({"creationTimestamp": now}));
    review.insert("status".to_owned(), json!({"userInfo": context.user.to_value()}));
    Ok(object)
}

/// Answers a `TokenReview`.
pub(super) async fn create_token_review(mut review: Review<'_>) -> Result<Value, Status> {
    if review.object.text(&["spec", "token"]).is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    review.admit().await?;
    let Review { context, mut object, write, .. } = review;
    let token = object.text(&["spec", "token"]);
    let requested = object.items(&["spec", "audiences"]).iter().filter_map(Value::as_str).map(str::to_owned);
    let mut audiences: Vec<String> = requested.collect();
    if audiences.is_empty() {
        audiences.extend_from_slice(context.server.authenticator().issuer().audiences());
    }
    let found = context.server.authenticator().identify(context.server, token.as_bytes(), &audiences).await;
    let status = match found {
        Ok(identity) => {
            write.context.warnings.extend(identity.warning.map(str::to_owned));
            for (key, value) in identity.annotations {
                write.context.audit.annotate(key, value);
            }
            json!({"authenticated": true, "user": identity.user.to_value(), "audiences": identity.audiences})
        }
        Err(TokenError::Unavailable(status)) => return Err(status),
        Err(error) => json!({"user": {}, "error": error.to_string()}),
    };
    as_object(&mut object).insert("status".to_owned(), status);
    Ok(object)
}
