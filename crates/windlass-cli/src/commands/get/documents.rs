//! Output of objects as documents.

use std::error::Error;

use futures::StreamExt;
use windlass_api::{DynamicObject, ObjectList};
use windlass_client::WatchEvent;

use super::{
    Get, Outcome,
    format::{self, Document},
    selection::Selection,
};

impl Get<'_> {
    pub(super) async fn documents(&mut self, selection: &[Selection], document: &Document) -> Outcome {
        let mut objects = Vec::new();
        for selection in selection {
            objects.extend(self.read_objects(selection).await?);
        }
        if let Some(sort_by) = &self.options.sort_by {
            objects = sort_by.sort(objects, |object| serde_json::to_value(object).unwrap_or_default())?;
        }
        let single = matches!(selection, [Selection { names, .. }] if names.len() == 1);
        let managed_fields = self.options.show_managed_fields;
        let objects = objects.iter().map(|object| format::value(object, managed_fields)).collect::<Result<_, _>>()?;
        self.out.write_all(document.print(objects, single, self.options.no_headers, self.absent())?.as_bytes())?;
        Ok(())
    }

    async fn read_objects(&self, selection: &Selection) -> Result<Vec<DynamicObject>, Box<dyn Error>> {
        let resources = self.client.dynamic(&selection.resource.resource);
        let mut objects = Vec::new();
        for named in &selection.names {
            let mut get = resources.get(named.name.as_str()).within(self.namespace_of(&selection.resource, named));
            if let Some(part) = &self.options.subresource {
                get = get.subresource(part.clone());
            }
            match get.await {
                Ok(object) => objects.push(object),
                Err(error) if error.is_not_found() && self.options.ignore_not_found => {}
                Err(error) => return Err(error.into()),
            }
        }
        if selection.names.is_empty() {
            let mut token = None;
            loop {
                let mut list = resources.list();
                if let Some(namespace) = self.namespace(&selection.resource) {
                    list = list.within(namespace);
                }
                if let Some(labels) = &self.options.selector {
                    list = list.labels(labels);
                }
                if let Some(fields) = &self.options.field_selector {
                    list = list.fields(fields);
                }
                if self.options.chunk_size > 0 {
                    list = list.limit(self.options.chunk_size);
                }
                if let Some(token) = token {
                    list = list.continue_from(token);
                }
                let ObjectList { metadata, items } = list.await?;
                objects.extend(items);
                token = metadata.continue_token.filter(|token| !token.is_empty());
                if token.is_none() {
                    break;
                }
            }
        }
        Ok(objects)
    }

    pub(super) async fn watch_documents(&mut self, selection: &Selection, document: &Document) -> Outcome {
        let resources = self.client.dynamic(&selection.resource.resource);
        let named = selection.names.first();
        let all = self.namespace(&selection.resource).unwrap_or_default();
        let namespace = named.map_or(all, |named| self.namespace_of(&selection.resource, named)).to_owned();
        let name = named.map(|named| format!("metadata.name={}", named.name));
        let fields: Vec<String> = self.options.field_selector.iter().cloned().chain(name).collect();
        let mut list = resources.list().within(&namespace);
        let mut watch = resources.watch().within(&namespace);
        if !fields.is_empty() {
            list = list.fields(fields.join(","));
            watch = watch.fields(fields.join(","));
        }
        if let Some(labels) = &self.options.selector {
            list = list.labels(labels);
            watch = watch.labels(labels);
        }
        let now = list.await?;
        if !self.options.watch_only {
            for object in &now.items {
                self.print_one(object, document)?;
            }
        }
        let mut events = watch.resource_version(now.metadata.resource_version.as_str()).await?;
        while let Some(event) = events.next().await {
            match event? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                    self.print_one(&object, document)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn print_one(&mut self, object: &DynamicObject, document: &Document) -> Outcome {
        let value = format::value(object, self.options.show_managed_fields)?;
        self.out.write_all(document.print(vec![value], true, true, self.absent())?.as_bytes())?;
        Ok(self.out.flush()?)
    }
}
