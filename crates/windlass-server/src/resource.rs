//! Resources: their descriptions, rules, versions and targets.
//!
//! The vocabulary between requests and verbs. It performs no operation on storage.

mod column;
mod conversion;
mod info;
mod item;
mod own_rules;
mod pod_gates;
mod resets;
mod strategy;
mod target;

pub use self::own_rules::ResourceRules;
pub(crate) use self::{
    column::{Column, CustomColumn},
    conversion::{Conversion, Conversions, Hub, VersionConverter},
    info::{CustomShape, ResourceInfo, ResourceTable, Shape, SubresourceInfo, TaggedBody},
    item::{Body, Item, ListItem},
    own_rules::OwnRules,
    resets::Resets,
    strategy::{
        Allocation, AllocationMode, Deletion, Dependents, FieldRule, GatedField, Generation, MetadataRule, Part, Rules,
        ScaleRule, StatusRule, Strategy, UnknownField, WriteContext,
    },
    target::Target,
};
