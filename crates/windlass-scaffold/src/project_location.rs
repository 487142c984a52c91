//! The location of a project.

use std::path::{Path, PathBuf};

use crate::{
    Error,
    project::{FILE, Project},
};

/// A project's folder and properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectLocation {
    /// The folder that contains the PROJECT file.
    pub folder: PathBuf,
    /// The name of the project, its crate and its program.
    pub name: String,
    /// The domain of its groups.
    pub domain: String,
}

impl ProjectLocation {
    /// Finds the project of a folder, in this folder or its nearest ancestor with a PROJECT file.
    pub fn above(folder: &Path) -> Result<Self, Error> {
        for folder in folder.ancestors() {
            if let Some(location) = Self::at(folder)? {
                return Ok(location);
            }
        }
        Err(Error::NoProject(folder.join(FILE)))
    }

    /// Returns the project of this folder, if it has a PROJECT file.
    pub fn at(folder: &Path) -> Result<Option<Self>, Error> {
        let project = Project::find(folder)?;
        Ok(project.map(|Project { project_name: name, domain, .. }| Self { folder: folder.to_owned(), name, domain }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Init;

    #[test]
    fn a_project_is_found_from_anywhere_inside_it() {
        let around = tempfile::tempdir().unwrap();
        let project = around.path().join("shop");
        Init::new("example.com", "shop-operator").unwrap().plan(&project).unwrap().write().unwrap();
        let location = ProjectLocation {
            folder: project.clone(),
            name: "shop-operator".to_owned(),
            domain: "example.com".to_owned(),
        };
        assert_eq!(ProjectLocation::above(&project).unwrap(), location);
        assert_eq!(ProjectLocation::above(&project.join("src/bin")).unwrap(), location);
        assert_eq!(ProjectLocation::at(&project.join("src")).unwrap(), None);
        let error = ProjectLocation::above(around.path()).unwrap_err().to_string();
        assert!(error.contains("PROJECT: no such file; `windlass init"), "{error}");
    }
}
