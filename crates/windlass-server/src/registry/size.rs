//! The limit on the size of a stored object: the size of an etcd request.
//!
//! The size is that of the request that the real server would send to etcd, with built-in kinds in protobuf. It is only
//! computed for objects whose JSON, which is longer, may be too large.

use windlass_api::Status;

use crate::{
    codec::to_protobuf,
    encoded::Encoded,
    storage::{Expect, Revision},
};

/// The maximum size of a request that etcd applies, in bytes.
const MAX_REQUEST: usize = 3 << 19;
/// The maximum size of a message that the etcd client sends, in bytes.
const MAX_MESSAGE: usize = 2 << 20;
/// The maximum overhead that etcd adds to a transaction when it applies it: an id and the length.
const HEADER: usize = 16;
/// The maximum number of request bytes besides the JSON: three times the key, and lengths.
const MARGIN: usize = 4 << 10;

/// Rejects an object that is too large to be stored, with etcd's error message.
pub(super) fn check_size(key: &str, expect: Expect, encoded: &Encoded) -> Result<(), Status> {
    let json = encoded.len_hint();
    if json + MARGIN <= MAX_REQUEST {
        return Ok(());
    }
    let mut object = Vec::with_capacity(json);
    encoded.render(Revision(0), &mut object);
    let length = to_protobuf(&object).map_or(json, |bytes| bytes.len());
    let message = transaction(key.len(), expect, length);
    if message > MAX_MESSAGE {
        let sizes = format!("({message} vs. {MAX_MESSAGE})");
        let why = format!("rpc error: code = ResourceExhausted desc = trying to send message larger than max {sizes}");
        return Err(Status::unclassified(why));
    }
    if message + HEADER > MAX_REQUEST {
        return Err(Status::unclassified("etcdserver: request is too large"));
    }
    Ok(())
}

/// Returns the length of the transaction that puts a value: a comparison, the put, and a read if a value exists.
fn transaction(key: usize, expect: Expect, value: usize) -> usize {
    let (revision, read) = match expect {
        Expect::Absent => (0, 0),
        Expect::Unchanged(Revision(revision)) => (revision, field(field(field(key)))),
    };
    let comparison = 2 + field(key) + 1 + varint(revision);
    let put = field(key) + field(value);
    field(comparison) + field(field(put)) + read
}

/// Returns the length of a field with `length` bytes, including its tag and length prefix.
fn field(length: usize) -> usize {
    1 + varint(length as u64) + length
}

fn varint(mut number: u64) -> usize {
    let mut length = 1;
    while number >= 128 {
        number >>= 7;
        length += 1;
    }
    length
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::encoded::Style;

    #[test]
    fn transaction_size_equals_etcds() {
        // Recorded from the real server: a Deployment of 2,500,350 bytes at /registry/deployments/x/d, created and
        // updated.
        assert_eq!(transaction(25, Expect::Absent, 2_500_350), 2_500_425);
        assert_eq!(transaction(25, Expect::Unchanged(Revision(246)), 2_500_350), 2_500_457);
    }

    #[test]
    fn object_above_etcds_limit_is_rejected() {
        let check = |length: usize| {
            let object =
                json!({"kind": "Foo", "apiVersion": "a.io/v1", "metadata": {"name": "a"}, "x": "y".repeat(length)});
            check_size("/registry/a.io/foos/a", Expect::Absent, &Encoded::new(&object, Style::Custom))
                .map_err(|status| (status.code, status.message))
        };
        assert_eq!(check(1_572_000), Ok(()));
        assert_eq!(check(1_573_000), Err((500, "etcdserver: request is too large".into())));
        let (code, message) = check(2_100_000).unwrap_err();
        assert_eq!(code, 500);
        assert!(
            message.starts_with("rpc error: code = ResourceExhausted desc = trying to send message larger than max (")
        );
    }
}
