//! `windlass get`: objects as a table, or as they are, as `kubectl get` shows them.

mod documents;
mod files;
mod format;
mod sorted;
mod tables;
mod wanted;

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
use sorted::SortBy;
use wanted::{Named, Wanted};

/// The flags of `windlass get`.
#[derive(Args, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of kubectl's")]
pub(crate) struct Options {
    /// What to show: TYPE[,TYPE] [NAME ...], or TYPE/NAME ...; types as in `deploy`, `deployments.apps`, `all`
    #[arg(value_name = "TYPE", required_unless_present_any = ["raw", "filename"])]
    what: Vec<String>,
    /// wide, name, json, yaml, jsonpath=TEMPLATE or custom-columns=NAME:PATH,...
    #[arg(long, short, value_name = "FORMAT", default_value = "")]
    output: Format,
    /// What these files are about, as they are in the cluster: manifests, folders of them, or - for the input
    #[arg(long, short = 'f', value_name = "FILE,...", value_delimiter = ',', conflicts_with_all = ["what", "all_namespaces"])]
    filename: Vec<PathBuf>,
    /// This part of each object: status, scale or resize
    #[arg(long, value_name = "NAME", value_parser = ["status", "scale", "resize"])]
    subresource: Option<String>,
    /// In the order of this field: .metadata.creationTimestamp
    #[arg(long, value_name = "PATH")]
    sort_by: Option<SortBy>,
    /// Whether a field that a template names may be missing
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    allow_missing_template_keys: bool,
    /// Of all namespaces
    #[arg(long, short = 'A')]
    all_namespaces: bool,
    /// With these labels: `app=web,tier in (a,b)`
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    selector: Option<String>,
    /// With these fields: `spec.nodeName=n`
    #[arg(long, value_name = "SELECTOR")]
    field_selector: Option<String>,
    /// Then goes on with what changes
    #[arg(long, short)]
    watch: bool,
    /// Only shows what changes from now on
    #[arg(long, conflicts_with = "watch")]
    watch_only: bool,
    /// Without the names of the columns
    #[arg(long)]
    no_headers: bool,
    /// The labels of each object in a last column
    #[arg(long)]
    show_labels: bool,
    /// The values of these labels in columns of their own
    #[arg(long, short = 'L', value_delimiter = ',', value_name = "LABEL,...")]
    label_columns: Vec<String>,
    /// The kind of each object before its name
    #[arg(long)]
    show_kind: bool,
    /// Who owns which field, too, in json and yaml
    #[arg(long)]
    show_managed_fields: bool,
    /// An object that is not there is no failure
    #[arg(long)]
    ignore_not_found: bool,
    /// How many objects to ask for at once; 0 for all
    #[arg(long, default_value_t = 500, value_name = "N")]
    chunk_size: u32,
    /// This path as it is: `/readyz`
    #[arg(long, value_name = "PATH", conflicts_with = "what")]
    raw: Option<Uri>,
    #[command(flatten)]
    connection: Connection,
}

type Outcome = Result<(), Box<dyn Error>>;

pub(crate) async fn run(options: Options) -> Outcome {
    let discovery = options.connection.discovery()?;
    Get { options: &options, client: discovery.client().clone(), out: &mut io::stdout(), told: &mut io::stderr() }
        .run(&discovery)
        .await
}

/// A run of the command.
struct Get<'g> {
    options: &'g Options,
    client: Client,
    out: &'g mut dyn Write,
    /// Where it is said that there is nothing.
    told: &'g mut dyn Write,
}

impl Get<'_> {
    async fn run(mut self, discovery: &CachedDiscovery) -> Outcome {
        if let Some(path) = &self.options.raw {
            return self.raw(path).await;
        }
        // Boxed, for they may have to ask for all that a server serves, and that takes a large future.
        let wanted = if self.options.filename.is_empty() {
            Box::pin(wanted::parse(&self.options.what, discovery)).await?
        } else {
            Box::pin(wanted::of_manifests(files::read(&self.options.filename)?, discovery)).await?
        };
        self.check(&wanted)?;
        let watches = self.options.watch || self.options.watch_only;
        if watches && (wanted.len() > 1 || wanted[0].names.len() > 1) {
            return Err("only one object, or one type of objects, can be watched at once".into());
        }
        if watches && self.options.sort_by.is_some() {
            writeln!(self.told, "warning: what is watched comes as it happens: --sort-by is ignored")?;
        }
        match (&self.options.output, watches) {
            (Format::Table(columns), false) => self.tables(&wanted, *columns).await,
            (Format::Table(columns), true) => self.watch_table(&wanted[0], *columns).await,
            (Format::Document(document), false) => self.documents(&wanted, document).await,
            (Format::Document(document), true) => self.watch_documents(&wanted[0], document).await,
        }
    }

    fn check(&self, wanted: &[Wanted]) -> Outcome {
        if wanted.is_empty() {
            return Err("the files hold no objects".into());
        }
        match &self.options.subresource {
            Some(part) if wanted.iter().any(|wanted| wanted.names.is_empty()) => {
                Err(format!("the {part} of which objects? Name them: TYPE NAME, or TYPE/NAME").into())
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

    /// `None` for all, and for what lives in none.
    fn namespace(&self, resource: &DiscoveredResource) -> Option<&str> {
        (resource.is_namespaced() && !self.options.all_namespaces).then(|| self.client.default_namespace())
    }

    /// The namespace of an object that is named; empty for one that lives in none.
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
