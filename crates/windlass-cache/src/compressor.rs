//! The choice of bodies to compress, and of the dictionary.
//!
//! Bodies beyond the memory budget are compressed as soon as a dictionary can be trained. A body is compressed after
//! its last expected read: for an object of a list when it is set aside, for an object of a watch when it is stored and
//! indexed.

use std::sync::Arc;

use crate::{cached::Cached, memory::Memory, packing::Packer};

/// Bodies beyond the budget are collected, uncompressed, until there are this many, or this many bytes. Then a
/// dictionary is trained on them.
const SAMPLES: usize = 400;
const SAMPLE_BYTES: usize = 8 << 20;

/// The second dictionary is trained on samples from the whole list. It replaces the first one if it saves at least this
/// share of the size.
const WORTH: f64 = 0.1;

/// Bodies that are already compressed are compressed again if that saves at least this share of the size. A smaller
/// saving does not pay: the freed blocks are scattered between used ones, and the allocator cannot return them to the
/// system.
const WORTH_ANEW: f64 = 0.25;

/// Compresses the bodies of one informer.
pub(crate) struct Compressor<K> {
    memory: Arc<Memory>,
    /// `None` until a dictionary has been trained.
    packer: Option<Packer>,
    /// Objects beyond the budget that arrived before the dictionary was trained.
    gathered: Vec<Cached<K>>,
    gathered_bytes: usize,
    /// `true` if the dictionary was trained only on the first objects of a list.
    is_provisional: bool,
}

impl<K> Compressor<K> {
    pub(crate) fn new(memory: Arc<Memory>) -> Self {
        Self { memory, packer: None, gathered: Vec::new(), gathered_bytes: 0, is_provisional: false }
    }

    /// Compresses the object's body if the memory budget is exceeded.
    pub(crate) fn compress(&mut self, object: &Cached<K>) {
        if !self.memory.is_beyond_budget() || object.entry().body.is_packed() {
            return;
        }
        match &mut self.packer {
            Some(packer) => self.memory.repack(&object.entry().body, packer),
            None => self.gather(object.clone()),
        }
    }

    /// Trains the dictionary on the objects of a complete list, if that improves the compression.
    pub(crate) fn settle(&mut self, objects: &[Cached<K>]) {
        if self.packer.is_none() && !self.gathered.is_empty() {
            self.train();
        }
        if !std::mem::take(&mut self.is_provisional) || objects.len() < 2 * SAMPLES {
            return;
        }
        let Some(packer) = &mut self.packer else { return };
        let sample = |start: usize| -> Vec<Vec<u8>> {
            let step = objects.len() / (SAMPLES / 2);
            let sampled = objects.iter().skip(start).step_by(step.max(1)).take(SAMPLES / 2);
            sampled.filter_map(|object| object.entry().body.bytes(&self.memory.unpacker).ok()).collect()
        };
        let mut better = Packer::trained(sample(0));
        let judges = sample(1);
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let size = |packer: &mut Packer| -> f64 {
            judges.iter().map(|body| packer.pack(body).map_or(body.len(), |packed| packed.len()) as f64).sum()
        };
        let saved = 1.0 - size(&mut better) / size(packer).max(1.0);
        if saved < WORTH {
            return;
        }
        if saved >= WORTH_ANEW {
            for object in objects.iter().filter(|object| object.entry().body.is_packed()) {
                self.memory.repack(&object.entry().body, &mut better);
            }
        }
        self.packer = Some(better);
    }

    fn gather(&mut self, object: Cached<K>) {
        self.gathered_bytes += object.entry().body.len();
        self.gathered.push(object);
        if self.gathered.len() >= SAMPLES || self.gathered_bytes >= SAMPLE_BYTES {
            self.train();
        }
    }

    fn train(&mut self) {
        let gathered = std::mem::take(&mut self.gathered);
        let bodies = gathered.iter().filter_map(|object| object.entry().body.bytes(&self.memory.unpacker).ok());
        let mut packer = Packer::trained(bodies);
        for object in &gathered {
            self.memory.repack(&object.entry().body, &mut packer);
        }
        self.gathered_bytes = 0;
        self.is_provisional = true;
        self.packer = Some(packer);
    }
}

