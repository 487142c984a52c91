//! Changes of a kubeconfig in memory, as `kubectl config` makes them.

use super::{Cluster, Context, Kubeconfig, Named, User, find};
use crate::config_error::ConfigError;

impl Kubeconfig {
    /// Returns the cluster of this name. Adds it if it does not exist.
    pub fn cluster_mut(&mut self, name: &str) -> &mut Cluster {
        entry_mut(&mut self.clusters, name)
    }

    /// Returns the context of this name. Adds it if it does not exist.
    pub fn context_mut(&mut self, name: &str) -> &mut Context {
        entry_mut(&mut self.contexts, name)
    }

    /// Returns the user of this name. Adds it if it does not exist.
    pub fn user_mut(&mut self, name: &str) -> &mut User {
        entry_mut(&mut self.users, name)
    }

    /// Selects the current context. Returns an error if it does not exist.
    pub fn use_context(&mut self, name: &str) -> Result<(), ConfigError> {
        if find(&self.contexts, name).is_none() {
            return Err(self.missing("contexts", "context", name));
        }
        self.current_context = Some(name.to_owned());
        Ok(())
    }

    /// Renames a context. If it is the current context, it remains so.
    pub fn rename_context(&mut self, name: &str, new: &str) -> Result<(), ConfigError> {
        if find(&self.contexts, new).is_some() {
            return Err(self.place().field("contexts").invalid(format!("there is a context named {new:?} already")));
        }
        let missing = self.missing("contexts", "context", name);
        let context = self.contexts.iter_mut().find(|context| context.name == name).ok_or(missing)?;
        new.clone_into(&mut context.name);
        if self.current_context.as_deref() == Some(name) {
            self.current_context = Some(new.to_owned());
        }
        Ok(())
    }

    /// Removes a cluster. Contexts that refer to it are retained.
    pub fn delete_cluster(&mut self, name: &str) -> Result<(), ConfigError> {
        let missing = self.missing("clusters", "cluster", name);
        delete(&mut self.clusters, name).ok_or(missing)
    }

    /// Removes a context, even the current one.
    pub fn delete_context(&mut self, name: &str) -> Result<(), ConfigError> {
        let missing = self.missing("contexts", "context", name);
        delete(&mut self.contexts, name).ok_or(missing)
    }

    /// Removes a user. Contexts that refer to it are retained.
    pub fn delete_user(&mut self, name: &str) -> Result<(), ConfigError> {
        let missing = self.missing("users", "user", name);
        delete(&mut self.users, name).ok_or(missing)
    }

    fn missing(&self, field: &str, word: &str, name: &str) -> ConfigError {
        self.place().field(field).invalid(format!("there is no {word} named {name:?}"))
    }
}

fn entry_mut<'k, T: Default>(entries: &'k mut Vec<Named<T>>, name: &str) -> &'k mut T {
    let index = entries.iter().position(|entry| entry.name == name).unwrap_or_else(|| {
        entries.push(Named::new(name, T::default()));
        entries.len() - 1
    });
    &mut entries[index].entry
}

fn delete<T>(entries: &mut Vec<Named<T>>, name: &str) -> Option<()> {
    let index = entries.iter().position(|entry| entry.name == name)?;
    entries.remove(index);
    Some(())
}
