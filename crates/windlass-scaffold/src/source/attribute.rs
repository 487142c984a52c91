//! Edits of a type's attributes.

use std::path::Path;

use proc_macro2::TokenTree;
use syn::{Item, Meta};

use super::parse;
use crate::Error;

/// Reports whether `#[resource(…)]` of a struct has a flag.
pub(crate) fn has_flag(path: &Path, text: &str, name: &str, flag: &str) -> Result<bool, Error> {
    Ok(tokens(&parse(path, text)?, name).iter().any(|token| is(token, flag)))
}

/// Adds a flag to `#[resource(…)]` of a struct, after its version, if it is missing.
pub(crate) fn with_flag(path: &Path, text: &str, name: &str, flag: &str) -> Result<String, Error> {
    let tokens = tokens(&parse(path, text)?, name);
    if tokens.iter().any(|token| is(token, flag)) {
        return Ok(text.to_owned());
    }
    // The tokens are `version`, `=` and the value.
    let version = tokens.iter().position(|token| is(token, "version")).and_then(|place| tokens.get(place + 2));
    let Some(version) = version else {
        let missing = format!("struct {name} with #[resource(…, version = \"…\", …)]");
        return Err(Error::NoPlace { path: path.to_owned(), missing, addition: flag.to_owned() });
    };
    let (before, after) = text.split_at(version.span().byte_range().end);
    let line = before.rsplit('\n').next().unwrap_or_default();
    let stands_alone = after.trim_start_matches(',').starts_with('\n');
    let indent = &line[..line.len() - line.trim_start().len()];
    let gap = if stands_alone { format!("\n{indent}") } else { " ".to_owned() };
    Ok(format!("{before},{gap}{flag}{after}"))
}

/// Returns the tokens in `#[resource(…)]` of a struct.
fn tokens(file: &syn::File, name: &str) -> Vec<TokenTree> {
    let attributes = file.items.iter().find_map(|item| match item {
        Item::Struct(item) if item.ident == name => Some(&item.attrs),
        _ => None,
    });
    let list = attributes.into_iter().flatten().find_map(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("resource") => Some(list),
        _ => None,
    });
    list.iter().flat_map(|list| list.tokens.clone()).collect()
}

fn is(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(text: &str) -> Result<String, Error> {
        with_flag(Path::new("src/api/v1/site.rs"), text, "Site", "storage")
    }

    #[test]
    fn a_flag_comes_behind_the_version_and_once() {
        let lines = "#[resource(\n    group = \"g\",\n    version = \"v1\",\n    status\n)]\nstruct Site;\n";
        let once = stored(lines).unwrap();
        assert_eq!(once, lines.replace("\"v1\",\n", "\"v1\",\n    storage,\n"));
        assert_eq!(stored(&once).unwrap(), once);
        let line = "struct Other; #[resource(group = \"g\", version = \"v1\")] struct Site;\n";
        assert_eq!(stored(line).unwrap(), line.replace("\"v1\"", "\"v1\", storage"));
    }

    #[test]
    fn flag_without_a_version_has_no_place() {
        let error = stored("#[derive(Debug)] struct Site;").unwrap_err().to_string();
        assert!(error.starts_with("src/api/v1/site.rs: there is no struct Site with #[resource("), "{error}");
    }
}
