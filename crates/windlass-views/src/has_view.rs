//! The view of a type.

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

use crate::{ByteStringView, FromView, IntOrStringView, List, Map, QuantityView, View};

/// A type with a view of its encoded form.
///
/// Built-in kinds and their parts have one with the feature `built-in`. `#[derive(View)]` of windlass-derive implements
/// it for custom kinds and their parts.
pub trait HasView {
    /// The view of a required field of this type.
    type View<'a>: FromView<'a>;
    /// The view of an optional field of this type: `Option<…>` for scalars. Structs, lists and maps are empty if they are
    /// absent.
    type Optional<'a>: FromView<'a>;
}

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
    Vec<T> [T: HasView] => List<'a, T::View<'a>>,
    VecDeque<T> [T: HasView] => List<'a, T::View<'a>>,
    BTreeSet<T> [T: HasView] => List<'a, T::View<'a>>,
    HashSet<T, S> [T: HasView, S] => List<'a, T::View<'a>>,
    BTreeMap<String, T> [T: HasView] => Map<'a, T::View<'a>>,
    HashMap<String, T, S> [T: HasView, S] => Map<'a, T::View<'a>>,
    serde_json::Map<String, serde_json::Value> [] => Map<'a, View<'a>>,
}
