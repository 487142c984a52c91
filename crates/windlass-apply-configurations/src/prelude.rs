//! The names that the generated table uses.

pub(crate) use std::collections::BTreeMap;

pub(crate) use k8s_openapi::{
    ByteString,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceSubresourceStatus, JSONSchemaProps},
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, MicroTime, ObjectMeta, Time},
        runtime::RawExtension,
        util::intstr::IntOrString,
    },
};
pub(crate) use serde_json::Value;
pub(crate) use windlass_api::{
    ApplyConfiguration, Resource,
    apply::{Body, set_controller},
};

pub(crate) use crate::fields::{self, Fields, OtherFields};
