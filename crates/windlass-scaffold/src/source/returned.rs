//! Edits of the expression that a function returns.

use std::path::Path;

use quote::ToTokens as _;
use syn::{Expr, ExprMethodCall, Item, Stmt, spanned::Spanned as _, visit::Visit};

use super::{compact, parse};
use crate::{Error, format::as_formatted};

/// Appends a call, `.method()`, to the expression that a function returns, if it is missing. Formatted text stays
/// formatted.
pub(crate) fn with_call(path: &Path, text: &str, function: &str, call: &str) -> Result<String, Error> {
    let file = parse(path, text)?;
    let Some(returned) = returned(&file, function) else {
        let (missing, addition) = (format!("function {function}() that ends with an expression"), call.to_owned());
        return Err(Error::NoPlace { path: path.to_owned(), missing, addition });
    };
    let added: String = call.split_whitespace().collect();
    if compact(returned.to_token_stream()).contains(&added) {
        return Ok(text.to_owned());
    }
    let (before, after) = text.split_at(returned.span().byte_range().end);
    Ok(as_formatted(text, format!("{before}\n        {call}{after}")))
}

/// A version of a kind in the manifests.
pub(crate) struct Definition<'a> {
    /// The name of the function for all versions.
    pub(crate) function: &'a str,
    pub(crate) kind: &'a str,
    /// The path of the type.
    pub(crate) version: &'a str,
    /// The modules of kinds with the same name in other groups.
    pub(crate) namesakes: &'a [String],
}

/// Adds a version of a kind to the manifests. The first version is added as `.kind::<T>()` to the expression that
/// `manifests` returns. For a second version, the kind gets its own function, which returns a `CrdBuilder` of all
/// versions.
pub(crate) fn with_definition(path: &Path, text: &str, definition: &Definition<'_>) -> Result<String, Error> {
    let Definition { function, kind, version, namesakes } = definition;
    let file = parse(path, text)?;
    if compact(file.to_token_stream()).contains(&format!("::<{version}>")) {
        return Ok(text.to_owned());
    }
    if returned(&file, function).is_some() {
        return with_call(path, text, function, &format!(".and::<{version}>()"));
    }
    let mut first = FirstVersion { kind, namesakes, found: None };
    if let Some(returned) = returned(&file, "manifests") {
        first.visit_expr(returned);
    }
    let Some((call, first)) = first.found else {
        return with_call(path, text, "manifests", &format!(".kind::<{version}>()"));
    };
    let (before, after) = (&text[..call.start], &text[call.end..]);
    let definition = format!("windlass::CrdBuilder::of::<{first}>().and::<{version}>()");
    let function =
        format!("\n/// The versions of {kind}.\nfn {function}() -> windlass::CrdBuilder {{\n    {definition}\n}}\n");
    let name = function.split("fn ").nth(1).and_then(|rest| rest.split('(').next()).unwrap_or_default();
    let end = if after.ends_with('\n') { "" } else { "\n" };
    Ok(as_formatted(text, format!("{before}definition({name}()){after}{end}{function}")))
}

/// Returns the expression at the end of a function.
fn returned<'a>(file: &'a syn::File, function: &str) -> Option<&'a Expr> {
    file.items.iter().find_map(|item| match item {
        Item::Fn(item) if item.sig.ident == function => match item.block.stmts.last() {
            Some(Stmt::Expr(expression, None)) => Some(expression),
            _ => None,
        },
        _ => None,
    })
}

/// Searches for `.kind::<T>()` where T is the kind. Finds the position of the call without its dot, and T.
struct FirstVersion<'a> {
    kind: &'a str,
    namesakes: &'a [String],
    found: Option<(std::ops::Range<usize>, String)>,
}

impl FirstVersion<'_> {
    /// Reports whether the path of a type names the kind, and no kind of another group.
    fn is_version(&self, path: &str) -> bool {
        let mut segments = path.rsplit("::");
        let is_kind = segments.next() == Some(self.kind);
        is_kind && !segments.next().is_some_and(|module| self.namesakes.iter().any(|other| other == module))
    }
}

