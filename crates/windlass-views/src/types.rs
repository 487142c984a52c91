//! The views of scalars, of the standard library's collections, and of values of any shape.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
};

use k8s_openapi::{
    ByteString,
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{FieldsV1, MicroTime, Time},
        runtime::RawExtension,
        util::intstr::IntOrString,
    },
};

use windlass_api::DynamicObject;

use crate::{ByteStringView, HasView, IntOrStringView, List, Map, QuantityView, View};

impl<T: HasView> HasView for Option<T> {
    type Optional<'a> = T::Optional<'a>;
    type View<'a> = T::Optional<'a>;
}

impl<T: HasView> HasView for Box<T> {
    type Optional<'a> = T::Optional<'a>;
    type View<'a> = T::View<'a>;
}

macro_rules! scalars {
    ($($type:ty => $view:ty,)*) => {$(
        impl HasView for $type {
            type Optional<'a> = Option<$view>;
            type View<'a> = $view;
        }
    )*};
}

scalars! {
    bool => bool,
    i8 => i8,
    i16 => i16,
    i32 => i32,
    i64 => i64,
    isize => isize,
    u8 => u8,
    u16 => u16,
    u32 => u32,
    u64 => u64,
    usize => usize,
    f32 => f32,
    f64 => f64,
    String => Cow<'a, str>,
    Quantity => QuantityView<'a>,
    IntOrString => IntOrStringView<'a>,
    ByteString => ByteStringView<'a>,
}

macro_rules! same {
    ($($type:ty [$($parameters:tt)*] => $view:ty,)*) => {$(
        impl<$($parameters)*> HasView for $type {
            type Optional<'a> = $view;
            type View<'a> = $view;
        }
    )*};
}

same! {
    // A required time has no empty value.
    Time [] => Option<Time>,
    MicroTime [] => Option<MicroTime>,
    serde_json::Value [] => View<'a>,
    RawExtension [] => View<'a>,
    FieldsV1 [] => View<'a>,
    DynamicObject [] => View<'a>,
    Vec<T> [T: HasView] => List<'a, T::View<'a>>,
    VecDeque<T> [T: HasView] => List<'a, T::View<'a>>,
    BTreeSet<T> [T: HasView] => List<'a, T::View<'a>>,
    HashSet<T, S> [T: HasView, S] => List<'a, T::View<'a>>,
    BTreeMap<String, T> [T: HasView] => Map<'a, T::View<'a>>,
    HashMap<String, T, S> [T: HasView, S] => Map<'a, T::View<'a>>,
    serde_json::Map<String, serde_json::Value> [] => Map<'a, View<'a>>,
}
