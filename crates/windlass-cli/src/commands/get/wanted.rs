//! What is asked for: types and names, as kubectl reads its arguments.

use std::error::Error;

use windlass_client::{CachedDiscovery, DeferredRestMapper, DiscoveredResource};

/// A type, and which of its objects.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) resource: DiscoveredResource,
    /// None for all.
    pub(super) names: Vec<String>,
    /// Whether other types are asked for, too.
    pub(super) among_others: bool,
}

/// Reads `TYPE[,TYPE] [NAME ...]` or `TYPE/NAME ...`. A type may be a category: `all`.
pub(super) async fn parse(arguments: &[String], discovery: &CachedDiscovery) -> Result<Vec<Wanted>, Box<dyn Error>> {
    let mapper = DeferredRestMapper::new(discovery.clone());
    let mut wanted: Vec<Wanted> = Vec::new();
    let mut add = |resource: DiscoveredResource, names: Vec<String>| match wanted
        .iter_mut()
        .find(|known| known.resource.resource == resource.resource && !names.is_empty())
    {
        Some(known) => known.names.extend(names),
        None => wanted.push(Wanted { resource, names, among_others: false }),
    };
    if arguments.iter().any(|argument| argument.contains('/')) {
        for argument in arguments {
            match argument.split_once('/') {
                Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => {
                    add(find(&mapper, kind).await?, vec![name.to_owned()]);
                }
                _ => return Err(format!("{argument:?} is not TYPE/NAME, as the other arguments are").into()),
            }
        }
    } else if let Some((types, names)) = arguments.split_first() {
        for kind in types.split(',') {
            let category = category(&mapper, kind).await?;
            if category.is_empty() {
                add(find(&mapper, kind).await?, names.to_vec());
            }
            for resource in category {
                add(resource, names.to_vec());
            }
        }
    }
    let among_others = wanted.len() > 1;
    for wanted in &mut wanted {
        wanted.among_others = among_others;
    }
    Ok(wanted)
}

async fn find(mapper: &DeferredRestMapper, text: &str) -> Result<DiscoveredResource, Box<dyn Error>> {
    match mapper.resolve(text).await {
        Err(windlass_client::MappingError::NoResource(_)) => {
            Err(format!("the server has no resource type {text:?}").into())
        }
        found => Ok(found?),
    }
}

async fn category(mapper: &DeferredRestMapper, name: &str) -> Result<Vec<DiscoveredResource>, Box<dyn Error>> {
    let mapper = mapper.mapper().await?;
    Ok(mapper.category(name).into_iter().filter(|resource| resource.supports("list")).cloned().collect())
}

/// What stands before names: `pod`, `deployment.apps`.
pub(super) fn kind_name(resource: &DiscoveredResource) -> String {
    resource.resource.gvk().group_kind().to_string().to_lowercase()
}