impl Visit<'_> for FirstVersion<'_> {
    fn visit_expr_method_call(&mut self, call: &ExprMethodCall) {
        let named = call.turbofish.as_ref().map(|generics| compact(generics.args.to_token_stream()));
        match named {
            Some(named) if call.method == "kind" && self.is_version(&named) => {
                self.found = Some((call.method.span().byte_range().start..call.span().byte_range().end, named));
            }
            _ => syn::visit::visit_expr_method_call(self, call),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_is_appended_once_to_the_returned_chain() {
        let add = |text: &str| with_call(Path::new("src/manifests.rs"), text, "all", ".kind::<a::B>()");
        let unformatted = "pub fn all() -> M {\n  M::new(\"x\") // mine\n}\n";
        let once = add(unformatted).unwrap();
        assert_eq!(once, "pub fn all() -> M {\n  M::new(\"x\")\n        .kind::<a::B>() // mine\n}\n");
        assert_eq!(add(&once).unwrap(), once);
        let error = add("pub fn all() {\n    work();\n}\n").unwrap_err().to_string();
        assert!(error.contains("src/manifests.rs: there is no function all() that ends with an expression"), "{error}");
    }

    #[test]
    fn kind_with_versions_gets_one_function_without_duplicates() {
        let add = |text: &str, version: &str| {
            let version = format!("a::{version}::Site");
            let site = Definition { function: "site", kind: "Site", version: &version, namesakes: &[] };
            with_definition(Path::new("src/manifests.rs"), text, &site).unwrap()
        };
        let none = "fn manifests() -> M {\n    M::new() // mine\n}\n";
        let one = add(none, "v1");
        assert!(one.contains(".kind::<a::v1::Site>() // mine"), "{one}");
        assert_eq!(add(&one, "v1"), one);
        let two = add(&one, "v2");
        assert!(two.contains(".definition(site()) // mine"), "{two}");
        let function = "fn site() -> windlass::CrdBuilder {\n    windlass::CrdBuilder::of::<a::v1::Site>().and::<a::v2::Site>()\n}\n";
        assert!(two.contains(function), "{two}");
        let three = add(&two, "v3");
        assert!(three.contains(".and::<a::v3::Site>()") && !three.contains(".kind::<"), "{three}");
        for version in ["v1", "v2", "v3"] {
            assert_eq!(add(&three, version), three);
        }
    }

    #[test]
    fn kinds_of_the_same_name_keep_their_versions_apart() {
        let add = |text: &str, module: &str, version: &str| {
            let namesakes = ["site", "net_site"].map(str::to_owned).into_iter().filter(|other| other != module);
            let (namesakes, version) = (namesakes.collect::<Vec<_>>(), format!("a::{version}::{module}::Site"));
            let site = Definition { function: module, kind: "Site", version: &version, namesakes: &namesakes };
            with_definition(Path::new("src/manifests.rs"), text, &site).unwrap()
        };
        let one = add("fn manifests() -> M {\n    M::new() // mine\n}\n", "site", "v1");
        let two = add(&one, "net_site", "v1");
        assert!(
            two.contains(".kind::<a::v1::site::Site>()") && two.contains(".kind::<a::v1::net_site::Site>()"),
            "{two}"
        );
        let three = add(&two, "net_site", "v2");
        assert!(three.contains(".kind::<a::v1::site::Site>()") && three.contains(".definition(net_site())"), "{three}");
        assert!(three.contains("::of::<a::v1::net_site::Site>().and::<a::v2::net_site::Site>()"), "{three}");
        let four = add(&three, "site", "v2");
        assert!(four.contains("::of::<a::v1::site::Site>().and::<a::v2::site::Site>()"), "{four}");
        assert!(!four.contains(".kind::<"), "{four}");
    }
}
