//! The templates of the generated files.

use std::path::Path;

use minijinja::{Environment, UndefinedBehavior, Value};

use crate::{Changes, Error, format::formatted};

/// A template of a file.
pub(crate) struct Template {
    /// The path of the file, also a template.
    pub(crate) path: &'static str,
    pub(crate) text: &'static str,
    pub(crate) owner: Owner,
}

/// The owner of a file after its creation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The command: the file is replaced if overwriting is forced.
    Scaffold,
    /// The user and other commands: the file is never overwritten.
    User,
}

/// Declares a table of templates and includes their files.
macro_rules! templates {
    ($folder:literal: $($owner:ident $path:literal $(from $file:literal)?,)*) => {
        &[$($crate::templates::Template {
            path: $path,
            text: $crate::templates::templates!(@text $folder $path $($file)?),
            owner: $crate::templates::Owner::$owner,
        }),*]
    };
    (@text $folder:literal $path:literal) => {
        include_str!(concat!("../templates/", $folder, "/", $path, ".jinja"))
    };
    (@text $folder:literal $path:literal $file:literal) => {
        include_str!(concat!("../templates/", $folder, "/", $file, ".jinja"))
    };
}
pub(crate) use templates;

/// Creates the files of all templates.
pub(crate) fn create(changes: &mut Changes, templates: &[Template], values: &Value) -> Result<(), Error> {
    templates.iter().try_for_each(|template| {
        let (path, text) = template.render(values)?;
        changes.create(path, text)
    })
}

impl Template {
    /// Renders the path and the text.
    pub(crate) fn render(&self, values: &Value) -> Result<(String, String), Error> {
        let mut engine = Environment::new();
        engine.set_undefined_behavior(UndefinedBehavior::Strict);
        engine.set_trim_blocks(true);
        engine.set_lstrip_blocks(true);
        engine.set_keep_trailing_newline(true);
        let failed = |source| Error::Template { name: self.path.to_owned(), source };
        let path = engine.render_str(self.path, values).map_err(failed)?;
        let text = engine.render_str(self.text, values).map_err(failed)?;
        Ok(if Path::new(&path).extension().is_some_and(|extension| extension == "rs") {
            (path, formatted(text))
        } else {
            (path, text)
        })
    }
}
