//! The names that the generated modules use.

pub(crate) use std::borrow::Cow;

pub(crate) use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};

pub(crate) use crate::{ByteStringView, FromView, HasView, IntOrStringView, List, Map, QuantityView, View};
