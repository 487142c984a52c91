//! Requests: the verb and the resource of a path, and the query parameters.

mod info;
mod query;

pub(crate) use self::{
    info::{InvalidPath, RequestInfo, ResourcePath},
    query::{Query, is_well_formed},
};
