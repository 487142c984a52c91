//! The verbs over resources that are known only at run time.

use bytes::Bytes;
use windlass_api::{ApiResource, Content, DynamicObject, PartialObject, TypeMeta};

use crate::{
    Client,
    resources::{Codec, Resources},
};

impl Client {
    /// The objects of a resource, whole, with all their fields.
    ///
    /// Objects that come without apiVersion and kind, as the items of lists do, are given those of `resource`; so are
    /// objects that are sent without.
    #[must_use]
    pub fn dynamic(&self, resource: &ApiResource) -> Resources<DynamicObject> {
        let codec = Codec { content: Content::Object, encode, complete };
        Resources { client: self.clone(), resource: resource.clone(), codec }
    }

    /// The objects of a resource, their metadata only: the server leaves out the rest. To be read, patched and deleted;
    /// a server refuses to create or replace an object by its metadata.
    #[must_use]
    pub fn metadata(&self, resource: &ApiResource) -> Resources<PartialObject> {
        Resources { client: self.clone(), resource: resource.clone(), codec: Codec::plain(Content::Metadata) }
    }
}

fn encode(resource: &ApiResource, object: &DynamicObject) -> serde_json::Result<Bytes> {
    let bytes = if object.types.is_some() {
        serde_json::to_vec(object)
    } else {
        let mut object = object.clone();
        complete(resource, &mut object);
        serde_json::to_vec(&object)
    };
    bytes.map(Bytes::from)
}

fn complete(resource: &ApiResource, object: &mut DynamicObject) {
    object.types.get_or_insert_with(|| TypeMeta::of(resource));
}
