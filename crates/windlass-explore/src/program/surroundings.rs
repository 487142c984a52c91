//! The namespaces of a process: visible files, and the in-cluster environment.

use std::{collections::BTreeSet, env, io, path::Path, process::Command};

use super::Program;
use crate::{
    cluster::Access,
    isolation::{Binding, Sandbox, TEMPORARY},
};

/// The directory with the credentials of a pod.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const HOSTS: &str = "/etc/hosts";

impl Program {
    /// Writes the files of a process, and returns the settings of its namespaces.
    pub(super) fn sandbox(&self, number: usize, access: &Access, command: &Command) -> io::Result<Sandbox> {
        let mut sandbox = Sandbox { port: access.port, visible: self.visible(command)?, ..Sandbox::default() };
        if let Some(pod) = &self.pod {
            let account = self.files.path().join(format!("service-account-{number}"));
            std::fs::create_dir(&account)?;
            for (name, content) in [("token", &access.token), ("ca.crt", &access.ca), ("namespace", &pod.namespace)] {
                std::fs::write(account.join(name), content)?;
            }
            sandbox.bindings.push(Binding { source: account, target: SERVICE_ACCOUNT.into() });
            // Programs look up the address of their host name.
            if let Ok(hosts) = std::fs::read_to_string(HOSTS) {
                let source = self.files.path().join(format!("hosts-{number}"));
                std::fs::write(&source, format!("{hosts}\n127.0.0.1 {}\n", pod.name))?;
                sandbox.bindings.push(Binding { source, target: HOSTS.into() });
            }
            sandbox.host = Some(pod.name.clone());
        }
        Ok(sandbox)
    }

    /// Returns the entries of the directory for temporary files to which the command, its environment or its working
    /// directory refer. Returns `None` if the program works in that directory itself.
    fn visible(&self, command: &Command) -> io::Result<Option<BTreeSet<String>>> {
        let directory = match command.get_current_dir() {
            Some(directory) => std::path::absolute(directory)?,
            None => env::current_dir()?,
        };
        if directory == Path::new(TEMPORARY) {
            return Ok(None);
        }
        let program = Path::new(command.get_program());
        let texts = [self.files.path().into(), directory.into_os_string(), program.into()].into_iter();
        let texts = texts
            // The program may be a link.
            .chain(program.canonicalize().map(Into::into))
            .chain(command.get_args().map(Into::into))
            .chain(command.get_envs().filter_map(|(_, value)| value.map(Into::into)))
            .chain(env::vars_os().map(|(_, value)| value));
        let mut visible = BTreeSet::new();
        for text in texts {
            Sandbox::show(&mut visible, &text.to_string_lossy());
        }
        Ok(Some(visible))
    }
}
