//! Objects of a type that is known only at run time.

use std::{
    any::{Any, TypeId, type_name},
    fmt::Debug,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::Object;

/// An object of any type, behind a pointer. Implemented for every [`Object`]. `downcast_ref` and similar methods return
/// the original type.
pub trait AnyObject: Any + Debug + Send + Sync {
    /// Returns the object's metadata.
    fn meta(&self) -> &ObjectMeta;

    /// Returns the object's metadata, mutably.
    fn meta_mut(&mut self) -> &mut ObjectMeta;

    /// Encodes the object as a JSON value.
    fn to_value(&self) -> serde_json::Result<Value>;

    /// Clones the object.
    fn clone_boxed(&self) -> Box<dyn AnyObject>;

    /// Returns the name of the type, for error messages.
    fn name_of_type(&self) -> &'static str;
}

impl<K: Object> AnyObject for K {
    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.metadata_mut()
    }

    fn to_value(&self) -> serde_json::Result<Value> {
        serde_json::to_value(self)
    }

    fn clone_boxed(&self) -> Box<dyn AnyObject> {
        Box::new(self.clone())
    }

    fn name_of_type(&self) -> &'static str {
        type_name::<K>()
    }
}

impl dyn AnyObject {
    /// Reports whether the object is a `K`.
    #[must_use]
    pub fn is<K: Object>(&self) -> bool {
        self.type_id_of() == TypeId::of::<K>()
    }

    /// Returns the object, if it is a `K`.
    #[must_use]
    pub fn downcast_ref<K: Object>(&self) -> Option<&K> {
        (self as &dyn Any).downcast_ref()
    }

    /// Returns the object mutably, if it is a `K`.
    pub fn downcast_mut<K: Object>(&mut self) -> Option<&mut K> {
        (self as &mut dyn Any).downcast_mut()
    }

    /// Converts the object to a `K`. Returns the unchanged object as error if it is of another type.
    pub fn downcast<K: Object>(self: Box<Self>) -> Result<Box<K>, Box<Self>> {
        if !self.is::<K>() {
            return Err(self);
        }
        let any: Box<dyn Any> = self;
        Ok(any.downcast().expect("the type was just checked"))
    }

    pub(super) fn type_id_of(&self) -> TypeId {
        (self as &dyn Any).type_id()
    }
}
