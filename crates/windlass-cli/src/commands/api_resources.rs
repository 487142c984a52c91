//! `windlass api-resources`: lists a server's resources, as `kubectl api-resources` prints them.

use std::{
    error::Error,
    io::{self, Write},
};

use clap::{Args, ValueEnum};
use windlass_client::{CachedDiscovery, DiscoveredResource, TextLayout};

use crate::connection::Connection;

/// The flags of `windlass api-resources`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Show only resources of this group; "" is the core group
    #[arg(long, value_name = "GROUP")]
    api_group: Option<String>,
    /// Show only namespaced resources, or with =false only cluster-scoped ones
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    namespaced: Option<bool>,
    /// Show only resources that support all of these verbs
    #[arg(long, value_delimiter = ',', value_name = "VERB,...")]
    verbs: Vec<String>,
    /// Show only resources in all of these categories
    #[arg(long, value_delimiter = ',', value_name = "CATEGORY,...")]
    categories: Vec<String>,
    /// Column to sort by; defaults to group and name
    #[arg(long, value_enum, value_name = "COLUMN")]
    sort_by: Option<SortBy>,
    /// Output format: more columns, or only names
    #[arg(long, short, value_enum, value_name = "FORMAT")]
    output: Option<Output>,
    /// Omit the header line
    #[arg(long)]
    no_headers: bool,
    /// Use the discovery cache if it is not too old
    #[arg(long)]
    cached: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SortBy {
    Name,
    Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Wide,
    Name,
}

pub(crate) async fn run(options: Options) -> Result<(), Box<dyn Error>> {
    let discovery = options.connection.discovery()?;
    print(&discovery, &options, &mut std::io::stdout()).await
}

async fn print(
    discovery: &CachedDiscovery,
    options: &Options,
    out: &mut (impl Write + ?Sized),
) -> Result<(), Box<dyn Error>> {
    if !options.cached {
        discovery.invalidate();
    }
    let discovery = discovery.get().await?;
    let mut resources: Vec<_> = discovery.preferred_resources().filter(|resource| options.wants(resource)).collect();
    resources.sort_by_key(|found| {
        let resource = &found.resource;
        match options.sort_by {
            None => (resource.group.clone(), resource.plural.clone()),
            Some(SortBy::Name) => (resource.plural.clone(), resource.group.clone()),
            Some(SortBy::Kind) => (resource.kind.clone(), resource.group.clone()),
        }
    });
    if options.output == Some(Output::Name) {
        for found in resources {
            writeln!(out, "{}", found.resource.group_resource())?;
        }
    } else {
        let wide = options.output == Some(Output::Wide);
        let mut lines = Vec::new();
        if !options.no_headers {
            let names: &[&str] = &["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND", "VERBS", "CATEGORIES"];
            let shown = if wide { names } else { &names[..5] };
            lines.push(shown.iter().map(|&name| name.to_owned()).collect());
        }
        lines.extend(resources.into_iter().map(|found| cells(found, wide)));
        write!(out, "{}", TextLayout::default().write(&lines))?;
    }
    for failed in &discovery.failed {
        writeln!(io::stderr(), "windlass: the resources of {} are not available", failed.group_version)?;
    }
    Ok(())
}

fn cells(found: &DiscoveredResource, wide: bool) -> Vec<String> {
    let resource = &found.resource;
    let mut cells = vec![
        resource.plural.clone().into_owned(),
        found.short_names.join(","),
        resource.api_version(),
        found.is_namespaced().to_string(),
        resource.kind.clone().into_owned(),
    ];
    if wide {
        cells.push(found.verbs.join(","));
        cells.push(found.categories.join(","));
    }
    cells
}

impl Options {
    fn wants(&self, found: &DiscoveredResource) -> bool {
        !found.verbs.is_empty()
            && self.api_group.as_ref().is_none_or(|group| *group == found.resource.group)
            && self.namespaced.is_none_or(|namespaced| namespaced == found.is_namespaced())
            && self.verbs.iter().all(|verb| found.supports(verb))
            && self.categories.iter().all(|category| found.categories.contains(category))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::testing;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }

    async fn printed(flags: &[&str]) -> String {
        let arguments = std::iter::once("api-resources").chain(flags.iter().copied());
        let options = Command::try_parse_from(arguments).unwrap().options;
        let mut out = Vec::new();
        print(&CachedDiscovery::in_memory(testing::client()), &options, &mut out).await.unwrap();
        String::from_utf8(out).unwrap()
    }

    #[tokio::test]
    async fn resources_are_printed_in_columns() {
        let text = printed(&[]).await;
        assert!(text.starts_with("NAME "), "{text}");
        let line = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(line("deployments"), ["deployments", "deploy", "apps/v1", "true", "Deployment"]);
        assert_eq!(line("nodes"), ["nodes", "no", "v1", "false", "Node"]);
    }

    #[tokio::test]
    async fn flags_narrow_and_sort() {
        assert_eq!(
            printed(&["--api-group=apps", "-o", "name", "--categories=all", "--verbs=list,watch"]).await,
            "daemonsets.apps\ndeployments.apps\nreplicasets.apps\nstatefulsets.apps\n"
        );
        let cluster = printed(&["--namespaced=false", "--api-group=", "--sort-by=kind", "--no-headers"]).await;
        let kinds: Vec<_> = cluster.lines().map(|line| line.split_whitespace().last().unwrap()).collect();
        assert_eq!(kinds, ["ComponentStatus", "Namespace", "Node", "PersistentVolume"]);
        let wide = printed(&["-o", "wide"]).await;
        let pods = wide.lines().find(|line| line.starts_with("pods ")).unwrap();
        assert!(pods.ends_with("create,delete,deletecollection,get,list,patch,update,watch   all"), "{pods}");
    }
}
