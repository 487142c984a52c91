//! Where a project is.

use std::path::{Path, PathBuf};

use crate::{
    Error,
    project::{FILE, Project},
};

/// The folder of a project, found from inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The folder, with its PROJECT file.
    pub folder: PathBuf,
    /// The name of the project, of its crate and of its program.
    pub name: String,
    /// The end of its groups.
    pub domain: String,
}

impl Place {
    /// The project that the folder is in: its own, or that of the nearest folder around it that has one.
    pub fn above(folder: &Path) -> Result<Self, Error> {
        for folder in folder.ancestors() {
            if let Some(place) = Self::at(folder)? {
                return Ok(place);
            }
        }
        Err(Error::NoProject(folder.join(FILE)))
    }

    /// The project that the folder itself holds, if it does.
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
        let place =
            Place { folder: project.clone(), name: "shop-operator".to_owned(), domain: "example.com".to_owned() };
        assert_eq!(Place::above(&project).unwrap(), place);
        assert_eq!(Place::above(&project.join("src/bin")).unwrap(), place);
        assert_eq!(Place::at(&project.join("src")).unwrap(), None);
        let error = Place::above(around.path()).unwrap_err().to_string();
        assert!(error.contains("PROJECT: there is no such file; `windlass init"), "{error}");
    }
}
