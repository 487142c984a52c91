//! The requested types and names, parsed like kubectl's arguments.

use std::error::Error;

use windlass_api::{DynamicObject, ObjectExt as _, TypeMeta};
use windlass_client::{CachedDiscovery, DeferredRestMapper, DiscoveredResource, MappingError};

/// A resource and the requested objects.
#[derive(Debug)]
pub(super) struct Selection {
    pub(super) resource: DiscoveredResource,
    /// Empty for all objects.
    pub(super) names: Vec<Named>,
    /// `true` if other resources are requested as well.
    pub(super) among_others: bool,
}

/// A requested object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) name: String,
    /// The namespace, if it is specified with the object.
    pub(super) namespace: Option<String>,
}

impl From<&str> for Named {
    fn from(name: &str) -> Self {
        Self { name: name.to_owned(), namespace: None }
    }
}

/// Parses `TYPE[,TYPE] [NAME ...]` or `TYPE/NAME ...`. A type may be a category: `all`.
pub(super) async fn parse(arguments: &[String], discovery: &CachedDiscovery) -> Result<Vec<Selection>, Box<dyn Error>> {
    let mapper = DeferredRestMapper::new(discovery.clone());
    let mut selection: Vec<Selection> = Vec::new();
    let mut add = |resource: DiscoveredResource, names: Vec<Named>| match selection
        .iter_mut()
        .find(|known| known.resource.resource == resource.resource && !names.is_empty())
    {
        Some(known) => known.names.extend(names),
        None => selection.push(Selection { resource, names, among_others: false }),
    };
    if arguments.iter().any(|argument| argument.contains('/')) {
        for argument in arguments {
            match argument.split_once('/') {
                Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => {
                    add(find(&mapper, kind).await?, vec![name.into()]);
                }
                _ => return Err(format!("{argument:?} is not TYPE/NAME like the other arguments").into()),
            }
        }
    } else if let Some((types, names)) = arguments.split_first() {
        let names: Vec<Named> = names.iter().map(|name| name.as_str().into()).collect();
        for kind in types.split(',') {
            let category = category(&mapper, kind).await?;
            if category.is_empty() {
                add(find(&mapper, kind).await?, names.clone());
            }
            for resource in category {
                add(resource, names.clone());
            }
        }
    }
    Ok(together(selection))
}

/// Returns the resources of the objects in manifests, each in the version of its manifest.
pub(super) async fn of_manifests(
    objects: Vec<DynamicObject>,
    discovery: &CachedDiscovery,
) -> Result<Vec<Selection>, Box<dyn Error>> {
    let mapper = DeferredRestMapper::new(discovery.clone());
    let mut selection: Vec<Selection> = Vec::new();
    for object in objects {
        let kind = object.types.as_ref().map(TypeMeta::gvk).unwrap_or_default();
        let resource = mapper.mapping(&kind.group_kind(), &[&kind.version]).await?;
        let named = Named { name: object.name().to_owned(), namespace: object.namespace().map(str::to_owned) };
        match selection.iter_mut().find(|known| known.resource.resource == resource.resource) {
            Some(known) => known.names.push(named),
            None => selection.push(Selection { resource, names: vec![named], among_others: false }),
        }
    }
    Ok(together(selection))
}

fn together(mut selection: Vec<Selection>) -> Vec<Selection> {
    let among_others = selection.len() > 1;
    for selection in &mut selection {
        selection.among_others = among_others;
    }
    selection
}

async fn find(mapper: &DeferredRestMapper, text: &str) -> Result<DiscoveredResource, Box<dyn Error>> {
    match mapper.resolve(text).await {
        Err(MappingError::NoResource(_)) => Err(format!("the server has no resource type {text:?}").into()),
        found => Ok(found?),
    }
}

async fn category(mapper: &DeferredRestMapper, name: &str) -> Result<Vec<DiscoveredResource>, Box<dyn Error>> {
    let mapper = mapper.mapper().await?;
    Ok(mapper.category(name).into_iter().filter(|resource| resource.supports("list")).cloned().collect())
}

/// Returns the prefix of names: `pod`, `deployment.apps`.
pub(super) fn kind_name(resource: &DiscoveredResource) -> String {
    resource.resource.gvk().group_kind().to_string().to_lowercase()
}
