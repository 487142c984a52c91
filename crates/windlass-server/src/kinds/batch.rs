//! The group `batch`: kinds whose pods run to completion.

use crate::kinds::prelude::*;

mod cron_job;
mod job;
mod status;
mod success_policy;

pub(super) const KINDS: &[Kind] = &[job::KIND, cron_job::KIND];
