//! Controllers: `Controller::new(…)….run(reconcile, error_policy, context)….for_each(…)` becomes a manager with one
//! controller.
//!
//! The reconciler keeps its signature; a closure passes its context. The error policy is still called, but the delay
//! that it returns is not used. All controllers of the project are rewritten or none, because `Action` is a type of one
//! library.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{
    Expr, ExprAwait, ExprCall, ExprMethodCall, GenericArgument, ImplItemFn, ItemFn, Local, Pat, PathArguments,
    ReturnType, Signature, Stmt, Type,
    spanned::Spanned as _,
    visit::{self, Visit},
};

use super::{
    Steps,
    edits::{Edits, whole_lines},
    sources::{Source, arguments},
};

const CONTROLLER: &str = "kube::runtime::controller::Controller";
const ACTION: &str = "kube::runtime::controller::Action";

/// A controller that can be rewritten.
struct Found {
    range: std::ops::Range<usize>,
    text: String,
    line: usize,
    /// A variable that was used only here.
    unused: Option<std::ops::Range<usize>>,
}

pub(super) fn rewrite(sources: &[Source], edits: &mut [Edits], steps: &mut Steps) {
    let mut all = Vec::new();
    let mut left = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let mut search = Search { source, function: None, found: Vec::new(), left: Vec::new() };
        search.visit_file(&source.file);
        left.extend(search.left.into_iter().map(|(line, reason)| (index, line, reason)));
        all.extend(search.found.into_iter().map(|found| (index, found)));
    }
    steps.controllers = left.is_empty() && !all.is_empty();
    if !steps.controllers {
        let advice =
            "write Controller::<K>::new()….reconcile(…), docs/from-kube-rs.md; the other controllers stay with it";
        for (index, line, reason) in left {
            steps.leave(&sources[index], line, format!("Controller::new: {reason}"), advice);
        }
        return;
    }
    for (index, found) in all {
        let review =
            "check its errors: the delay of the error policy is replaced by a back-off, and .for_each(…) is not called";
        steps.leave(&sources[index], found.line, "the manager of a controller", review);
        if let Some(unused) = found.unused {
            edits[index].replace(whole_lines(&sources[index].text, unused), "");
        }
        edits[index].replace(found.range, found.text);
    }
    for (source, edits) in sources.iter().zip(edits) {
        Actions { source, edits }.visit_file(&source.file);
    }
}

/// Searches controllers, and decides for each whether it can be rewritten.
struct Search<'s> {
    source: &'s Source,
    /// The innermost function.
    function: Option<(&'s Signature, &'s syn::Block)>,
    found: Vec<Found>,
    /// The line and the reason of each controller that cannot be rewritten.
    left: Vec<(usize, String)>,
}

