//! Objects as they are.

use std::error::Error;

use futures::StreamExt;
use windlass_api::{DynamicObject, ObjectList};
use windlass_client::WatchEvent;

use super::{
    Get, Outcome,
    format::{self, Document},
    wanted::Wanted,
};

impl Get<'_> {
    pub(super) async fn documents(&mut self, wanted: &[Wanted], document: &Document) -> Outcome {
        let mut objects = Vec::new();
        for wanted in wanted {
            objects.extend(self.read_objects(wanted).await?);
        }
        let single = matches!(wanted, [Wanted { names, .. }] if names.len() == 1);
        let managed_fields = self.options.show_managed_fields;
        let objects = objects.iter().map(|object| format::value(object, managed_fields)).collect::<Result<_, _>>()?;
        self.out.write_all(document.print(objects, single, self.options.no_headers)?.as_bytes())?;
        Ok(())
    }

    async fn read_objects(&self, wanted: &Wanted) -> Result<Vec<DynamicObject>, Box<dyn Error>> {
        let resources = self.client.dynamic(&wanted.resource.resource);
        let mut objects = Vec::new();
        for name in &wanted.names {
            let namespace = self.namespace(&wanted.resource).unwrap_or_default();
            match resources.get(name.as_str()).within(namespace).await {
                Ok(object) => objects.push(object),
                Err(error) if error.is_not_found() && self.options.ignore_not_found => {}
                Err(error) => return Err(error.into()),
            }
        }
        if wanted.names.is_empty() {
            let mut token = None;
            loop {
                let mut list = resources.list();
                if let Some(namespace) = self.namespace(&wanted.resource) {
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

    pub(super) async fn watch_documents(&mut self, wanted: &Wanted, document: &Document) -> Outcome {
        let resources = self.client.dynamic(&wanted.resource.resource);
        let namespace = self.namespace(&wanted.resource).unwrap_or_default().to_owned();
        let name = wanted.names.first().map(|name| format!("metadata.name={name}"));
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
        self.out.write_all(document.print(vec![value], true, true)?.as_bytes())?;
        Ok(self.out.flush()?)
    }
}