#[cfg(test)]
mod tests {
    use windlass_api::{DynamicObject, ObjectExt as _, Resource};
    use windlass_views::{List, View};

    use super::*;
    use crate::{ManagedFieldsMode, ingest::Ingest, options::InformerOptions};

    type Both = (Ingest<DynamicObject>, Compressor<DynamicObject>);

    fn within(budget: usize) -> Both {
        let options = InformerOptions::default().budget(budget);
        let resource = Arc::new(k8s_openapi::api::core::v1::Pod::api_resource());
        let memory = Arc::new(Memory::new(resource, &options));
        (Ingest::new(Arc::clone(&memory), ManagedFieldsMode::Drop), Compressor::new(memory))
    }

    fn read((ingest, compressor): &mut Both, text: &str) -> Cached<DynamicObject> {
        let object = ingest.read(text.as_bytes()).unwrap();
        compressor.compress(&object);
        object
    }

    fn pod(number: usize) -> String {
        let containers: Vec<_> =
            (0..8).map(|n| format!(r#"{{"name":"container-{n}","image":"registry.example/app:{number}"}}"#)).collect();
        let containers = containers.join(",");
        format!(r#"{{"metadata":{{"name":"pod-{number}","uid":"{number}"}},"spec":{{"containers":[{containers}]}}}}"#)
    }

    #[test]
    fn bodies_over_the_budget_are_compressed_losslessly() {
        let mut both = within(10 * pod(1).len());
        let objects: Vec<_> = (0..2 * SAMPLES).map(|number| read(&mut both, &pod(number))).collect();
        let packed = objects.iter().filter(|object| object.entry().body.is_packed()).count();
        assert!((2 * SAMPLES - 11..2 * SAMPLES - 5).contains(&packed), "{packed}");
        for (number, object) in objects.iter().enumerate() {
            assert_eq!(object.bytes(), pod(number));
            assert_eq!(object.get().unwrap().name(), format!("pod-{number}"));
            let image: Option<Vec<serde_json::Value>> = object.at(&["spec", "containers"]).unwrap();
            assert_eq!(image.unwrap()[7]["image"], format!("registry.example/app:{number}"));
            let image = object.view(|pod| {
                let containers = pod.get::<View<'_>>("spec").get::<List<'_, View<'_>>>("containers");
                containers.get(7).map(|container| container.get::<String>("image"))
            });
            assert_eq!(image.unwrap().unwrap(), format!("registry.example/app:{number}"));
        }
    }

    #[test]
    fn when_a_list_is_complete_few_objects_are_compressed_too() {
        let mut both = within(0);
        let objects: Vec<_> = (0..20).map(|number| read(&mut both, &pod(number))).collect();
        assert!(objects.iter().all(|object| !object.entry().body.is_packed()));
        both.1.settle(&objects);
        assert!(objects.iter().all(|object| object.entry().body.is_packed()));
        assert_eq!(objects[7].bytes(), pod(7));
    }

    #[test]
    fn early_dictionary_is_replaced_by_a_complete_one() {
        let other = |number: usize| {
            pod(number)
                .replace("registry.example", "elsewhere.example/a/long/and/other/path")
                .replace("container-", "another-thing-")
        };
        let mut both = within(0);
        let texts: Vec<_> =
            (0..6 * SAMPLES).map(|number| if number <= SAMPLES { pod(number) } else { other(number) }).collect();
        let objects: Vec<_> = texts.iter().map(|text| read(&mut both, text)).collect();
        let first = Arc::clone(both.1.packer.as_ref().unwrap().dictionary());
        both.1.settle(&objects);
        assert!(!Arc::ptr_eq(&first, both.1.packer.as_ref().unwrap().dictionary()));
        for (text, object) in texts.iter().zip(&objects) {
            assert_eq!(object.bytes(), *text);
        }
    }
}
