//! Quantities in their canonical form.

use windlass_api::Quantity;

/// The text that Go writes for a quantity, or what it says is wrong.
pub(crate) fn canonical(text: &str) -> Result<String, String> {
    text.parse::<Quantity>().map(|quantity| quantity.to_string()).map_err(|error| error.to_string())
}
