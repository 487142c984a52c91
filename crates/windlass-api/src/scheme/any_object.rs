//! An object of a type that is known only at run time.

use std::{
    any::{Any, TypeId, type_name},
    fmt::Debug,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::Object;

/// Any object, behind a pointer. Implemented for every [`Object`]; `downcast_ref` and its kin give the type back.
pub trait AnyObject: Any + Debug + Send + Sync {
    /// The object's metadata.
    fn meta(&self) -> &ObjectMeta;

    /// The object's metadata, to be changed.
    fn meta_mut(&mut self) -> &mut ObjectMeta;

    /// The object as a value.
    fn to_value(&self) -> serde_json::Result<Value>;

    /// Another one like it.
    fn clone_boxed(&self) -> Box<dyn AnyObject>;

    /// What its type is called, for people.
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
    /// Whether it is a `K`.
    #[must_use]
    pub fn is<K: Object>(&self) -> bool {
        self.type_id_of() == TypeId::of::<K>()
    }

    /// The object, if it is a `K`.
    #[must_use]
    pub fn downcast_ref<K: Object>(&self) -> Option<&K> {
        (self as &dyn Any).downcast_ref()
    }

    /// The object, to be changed, if it is a `K`.
    pub fn downcast_mut<K: Object>(&mut self) -> Option<&mut K> {
        (self as &mut dyn Any).downcast_mut()
    }

    /// The object, if it is a `K`; else what it was.
    pub fn downcast<K: Object>(self: Box<Self>) -> Result<Box<K>, Box<Self>> {
        if !self.is::<K>() {
            return Err(self);
        }
        let any: Box<dyn Any> = self;
        Ok(any.downcast().expect("the type has just been looked at"))
    }

    pub(super) fn type_id_of(&self) -> TypeId {
        (self as &dyn Any).type_id()
    }
}
