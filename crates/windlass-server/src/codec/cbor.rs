//! CBOR, which kube-apiserver serves behind the feature gate `CBORServingAndStorage`. Bodies are converted to JSON before they
//! are decoded, and responses from JSON after they are rendered, so that both have the rules of JSON.

use windlass_cbor::{Decoder, Error, Floats, SELF_DESCRIBED, append_json, append_map, append_text};

/// Converts the body of a request to JSON. Floats stay floats, as in a body in JSON.
pub(crate) fn from_cbor(body: &[u8]) -> Result<Vec<u8>, Error> {
    let mut decoder = Decoder::document().with_floats(Floats::Kept);
    let mut json = Vec::with_capacity(body.len() + body.len() / 4);
    decoder.push(body, &mut json)?;
    decoder.finish()?;
    Ok(json)
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
