//! The entries of a kubeconfig that a selection names.

use super::{Cluster, Context, Kubeconfig, Named, Selection, User, find};
use crate::config_error::ConfigError;

/// The selected entries.
pub(crate) struct SelectedEntries<'k> {
    /// `None` if a cluster or server is selected directly, and no context is selected.
    pub(crate) context: Option<&'k Named<Context>>,
    /// `None` if only the server is selected.
    pub(crate) cluster: Option<&'k Named<Cluster>>,
    /// `None` for a context without a user.
    pub(crate) user: Option<&'k Named<User>>,
}

impl<'k> SelectedEntries<'k> {
    pub(crate) fn of(kubeconfig: &'k Kubeconfig, selection: &Selection) -> Result<Self, ConfigError> {
        let context = context(kubeconfig, selection)?;
        let place = context.map_or_else(|| kubeconfig.place(), |context| context.place("context"));
        let entry = context.map(|context| &context.entry);

        let name = first_set(selection.cluster.as_ref(), entry.and_then(|context: &Context| context.cluster.as_ref()));
        let cluster = match name {
            None if selection.names_server() => None,
            None => return Err(place.field("cluster").invalid("is not set")),
            Some(name) => Some(
                find(&kubeconfig.clusters, name)
                    .ok_or_else(|| place.field("cluster").invalid(format!("there is no cluster named {name:?}")))?,
            ),
        };
        let name = first_set(selection.user.as_ref(), entry.and_then(|context| context.user.as_ref()));
        let user = match name {
            None => None,
            Some(name) => Some(
                find(&kubeconfig.users, name)
                    .ok_or_else(|| place.field("user").invalid(format!("there is no user named {name:?}")))?,
            ),
        };
        Ok(Self { context, cluster, user })
    }
}

impl Selection {
    pub(crate) fn names_server(&self) -> bool {
        is_set(self.cluster_fields.server.as_ref()).is_some()
    }
}

fn context<'k>(kubeconfig: &'k Kubeconfig, selection: &Selection) -> Result<Option<&'k Named<Context>>, ConfigError> {
    let Some(name) = first_set(selection.context.as_ref(), kubeconfig.current_context.as_ref()) else {
        // A cluster or server that is selected directly needs no context.
        return match selection.cluster {
            None if !selection.names_server() => Err(ConfigError::NoContext { place: Box::new(kubeconfig.place()) }),
            _ => Ok(None),
        };
    };
    if let Some(context) = find(&kubeconfig.contexts, name) {
        return Ok(Some(context));
    }
    let field = if selection.context.is_some() { "contexts" } else { "current-context" };
    Err(kubeconfig.place().field(field).invalid(format!("there is no context named {name:?}")))
}

/// Returns a text that is set and not empty.
pub(crate) fn is_set(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

pub(crate) fn first_set<'n>(asked: Option<&'n String>, written: Option<&'n String>) -> Option<&'n str> {
    is_set(asked).or_else(|| is_set(written))
}
