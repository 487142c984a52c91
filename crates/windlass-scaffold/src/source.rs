//! Edits of Rust files that find positions in the syntax tree and keep the remaining text.

mod attribute;
mod returned;

use std::path::Path;

use proc_macro2::TokenStream;
use quote::ToTokens as _;
use syn::{Expr, ExprMethodCall, Item, Stmt, spanned::Spanned as _, visit::Visit};

pub(crate) use self::{
    attribute::{has_flag, with_flag},
    returned::{Definition, with_call, with_definition},
};
use crate::{Error, format::as_formatted};

/// Adds `pub mod name;`, sorted by name, if it is missing.
pub(crate) fn with_module(path: &Path, text: &str, name: &str) -> Result<String, Error> {
    let file = parse(path, text)?;
    if file.items.iter().any(|item| matches!(item, Item::Mod(module) if module.ident == name)) {
        return Ok(text.to_owned());
    }
    let mut declared = file.items.iter().filter_map(|item| match item {
        Item::Mod(module) if module.content.is_none() => Some(module),
        _ => None,
    });
    let after = declared.clone().find(|module| module.ident.to_string().as_str() > name);
    let place = match (after, declared.next_back()) {
        (Some(after), _) => line_start(text, after.span().byte_range().start),
        (None, Some(last)) => line_end(text, last.span().byte_range().end),
        (None, None) => {
            let first = file.items.first().map(|item| line_start(text, item.span().byte_range().start));
            let gap = if first.is_some() || text.ends_with("\n\n") || text.is_empty() { "" } else { "\n" };
            let (place, end) = (first.unwrap_or(text.len()), if first.is_some() { "\n" } else { "" });
            return Ok(inserted(text, place, &format!("{gap}pub mod {name};\n{end}")));
        }
    };
    Ok(inserted(text, place, &format!("pub mod {name};\n")))
}

/// Adds a statement before the one that calls `method` on a variable, if it is missing. `statement` receives the
/// variable's name. Formatted text stays formatted.
pub(crate) fn with_statement(
    path: &Path,
    text: &str,
    method: &'static str,
    statement: impl Fn(&str) -> String,
) -> Result<String, Error> {
    let file = parse(path, text)?;
    let mut search = Search { method, found: None };
    search.visit_file(&file);
    let Some((variable, start)) = search.found else {
        let (missing, addition) = (format!("statement that calls .{method}() on a variable"), statement("…"));
        return Err(Error::NoPlace { path: path.to_owned(), missing, addition });
    };
    let statement = statement(&variable);
    let tokens: TokenStream = statement.parse().map_err(|error: proc_macro2::LexError| {
        let source = syn::Error::new(error.span(), error);
        Error::Syntax { path: path.to_owned(), line: 1, source }
    })?;
    if compact(file.to_token_stream()).contains(&compact(tokens)) {
        return Ok(text.to_owned());
    }
    let place = line_start(text, start);
    let indent = &text[place..start];
    Ok(as_formatted(text, inserted(text, place, &format!("{indent}{statement}\n"))))
}

/// Returns tokens as text without whitespace.
fn compact(tokens: TokenStream) -> String {
    tokens.to_string().split_whitespace().collect()
}

/// Searches the whole file for the statement.
struct Search {
    method: &'static str,
    found: Option<(String, usize)>,
}

impl Visit<'_> for Search {
    fn visit_stmt(&mut self, statement: &Stmt) {
        let mut calls = Calls { method: self.method, variable: None };
        if let Stmt::Expr(expression, _) = statement {
            calls.visit_expr(expression);
        }
        if let (Some(variable), None) = (calls.variable, &self.found) {
            self.found = Some((variable, statement.span().byte_range().start));
        }
        syn::visit::visit_stmt(self, statement);
    }
}

/// Searches an expression, but not its blocks.
struct Calls {
    method: &'static str,
    variable: Option<String>,
}

impl Visit<'_> for Calls {
    fn visit_expr_method_call(&mut self, call: &ExprMethodCall) {
        match &*call.receiver {
            Expr::Path(variable) if call.method == self.method => {
                self.variable = variable.path.get_ident().map(ToString::to_string);
            }
            _ => syn::visit::visit_expr_method_call(self, call),
        }
    }

    fn visit_block(&mut self, _: &syn::Block) {}
}

pub(crate) fn parse(path: &Path, text: &str) -> Result<syn::File, Error> {
    syn::parse_file(text).map_err(|source| Error::Syntax {
        path: path.to_owned(),
        line: source.span().start().line,
        source,
    })
}

fn line_start(text: &str, place: usize) -> usize {
    text[..place].rfind('\n').map_or(0, |end| end + 1)
}

fn line_end(text: &str, place: usize) -> usize {
    text[place..].find('\n').map_or(text.len(), |end| place + end + 1)
}

fn inserted(text: &str, place: usize, addition: &str) -> String {
    let (before, after) = text.split_at(place);
    let gap = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    format!("{before}{gap}{addition}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(text: &str, name: &str) -> String {
        with_module(Path::new("src/lib.rs"), text, name).unwrap()
    }

    #[test]
    fn a_module_comes_in_the_order_of_names_and_once() {
        let one = module("//! A crate.\n", "b");
        assert_eq!(one, "//! A crate.\n\npub mod b;\n");
        let two = module(&one, "c");
        assert_eq!(two, "//! A crate.\n\npub mod b;\npub mod c;\n");
        assert_eq!(module(&two, "a"), "//! A crate.\n\npub mod a;\npub mod b;\npub mod c;\n");
        assert_eq!(module(&two, "b"), two);
        let private = "mod b; // mine\nfn f() {}\n";
        assert_eq!(module(private, "b"), private, "the visibility of an existing declaration is kept");
        assert_eq!(module("use x::y;\n", "b"), "pub mod b;\n\nuse x::y;\n");
        assert_eq!(module("mod a; // mine", "b"), "mod a; // mine\npub mod b;\n");
    }

    const MAIN: &str = "fn boss() -> R {\n    let mut chief = make(); // ü\n\n    // Goes on.\n    chief.run(until()).await?;\n    Ok(())\n}\n";

    fn add(text: &str) -> Result<String, Error> {
        with_statement(Path::new("src/main.rs"), text, "run", |manager| format!("{manager}.add(x::controller());"))
    }

    #[test]
    fn statement_is_added_once_before_the_call() {
        let once = add(MAIN).unwrap();
        assert_eq!(once, MAIN.replace("    chief.run", "    chief.add(x::controller());\n    chief.run"));
        assert_eq!(add(&once).unwrap(), once);
        let elsewhere = once.replace("chief.add(x::controller());", "chief . add( x :: controller() ) ;");
        assert_eq!(add(&elsewhere).unwrap(), elsewhere, "the format of the statement does not matter");
    }

    #[test]
    fn missing_place_error_names_the_missing_code() {
        let error = add("fn main() { start(); }\n").unwrap_err().to_string();
        assert!(error.contains("src/main.rs: there is no statement that calls .run()"), "{error}");
        assert!(error.contains("….add(x::controller());"), "{error}");
        let error = add("fn main() {\n    what is this\n}\n").unwrap_err().to_string();
        assert_eq!(error, "src/main.rs, line 2: invalid Rust syntax");
    }
}
