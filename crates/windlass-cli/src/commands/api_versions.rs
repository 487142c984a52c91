//! `windlass api-versions`: lists a server's groups and versions.

use std::{error::Error, io::Write};

use clap::Args;
use windlass_client::Client;

use crate::connection::Connection;

/// The flags of `windlass api-versions`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(options: Options) -> Result<(), Box<dyn Error>> {
    print(&options.connection.client()?, &mut std::io::stdout()).await
}

async fn print(client: &Client, out: &mut (impl Write + ?Sized)) -> Result<(), Box<dyn Error>> {
    let discovery = client.discovery().await?;
    let mut versions: Vec<String> = discovery.group_versions().map(|version| version.to_string()).collect();
    versions.sort();
    for version in versions {
        writeln!(out, "{version}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn versions_are_listed_in_order() {
        let mut out = Vec::new();
        print(&testing::client(), &mut out).await.unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert!(lines.is_sorted() && lines.contains(&"v1") && lines.contains(&"apps/v1"), "{text}");
    }
}
