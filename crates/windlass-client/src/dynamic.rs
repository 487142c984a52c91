//! Verbs for resources that are known only at run time.

use bytes::Bytes;
use windlass_api::{ApiResource, Content, DynamicObject, PartialObject, TypeMeta};

use crate::{Client, codec::Codec, resources::Resources};

impl Client {
    /// Returns a resource whose objects are decoded with all their fields.
    ///
    /// Objects without `apiVersion` and `kind`, such as the items of lists, get those of `resource`, both when received
    /// and when sent.
    #[must_use]
    pub fn dynamic(&self, resource: &ApiResource) -> Resources<DynamicObject> {
        let codec = Codec { encode, complete, ..Codec::plain(Content::AllFields) };
        Resources { client: self.clone(), resource: resource.clone(), codec }
    }

    /// Returns a resource whose objects are decoded as their metadata only; the server omits the other fields. Objects
    /// can be read, patched and deleted. A server rejects a create or an update of metadata alone.
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
