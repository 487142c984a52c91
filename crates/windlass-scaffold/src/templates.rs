//! What is written, as templates: each file of a scaffold reads as what it makes.

use std::path::Path;

use minijinja::{Environment, UndefinedBehavior, Value};

use crate::{Changes, Error, format::formatted};

/// A file of a scaffold.
pub(crate) struct Template {
    /// Where it is written; a template too.
    pub(crate) path: &'static str,
    pub(crate) text: &'static str,
    pub(crate) owner: Owner,
}

/// Whose a file is, once it is there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The command's: it is written anew when that is forced.
    Scaffold,
    /// The user's, and other commands': it is never overwritten.
    User,
}

/// A table of templates, beside which the files are.
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

/// Writes them all, none of which is to be there.
pub(crate) fn create(changes: &mut Changes, templates: &[Template], values: &Value) -> Result<(), Error> {
    templates.iter().try_for_each(|template| {
        let (path, text) = template.render(values)?;
        changes.create(path, text)
    })
}

impl Template {
    /// The path and the text, filled in.
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
