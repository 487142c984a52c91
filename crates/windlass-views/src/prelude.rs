//! The names that the generated modules use.

pub(crate) use std::borrow::Cow;

#[cfg(feature = "built-in")]
pub(crate) use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
pub(crate) use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

#[cfg(feature = "built-in")]
pub(crate) use crate::{ByteStringView, IntOrStringView, QuantityView};
pub(crate) use crate::{FromView, HasView, List, Map, View};
