//! The metadata of lists.

use serde::{Deserialize, Serialize};

use crate::ResourceVersion;

/// The metadata of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListMeta {
    /// The resource version of the list, from which a watch can start.
    pub resource_version: ResourceVersion,
    /// The continue token of the next page; `None` on the last page.
    #[serde(rename = "continue", deserialize_with = "non_empty", skip_serializing_if = "Option::is_none")]
    pub continue_token: Option<String>,
    /// The number of objects after this page, if the server counts them.
    #[serde(rename = "remainingItemCount", skip_serializing_if = "Option::is_none")]
    pub remaining: Option<i64>,
    /// The shard of the list. `None` for a complete list, as from servers without sharding.
    #[serde(rename = "shardInfo", skip_serializing_if = "Option::is_none")]
    pub shard: Option<Box<ShardInfo>>,
}

/// Marks a list as one shard of a larger list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardInfo {
    /// The selector of the request: see [`ListOptions::shard`](crate::ListOptions::shard).
    #[serde(default)]
    pub selector: String,
}

fn non_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.filter(|token| !token.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_continue_token_is_the_last_page() {
        let meta: ListMeta =
            serde_json::from_str(r#"{"resourceVersion":"5","continue":"","remainingItemCount":3}"#).unwrap();
        assert_eq!((meta.resource_version.as_u64(), meta.continue_token, meta.remaining), (Some(5), None, Some(3)));
    }
}
