//! `windlass get`: prints objects like `kubectl get`, as a table or as documents.

mod documents;
mod files;
mod format;
mod sorted;
mod tables;
mod selection;

use std::{
    error::Error,
    io::{self, Write},
    path::PathBuf,
};

use clap::{ArgAction, Args};
use http::{Request, Uri};
use http_body_util::BodyExt;
use windlass_client::{CachedDiscovery, Client, DiscoveredResource};

use crate::connection::Connection;
use format::{Absent, Format};
use selection::{Named, Selection};
use sorted::SortBy;

/// The flags of `windlass get`.
#[derive(Args, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of kubectl's")]
pub(crate) struct Options {
    /// Objects to show: TYPE[,TYPE] [NAME ...], or TYPE/NAME ...; types as in `deploy`, `deployments.apps`, `all`
    #[arg(value_name = "TYPE", required_unless_present_any = ["raw", "filename"])]
    what: Vec<String>,
    /// Output format: wide, name, json, yaml, jsonpath=TEMPLATE or custom-columns=NAME:PATH,...
    #[arg(long, short, value_name = "FORMAT", default_value = "")]
    output: Format,
    /// Show the current state of the objects in these files: manifests, folders of manifests, or - for standard input
    #[arg(long, short = 'f', value_name = "FILE,...", value_delimiter = ',', conflicts_with_all = ["what", "all_namespaces"])]
    filename: Vec<PathBuf>,
    /// Subresource to show: status, scale or resize
    #[arg(long, value_name = "NAME", value_parser = ["status", "scale", "resize"])]
    subresource: Option<String>,
    /// Path of the field to sort by: .metadata.creationTimestamp
    #[arg(long, value_name = "PATH")]
    sort_by: Option<SortBy>,
    /// Ignore missing fields in templates
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    allow_missing_template_keys: bool,
    /// Show objects of all namespaces
    #[arg(long, short = 'A')]
    all_namespaces: bool,
    /// Label selector: `app=web,tier in (a,b)`
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    selector: Option<String>,
    /// Field selector: `spec.nodeName=n`
    #[arg(long, value_name = "SELECTOR")]
    field_selector: Option<String>,
    /// Watch for changes after the list
    #[arg(long, short)]
    watch: bool,
    /// Watch for changes without the list
    #[arg(long, conflicts_with = "watch")]
    watch_only: bool,
    /// Omit the header line
    #[arg(long)]
    no_headers: bool,
    /// Show all labels in the last column
    #[arg(long)]
    show_labels: bool,
    /// Labels to show as columns
    #[arg(long, short = 'L', value_delimiter = ',', value_name = "LABEL,...")]
    label_columns: Vec<String>,
    /// Show the kind before each name
    #[arg(long)]
    show_kind: bool,
    /// Include managedFields in json and yaml
    #[arg(long)]
    show_managed_fields: bool,
    /// Do not fail if an object does not exist
    #[arg(long)]
    ignore_not_found: bool,
    /// Page size of list requests; 0 for no limit
    #[arg(long, default_value_t = 500, value_name = "N")]
    chunk_size: u32,
    /// Request this path and print the response unchanged: `/readyz`
    #[arg(long, value_name = "PATH", conflicts_with = "what")]
    raw: Option<Uri>,
    #[command(flatten)]
    connection: Connection,
}

type Outcome = Result<(), Box<dyn Error>>;

pub(crate) async fn run(options: Options) -> Outcome {
    let discovery = options.connection.discovery()?;
    Get { options: &options, client: discovery.client().clone(), out: &mut io::stdout(), notices: &mut io::stderr() }
        .run(&discovery)
        .await
}

/// One execution of the command.
struct Get<'g> {
    options: &'g Options,
    client: Client,
    out: &'g mut dyn Write,
    /// The output for warnings, and for the message that no resources were found.
    notices: &'g mut dyn Write,
}

impl Get<'_> {
    async fn run(mut self, discovery: &CachedDiscovery) -> Outcome {
        if let Some(path) = &self.options.raw {
            return self.raw(path).await;
        }
        // Boxed, because reading the discovery documents requires a large future.
        let selection = if self.options.filename.is_empty() {
            Box::pin(selection::parse(&self.options.what, discovery)).await?
        } else {
            Box::pin(selection::of_manifests(files::read(&self.options.filename)?, discovery)).await?
        };
        self.check(&selection)?;
        let watches = self.options.watch || self.options.watch_only;
        if watches && (selection.len() > 1 || selection[0].names.len() > 1) {
            return Err("only one object or one type of objects can be watched".into());
        }
        if watches && self.options.sort_by.is_some() {
            writeln!(self.notices, "warning: --sort-by is ignored with --watch")?;
        }
        match (&self.options.output, watches) {
            (Format::Table(columns), false) => self.tables(&selection, *columns).await,
            (Format::Table(columns), true) => self.watch_table(&selection[0], *columns).await,
            (Format::Document(document), false) => self.documents(&selection, document).await,
            (Format::Document(document), true) => self.watch_documents(&selection[0], document).await,
        }
    }

    fn check(&self, selection: &[Selection]) -> Outcome {
        if selection.is_empty() {
            return Err("the files hold no objects".into());
        }
        match &self.options.subresource {
            Some(part) if selection.iter().any(|selection| selection.names.is_empty()) => {
                Err(format!("specify the objects of the {part}: TYPE NAME, or TYPE/NAME").into())
            }
            _ => Ok(()),
        }
    }

    async fn raw(self, path: &Uri) -> Outcome {
        let mut request = Request::new(());
        *request.uri_mut() = path.clone();
        let response = self.client.request(request).await?;
        let status = response.status();
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| -> Box<dyn Error> { error })?;
            self.out.write_all(&frame.into_data().unwrap_or_default())?;
            self.out.flush()?;
        }
        if status.is_success() { Ok(()) } else { Err(format!("the server answered {status}").into()) }
    }

    /// Returns `None` for all namespaces and for cluster-scoped resources.
    fn namespace(&self, resource: &DiscoveredResource) -> Option<&str> {
        (resource.is_namespaced() && !self.options.all_namespaces).then(|| self.client.default_namespace())
    }

    /// Returns the namespace of a named object; empty for a cluster-scoped one.
    fn namespace_of<'n>(&'n self, resource: &DiscoveredResource, named: &'n Named) -> &'n str {
        match &named.namespace {
            Some(namespace) if resource.is_namespaced() => namespace,
            _ => self.namespace(resource).unwrap_or_default(),
        }
    }

    const fn absent(&self) -> Absent {
        if self.options.allow_missing_template_keys { Absent::Allowed } else { Absent::Refused }
    }
}

#[cfg(test)]
mod tests;
