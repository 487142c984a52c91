//! CBOR, which kube-apiserver serves behind the feature gate `CBORServingAndStorage`. Bodies are converted to JSON before they
//! are decoded, and responses from JSON after they are rendered, so that both have the rules of JSON.

use windlass_cbor::{Decoder, Error, Floats, Problem, SELF_DESCRIBED, append_json, append_map, append_text};

/// Converts the body of a request to JSON. Floats stay floats, as in a body in JSON.
pub(crate) fn from_cbor(body: &[u8]) -> Result<Vec<u8>, Error> {
    let mut decoder = Decoder::document().with_floats(Floats::Kept);
    let mut json = Vec::with_capacity(body.len() + body.len() / 4);
    decoder.push(body, &mut json)?;
    decoder.finish()?;
    Ok(json)
}

/// Returns kube-apiserver's message for a body that cannot be converted. Some of its messages name types of its decoder;
/// for these, it is the message of `windlass_cbor`.
pub(crate) fn cbor_message(error: &Error, body: &[u8]) -> String {
    match error {
        Error::Cbor { problem: Problem::Truncated, .. } if body.is_empty() => "EOF".to_owned(),
        Error::Cbor { problem: Problem::Truncated, .. } => "unexpected EOF".to_owned(),
        Error::Cbor { problem: Problem::Break, .. } => "cbor: unexpected \"break\" code".to_owned(),
        Error::Cbor { problem: Problem::Trailing, offset } => {
            let extra = u64::try_from(body.len()).unwrap_or(u64::MAX).saturating_sub(*offset);
            format!("cbor: {extra} bytes of extraneous data starting at index {offset}")
        }
        other => other.to_string(),
    }
}

/// Encodes a watch event. `object` is JSON. Both the event and the object have the tag of self-described CBOR, as in Go.
pub(crate) fn cbor_frame(kind: &str, object: &[u8]) -> Result<Vec<u8>, Error> {
    let mut frame = Vec::with_capacity(object.len() + 32);
    frame.extend_from_slice(&SELF_DESCRIBED);
    append_map(2, &mut frame);
    append_text("type", &mut frame);
    append_text(kind, &mut frame);
    append_text("object", &mut frame);
    frame.extend_from_slice(&SELF_DESCRIBED);
    append_json(object, &mut frame)?;
    Ok(frame)
}
