//! Output of objects as a table with the server's columns.

use std::{error::Error, io, pin::pin};

use futures::TryStreamExt;
use windlass_api::EventType;
use windlass_client::{Columns, DiscoveredResource, GetTable, Headers, Table, TableWriter};

use super::{
    Get, Outcome,
    selection::{self, Named, Selection},
};

impl Get<'_> {
    pub(super) async fn tables(&mut self, selection: &[Selection], columns: Columns) -> Outcome {
        let mut printed = false;
        for selection in selection {
            let mut writer = self.writer(&selection.resource, columns, selection.among_others);
            let mut text = String::new();
            for table in self.read_tables(selection).await? {
                if !table.rows.is_empty() {
                    text += &writer.write(&table);
                }
            }
            if !text.is_empty() {
                if printed && !self.options.no_headers {
                    writeln!(self.out)?;
                }
                self.out.write_all(text.as_bytes())?;
                printed = true;
            }
        }
        if !printed && !self.options.ignore_not_found {
            self.say_nothing_found(selection)?;
        }
        Ok(())
    }

    /// Reads lists page by page and named objects one by one. Output that has to be sorted is a single table.
    async fn read_tables(&self, selection: &Selection) -> Result<Vec<Table>, Box<dyn Error>> {
        let mut tables = Vec::new();
        for named in &selection.names {
            match self.request_one(&selection.resource, named).await {
                Ok(table) => tables.push(table),
                Err(error) if error.is_not_found() && self.options.ignore_not_found => {}
                Err(error) => return Err(error.into()),
            }
        }
        if selection.names.is_empty() {
            let mut token = None;
            loop {
                let mut request = self.request(&selection.resource);
                if self.options.chunk_size > 0 {
                    request = request.limit(self.options.chunk_size);
                }
                if let Some(token) = token {
                    request = request.continue_from(token);
                }
                let table = request.await?;
                token = table.metadata.continue_token.clone().filter(|token| !token.is_empty());
                tables.push(table);
                if token.is_none() {
                    break;
                }
            }
        }
        if let Some(sort_by) = &self.options.sort_by {
            let rows = tables.iter_mut().flat_map(|table| std::mem::take(&mut table.rows)).collect();
            let rows = sort_by.sort(rows, |row| serde_json::to_value(&row.object).unwrap_or_default())?;
            tables.truncate(1);
            if let Some(table) = tables.first_mut() {
                table.rows = rows;
            }
        }
        Ok(tables)
    }

    pub(super) async fn watch_table(&mut self, selection: &Selection, columns: Columns) -> Outcome {
        let mut writer = self.writer(&selection.resource, columns, selection.among_others);
        let request = match selection.names.first() {
            Some(named) => self.request_one(&selection.resource, named),
            None => self.request(&selection.resource),
        };
        let now = request.clone().await?;
        if !self.options.watch_only {
            self.out.write_all(writer.write(&now).as_bytes())?;
            self.out.flush()?;
        }
        let mut events = pin!(request.watch(now.metadata.resource_version.as_str()).await?);
        while let Some(event) = events.try_next().await? {
            if event.event_type != EventType::Bookmark {
                self.out.write_all(writer.write(&event.table).as_bytes())?;
                self.out.flush()?;
            }
        }
        Ok(())
    }

    fn request(&self, resource: &DiscoveredResource) -> GetTable {
        let mut request = self.client.table(&resource.resource);
        if let Some(namespace) = self.namespace(resource) {
            request = request.within(namespace);
        }
        if let Some(labels) = &self.options.selector {
            request = request.labels(labels);
        }
        if let Some(fields) = &self.options.field_selector {
            request = request.fields(fields);
        }
        if self.options.sort_by.is_some() {
            request = request.with_objects();
        }
        request
    }

    fn request_one(&self, resource: &DiscoveredResource, named: &Named) -> GetTable {
        let request = self.request(resource).within(self.namespace_of(resource, named)).named(&named.name);
        match &self.options.subresource {
            Some(part) => request.subresource(part.clone()),
            None => request,
        }
    }

    fn writer(&self, resource: &DiscoveredResource, columns: Columns, among_others: bool) -> TableWriter {
        let headers = if self.options.no_headers { Headers::Hidden } else { Headers::Shown };
        let mut writer = TableWriter::new().columns(columns).headers(headers);
        if self.options.all_namespaces && resource.is_namespaced() {
            writer = writer.with_namespaces();
        }
        for label in &self.options.label_columns {
            writer = writer.with_label_column(label);
        }
        if self.options.show_labels {
            writer = writer.with_labels();
        }
        if self.options.show_kind || among_others {
            writer = writer.prefix(format!("{}/", selection::kind_name(resource)));
        }
        writer
    }

    fn say_nothing_found(&mut self, selection: &[Selection]) -> io::Result<()> {
        let namespaced = selection.iter().all(|selection| selection.resource.is_namespaced());
        if namespaced && !self.options.all_namespaces {
            writeln!(self.notices, "No resources found in {} namespace.", self.client.default_namespace())
        } else {
            writeln!(self.notices, "No resources found")
        }
    }
}
