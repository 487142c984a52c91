//! Canonical quantities.

use windlass_api::Quantity;

/// Returns the text in which Go writes a quantity, or Go's error message.
pub(crate) fn canonical(text: &str) -> Result<String, String> {
    text.parse::<Quantity>().map(|quantity| quantity.to_string()).map_err(|error| error.to_string())
}
