//! The view of an object whose kind is not known: its metadata.

use windlass_api::PartialObject;

use crate::{FromView, HasView, View, meta::v1::ObjectMetaView};

view! { 'a PartialObject PartialObjectView
    metadata "metadata" ObjectMetaView<'a>,
}

impl HasView for PartialObject {
    type Optional<'a> = PartialObjectView<'a>;
    type View<'a> = PartialObjectView<'a>;
}
