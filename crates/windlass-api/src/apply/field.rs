//! The fields of apply configurations.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    hash::{BuildHasher, Hash},
};

use k8s_openapi::{
    ByteString,
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{MicroTime, Time},
        runtime::RawExtension,
        util::intstr::IntOrString,
    },
};

use crate::crd::built_in_types;

/// A type that a field of an apply configuration can hold, usually from `#[derive(ApplyConfiguration)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no apply configuration",
    note = "for a type of your own, `#[derive(ApplyConfiguration)]`; a field that is always set as a whole is marked with \
            `#[apply(whole)]`"
)]
pub trait ApplyField: Sized {
    /// The type in apply configurations. Structs have all their fields in an `Option`.
    type Apply;

    /// Converts a value to an apply configuration that sets all its fields. `None` is not set.
    fn into_apply(self) -> Option<Self::Apply>;
}

macro_rules! whole {
    ($($type:ty),* $(,)?) => {$(
        impl ApplyField for $type {
            type Apply = Self;

            fn into_apply(self) -> Option<Self> {
                Some(self)
            }
        }
    )*};
}

whole! {
    bool, char, String, i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f32, f64, Cow<'static, str>,
    serde_json::Value, serde_json::Map<String, serde_json::Value>,
    ByteString, IntOrString, MicroTime, Quantity, RawExtension, Time, crate::Quantity, jiff::Timestamp,
}

macro_rules! built_in {
    ($($($module:ident)::+, $prefix:literal: $($name:ident),+;)*) => {$(const _: () = {
        use k8s_openapi::$($module)::+ as types;
        built_in!(types, $($name)+);
    };)*};
    ($types:ident, $($name:ident)+) => { whole! { $($types::$name),+ } };
}

// Their required fields are always set: the parts of a custom kind are not read by their Go types.
built_in_types!(built_in);

impl<T: ApplyField> ApplyField for Option<T> {
    type Apply = T::Apply;

    fn into_apply(self) -> Option<T::Apply> {
        self.and_then(T::into_apply)
    }
}

impl<T: ApplyField> ApplyField for Box<T> {
    type Apply = Box<T::Apply>;

    fn into_apply(self) -> Option<Box<T::Apply>> {
        T::into_apply(*self).map(Box::new)
    }
}

impl<T: ApplyField> ApplyField for Vec<T> {
    type Apply = Vec<T::Apply>;

    fn into_apply(self) -> Option<Vec<T::Apply>> {
        Some(self.into_iter().filter_map(T::into_apply).collect())
    }
}

impl<T: ApplyField> ApplyField for VecDeque<T> {
    type Apply = Vec<T::Apply>;

    fn into_apply(self) -> Option<Vec<T::Apply>> {
        Some(self.into_iter().filter_map(T::into_apply).collect())
    }
}

impl<T: Ord> ApplyField for BTreeSet<T> {
    type Apply = Self;

    fn into_apply(self) -> Option<Self> {
        Some(self)
    }
}

impl<T: Eq + Hash, S: BuildHasher> ApplyField for HashSet<T, S> {
    type Apply = Self;

    fn into_apply(self) -> Option<Self> {
        Some(self)
    }
}

impl<K: Ord, V: ApplyField> ApplyField for BTreeMap<K, V> {
    type Apply = BTreeMap<K, V::Apply>;

    fn into_apply(self) -> Option<BTreeMap<K, V::Apply>> {
        Some(self.into_iter().filter_map(|(key, value)| Some((key, V::into_apply(value)?))).collect())
    }
}

impl<K: Eq + Hash, V: ApplyField, S: BuildHasher + Default> ApplyField for HashMap<K, V, S> {
    type Apply = HashMap<K, V::Apply, S>;

    fn into_apply(self) -> Option<HashMap<K, V::Apply, S>> {
        Some(self.into_iter().filter_map(|(key, value)| Some((key, V::into_apply(value)?))).collect())
    }
}
