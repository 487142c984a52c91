//! Resources: their descriptions, rules, versions and targets.
//!
//! The vocabulary between requests and verbs. It performs no operation on storage.

mod column;
mod conversion;
mod info;
mod item;
mod resets;
mod strategy;
mod target;

pub(crate) use self::{
    column::{Column, CustomColumn},
    conversion::{Conversion, Conversions, Hub, Translator},
    info::{CustomShape, ResourceInfo, ResourceTable, Shape, SubresourceInfo, TaggedBody},
    item::{Body, Item},
    resets::Resets,
    strategy::{
        Deletion, Dependents, Effect, FieldRule, Generation, MetadataRule, Part, Rules, ScaleRule, StatusRule,
        Strategy, UnknownField, field_text,
    },
    target::Target,
};
