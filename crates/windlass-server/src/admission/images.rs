//! The plugin `AlwaysPullImages`: each start of a container pulls its image, with the credentials of the pod.

use futures::future::BoxFuture;
use serde_json::Value;
use windlass_api::Status;

use crate::registry::{Admission, Attributes, Operation};
use crate::{
    object::{Errors, Path, Tree, as_object, items_mut},
    registry::Registry,
};

const ALWAYS: &str = "Always";
/// The lists of containers, in the order of kube-apiserver.
const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Sets and requires the pull policy `Always`.
#[derive(Debug)]
pub(crate) struct AlwaysPullImages;

impl Admission for AlwaysPullImages {
    fn handles(&self, write: &Attributes) -> bool {
        write.is_pod_write() && !is_update_without_new_images(write)
    }

    fn admit<'a>(&'a self, _: &'a Registry, write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        let Some(spec) = write.object.get_mut("spec") else { return Box::pin(std::future::ready(Ok(()))) };
        for list in LISTS {
            for container in items_mut(spec, list) {
                as_object(container).insert("imagePullPolicy".to_owned(), ALWAYS.into());
            }
        }
        for volume in items_mut(spec, "volumes") {
            if let Some(image) = volume.get_mut("image").filter(|image| image.is_object()) {
                as_object(image).insert("pullPolicy".to_owned(), ALWAYS.into());
            }
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn validate<'a>(&'a self, _: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        let mut errors = Errors::default();
        let spec = Path::new("spec");
        for list in LISTS {
            for (index, container) in write.object.items(&["spec", list]).iter().enumerate() {
                check(container, "imagePullPolicy", &spec.child(list).index(index), &mut errors);
            }
        }
        for (index, volume) in write.object.items(&["spec", "volumes"]).iter().enumerate() {
            if let Some(image) = volume.at(&["image"]) {
                check(image, "pullPolicy", &spec.child("volumes").index(index).child("image"), &mut errors);
            }
        }
        let problem = |cause: &windlass_api::Cause| write.forbidden(format!("{}: {}", cause.field, cause.message));
        let problems: Vec<Status> = errors.into_causes().iter().map(problem).collect();
        let result = match problems.as_slice() {
            [] => Ok(()),
            // An aggregate of errors is no status.
            [only] => Err(Status::unclassified(only.message.clone())),
            several => {
                let texts: Vec<&str> = several.iter().map(|status| status.message.as_str()).collect();
                Err(Status::unclassified(format!("[{}]", texts.join(", "))))
            }
        };
        Box::pin(std::future::ready(result))
    }
}

fn check(owner: &Value, field: &str, path: &Path<'_>, errors: &mut Errors) {
    let policy = owner.text(&[field]);
    if policy != ALWAYS {
        errors.unsupported(&path.child(field), policy, &[ALWAYS]);
    }
}

fn is_update_without_new_images(write: &Attributes) -> bool {
    let Some(old) = write.old.as_ref().filter(|_| write.operation == Operation::Update) else { return false };
    let known: Vec<&str> = images(old).collect();
    images(&write.object).all(|image| known.contains(&image))
}

fn images(pod: &Value) -> impl Iterator<Item = &str> {
    LISTS.into_iter().flat_map(|list| pod.items(&["spec", list])).map(|container| container.text(&["image"]))
}