impl<'s> Visit<'s> for Search<'s> {
    fn visit_item_fn(&mut self, function: &'s ItemFn) {
        let outer = self.function.replace((&function.sig, &function.block));
        visit::visit_item_fn(self, function);
        self.function = outer;
    }

    fn visit_impl_item_fn(&mut self, function: &'s ImplItemFn) {
        let outer = self.function.replace((&function.sig, &function.block));
        visit::visit_impl_item_fn(self, function);
        self.function = outer;
    }

    fn visit_stmt(&mut self, statement: &'s Stmt) {
        // A statement `….await;` becomes statements.
        if let Stmt::Expr(Expr::Await(ExprAwait { base, .. }), end) = statement
            && let Some(chain) = self.chain(base)
        {
            return self.take(&chain, statement.span().byte_range(), Form::Statements { ends: end.is_some() });
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_expr_method_call(&mut self, call: &'s ExprMethodCall) {
        let mut chain = Vec::new();
        let root = unrolled(call, &mut chain);
        if let Some(root) = self.constructor(root) {
            let ends = matches!(chain.last(), Some(last) if last.method == "for_each");
            if ends {
                let range = call.span().byte_range();
                self.take(&Chain { root, calls: chain }, range, Form::Future);
            } else {
                let line = call.span().start().line;
                self.left.push((line, "its stream is not consumed by .for_each(…)".to_owned()));
            }
            return;
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_path(&mut self, path: &'s syn::ExprPath) {
        // A constructor outside of a chain, or another one.
        if self.source.names.full(&path.path).strip_prefix(CONTROLLER).is_some_and(|rest| rest.starts_with("::")) {
            let line = path.span().start().line;
            self.left.push((line, "it is not followed by .run(…), or has another constructor".to_owned()));
        }
    }

    fn visit_macro(&mut self, call: &'s syn::Macro) {
        if call.tokens.to_string().contains("Controller :: new") {
            self.left.push((call.span().start().line, "it is inside of a macro".to_owned()));
        }
    }
}

/// The form of the replacement.
enum Form {
    /// Statements in place of one that awaits the controller.
    Statements { ends: bool },
    /// A future in place of that of the controller.
    Future,
}

/// A builder expression.
struct Chain<'s> {
    root: &'s ExprCall,
    /// The method calls, in order.
    calls: Vec<&'s ExprMethodCall>,
}

/// Returns the innermost receiver of method calls, and the calls in order.
fn unrolled<'s>(call: &'s ExprMethodCall, calls: &mut Vec<&'s ExprMethodCall>) -> &'s Expr {
    let root = match &*call.receiver {
        Expr::MethodCall(inner) => unrolled(inner, calls),
        other => other,
    };
    calls.push(call);
    root
}

impl<'s> Search<'s> {
    fn constructor(&self, expression: &'s Expr) -> Option<&'s ExprCall> {
        let Expr::Call(call) = expression else { return None };
        let Expr::Path(path) = &*call.func else { return None };
        let full = self.source.names.full(&path.path);
        (full.strip_suffix("::new") == Some(CONTROLLER)).then_some(call)
    }

    fn chain(&self, expression: &'s Expr) -> Option<Chain<'s>> {
        let Expr::MethodCall(call) = expression else { return None };
        let mut calls = Vec::new();
        let root = self.constructor(unrolled(call, &mut calls))?;
        (calls.last()?.method == "for_each").then_some(Chain { root, calls })
    }

    fn take(&mut self, chain: &Chain<'s>, range: std::ops::Range<usize>, form: Form) {
        let line = chain.root.span().start().line;
        match self.manager(chain, &form) {
            Ok(text) => {
                let unused = chain.root.args.first().and_then(|api| self.unused(api));
                self.found.push(Found { range, text, line, unused });
            }
            Err(reason) => self.left.push((line, reason)),
        }
    }

    /// Returns the code of the manager, or the reason why the controller cannot be rewritten.
    fn manager(&self, chain: &Chain<'s>, form: &Form) -> Result<String, String> {
        let mut controller = self.watched(chain.root.args.iter(), "")?;
        let mut run = None;
        for call in &chain.calls {
            let arguments: Vec<_> = call.args.iter().collect();
            match (call.method.to_string().as_str(), arguments.as_slice()) {
                _ if run.is_some() => {}
                ("run", [reconcile, policy, context]) => run = Some((*reconcile, *policy, *context)),
                ("owns", [_, _]) => controller.push_str(&self.watched(call.args.iter(), ".owns")?),
                ("shutdown_on_signal", []) => {}
                ("with_config", [config]) => controller.push_str(&self.settings(config)?),
                (other, _) => return Err(format!("the method .{other}(…) has no counterpart that can be inserted")),
            }
        }
        let (reconcile, policy, context) = run.ok_or("it is not followed by .run(…)")?;
        let text = |expression: &Expr| {
            let mut edits = Edits::default();
            Actions { source: self.source, edits: &mut edits }.visit_expr(expression);
            edits.applied_to(&self.source.text, expression.span().byte_range())
        };
        let (reconcile, policy, context) = (callee(&text(reconcile)), callee(&text(policy)), text(context));
        let (start, run) = match self.handling() {
            Handling::Question => ("?", "?"),
            Handling::Panic => {
                (".expect(\"the manager has a configuration\")", ".expect(\"the manager runs until it is stopped\")")
            }
        };
        let build = format!(
            "let mut manager = windlass::Manager::try_default().await{start};\n\
             manager.add({controller}.reconcile(move |object, _: windlass::Context| {{\n\
                 let context = context.clone();\n\
                 async move {{\n\
                     let outcome = {reconcile}(std::sync::Arc::clone(&object), context.clone()).await;\n\
                     if let Err(error) = &outcome {{\n\
                         // Only for its side effects: the manager retries with a back-off.\n\
                         let _ = {policy}(object, error, context);\n\
                     }}\n\
                     outcome\n\
                 }}\n\
             }}));\n\
             manager.run(windlass::shutdown::signal()).await{run}"
        );
        Ok(match form {
            Form::Statements { ends: true } => format!("let context = {context};\n{build};"),
            Form::Statements { ends: false } if run == "?" => format!("let context = {context};\n{build};"),
            Form::Statements { ends: false } => format!("let context = {context};\n{build}"),
            // `?` would leave the block, so errors of a future always panic.
            Form::Future => {
                let build = build.replace(".await?", ".await.expect(\"the manager runs until it is stopped\")");
                format!("{{\nlet context = {context};\nasync move {{\n{build};\n}}\n}}")
            }
        })
    }

    /// Returns the part of the builder for an API and the configuration of its watch.
    fn watched<'e>(&self, mut arguments: impl Iterator<Item = &'e Expr>, method: &str) -> Result<String, String> {
        let (Some(api), Some(config)) = (arguments.next(), arguments.next()) else {
            return Err("it has other arguments than an Api and a configuration".to_owned());
        };
        let Api { kind, namespace } = self.api(api)?;
        let selectors = self.selectors(config)?;
        let watch = match (&namespace, selectors.is_empty()) {
            (None, true) => None,
            (None, false) => Some(format!("windlass::Watch::<{kind}>::all(){selectors}")),
            (Some(namespace), _) => Some(format!("windlass::Watch::<{kind}>::within({namespace}){selectors}")),
        };
        Ok(match (method, watch) {
            ("", None) => format!("windlass::Controller::<{kind}>::new()"),
            ("", Some(watch)) => format!("windlass::Controller::watching({watch})"),
            (method, None) => format!("{method}::<{kind}>()"),
            (method, Some(watch)) => format!("{method}_with({watch})"),
        })
    }

    /// Returns the kind and the namespace of an `Api`, which may be a variable of the function.
    fn api(&self, expression: &Expr) -> Result<Api, String> {
        let unknown = || "the kind of its Api is not visible here".to_owned();
        match expression {
            Expr::Call(call) => self.api_call(call, None).ok_or_else(unknown),
            Expr::MethodCall(call) if call.method == "clone" && call.args.is_empty() => self.api(&call.receiver),
            Expr::Path(path) => {
                let name = path.path.get_ident().ok_or_else(unknown)?;
                let (_, body) = self.function.ok_or_else(unknown)?;
                let locals = body.stmts.iter().filter_map(|statement| match statement {
                    Stmt::Local(local) => Some(local),
                    _ => None,
                });
                let found = locals.filter_map(|local| self.bound(local, name)).next_back();
                found.ok_or_else(unknown)
            }
            _ => Err(unknown()),
        }
    }

    /// Returns the `let` of an API that is used only by the controller.
    fn unused(&self, api: &Expr) -> Option<std::ops::Range<usize>> {
        let Expr::Path(path) = api else { return None };
        let (name, (_, body)) = (path.path.get_ident()?, self.function?);
        let is_bound = |statement: &&Stmt| matches!(statement, Stmt::Local(local) if self.bound(local, name).is_some());
        let statement = body.stmts.iter().find(is_bound)?;
        (occurrences(body.to_token_stream(), name) == 2).then(|| statement.span().byte_range())
    }

    /// Returns the API that a `let` binds to a name.
    fn bound(&self, local: &Local, name: &syn::Ident) -> Option<Api> {
        let (pattern, ty) = match &local.pat {
            Pat::Type(typed) => (&*typed.pat, Some(&*typed.ty)),
            pattern => (pattern, None),
        };
        let Pat::Ident(pattern) = pattern else { return None };
        let Expr::Call(call) = &*local.init.as_ref()?.expr else { return None };
        (pattern.ident == *name).then(|| self.api_call(call, ty.and_then(argument))).flatten()
    }

    fn api_call(&self, call: &ExprCall, kind: Option<&Type>) -> Option<Api> {
        let Expr::Path(path) = &*call.func else { return None };
        let full = self.source.names.full(&path.path);
        let constructor = full.strip_prefix("kube::Api::")?;
        let api = path.path.segments.iter().rev().nth(1)?;
        let kind = match &api.arguments {
            PathArguments::AngleBracketed(arguments) => match arguments.args.first()? {
                GenericArgument::Type(kind) => kind,
                _ => return None,
            },
            _ => kind?,
        };
        let kind = self.source.text_of(kind.span()).to_owned();
        let namespace = match (constructor, call.args.iter().nth(1)) {
            ("all", None) => None,
            ("namespaced", Some(Expr::Reference(reference))) => {
                Some(format!("({}).to_string()", self.source.text_of(reference.expr.span())))
            }
            ("namespaced", Some(namespace)) => Some(self.source.text_of(namespace.span()).to_owned()),
            _ => return None,
        };
        Some(Api { kind, namespace })
    }

    /// Returns the selectors of the configuration of a watch, as calls.
    fn selectors(&self, config: &Expr) -> Result<String, String> {
        match config {
            Expr::Call(call) => {
                let Expr::Path(path) = &*call.func else { return Err(unknown_config()) };
                let full = self.source.names.full(&path.path);
                let is_default = ["kube::runtime::watcher::Config::default", "kube::core::params::ListParams::default"];
                if is_default.contains(&full.as_str()) { Ok(String::new()) } else { Err(unknown_config()) }
            }
            Expr::Path(path) if path.path.get_ident().is_none() => Err(unknown_config()),
            Expr::MethodCall(call) => {
                let inner = self.selectors(&call.receiver)?;
                match (call.method.to_string().as_str(), call.args.first()) {
                    // How a list is read has no effect on the objects.
                    ("any_semantic" | "streaming_lists", None) | ("page_size" | "timeout", Some(_)) => Ok(inner),
                    (method @ ("labels" | "fields"), Some(selector)) => {
                        let text = self.source.text_of(selector.span()).trim_start_matches('&');
                        Ok(format!("{inner}.{method}({text})"))
                    }
                    _ => Err(unknown_config()),
                }
            }
            _ => Err(unknown_config()),
        }
    }

    /// Returns the settings of `with_config`, as calls.
    fn settings(&self, config: &Expr) -> Result<String, String> {
        match config {
            Expr::Call(call) if call.func.to_token_stream().to_string().ends_with("default") => Ok(String::new()),
            Expr::MethodCall(call) if call.method == "concurrency" => {
                let workers = call.args.first().map(|workers| self.source.text_of(workers.span())).unwrap_or_default();
                let number = workers.parse::<usize>().ok().filter(|workers| *workers > 0);
                let number = number.ok_or("its concurrency is not a positive number")?;
                Ok(format!("{}.concurrency({number})", self.settings(&call.receiver)?))
            }
            _ => Err("its configuration has settings other than the concurrency".to_owned()),
        }
    }

    fn handling(&self) -> Handling {
        let Some((signature, _)) = self.function else { return Handling::Panic };
        let ReturnType::Type(_, ty) = &signature.output else { return Handling::Panic };
        let text: String = ty.to_token_stream().to_string().split_whitespace().collect();
        let takes_all = ["anyhow::Result", "eyre::Result", "Box<dyn", "anyhow::Error"];
        let is_imported = text.starts_with("Result<")
            && ["anyhow::Result", "color_eyre::Result", "eyre::Result"].iter().any(|full| match &**ty {
                Type::Path(path) => self.source.names.full(&path.path) == *full,
                _ => false,
            });
        if is_imported || takes_all.iter().any(|known| text.contains(known)) {
            Handling::Question
        } else {
            Handling::Panic
        }
    }
}

/// Counts a name in tokens.
fn occurrences(tokens: TokenStream, name: &syn::Ident) -> usize {
    tokens
        .into_iter()
        .map(|token| match token {
            TokenTree::Ident(ident) => usize::from(ident == *name),
            TokenTree::Group(group) => occurrences(group.stream(), name),
            TokenTree::Punct(_) | TokenTree::Literal(_) => 0,
        })
        .sum()
}

/// The treatment of errors at a place.
enum Handling {
    /// The function returns any error.
    Question,
    Panic,
}

struct Api {
    kind: String,
    namespace: Option<String>,
}

fn unknown_config() -> String {
    "the configuration of its watch is not a default with selectors".to_owned()
}

/// Returns an expression as it can be called: closures need parentheses.
fn callee(text: &str) -> String {
    if text.contains('|') { format!("({text})") } else { text.to_owned() }
}

/// Returns the argument of a generic type.
fn argument(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(inner) => Some(inner),
        _ => None,
    })
}

/// Rewrites `Action`, its constructor, and the paths of the finalizer helper.
struct Actions<'a> {
    source: &'a Source,
    edits: &'a mut Edits,
}

impl Visit<'_> for Actions<'_> {
    fn visit_macro(&mut self, call: &syn::Macro) {
        for argument in arguments(call) {
            self.visit_expr(&argument);
        }
    }

    fn visit_path(&mut self, path: &syn::Path) {
        let full = self.source.names.full(path);
        if let Some(rest) = full.strip_prefix(ACTION) {
            let range = path.span().byte_range();
            let is_import = self.source.text_of(path.span()).starts_with("Action");
            let action = if is_import { "Action" } else { "windlass::Action" };
            match rest {
                "::requeue" => self.edits.replace(range, format!("{action}::requeue_after")),
                rest if !is_import => self.edits.replace(range, format!("{action}{rest}")),
                _ => {}
            }
        }
        let text = self.source.text_of(path.span());
        if let Some(rest) = text.strip_prefix("kube::runtime::finalizer") {
            self.edits.replace(path.span().byte_range(), format!("windlass_kube::finalizer{rest}"));
        }
        visit::visit_path(self, path);
    }
}
