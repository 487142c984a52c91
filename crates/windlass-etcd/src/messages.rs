//! The part of etcd's API that this crate uses, as protobuf messages. Other fields are omitted or skipped.
//!
//! The numbers are those of `rpc.proto` and `kv.proto` in `go.etcd.io/etcd/api/v3`.

use bytes::Bytes;
use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResponseHeader {
    #[prost(int64, tag = "3")]
    pub(crate) revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(int64, tag = "2")]
    pub(crate) create_revision: i64,
    #[prost(int64, tag = "3")]
    pub(crate) mod_revision: i64,
    #[prost(int64, tag = "4")]
    pub(crate) version: i64,
    // Not `Bytes`, which would be a part of the whole message and keep it in memory.
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) limit: i64,
    #[prost(int64, tag = "4")]
    pub(crate) revision: i64,
    #[prost(bool, tag = "9")]
    pub(crate) count_only: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) kvs: Vec<KeyValue>,
    #[prost(int64, tag = "4")]
    pub(crate) count: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) value: Bytes,
    #[prost(int64, tag = "3")]
    pub(crate) lease: i64,
    #[prost(bool, tag = "4")]
    pub(crate) prev_kv: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutResponse {
    #[prost(message, optional, tag = "2")]
    pub(crate) prev_kv: Option<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bool, tag = "3")]
    pub(crate) prev_kv: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteRangeResponse {
    #[prost(message, repeated, tag = "3")]
    pub(crate) prev_kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RequestOp {
    #[prost(oneof = "Request", tags = "1, 2, 3")]
    pub(crate) request: Option<Request>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Request {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeRequest),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResponseOp {
    #[prost(oneof = "Response", tags = "1, 2, 3")]
    pub(crate) response: Option<Response>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Response {
    #[prost(message, tag = "1")]
    Range(RangeResponse),
    #[prost(message, tag = "2")]
    Put(PutResponse),
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeResponse),
}

/// A condition of a transaction. Its operator is always `EQUAL`, the default.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Compare {
    /// One of the targets below.
    #[prost(int32, tag = "2")]
    pub(crate) target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) key: Vec<u8>,
    #[prost(int64, optional, tag = "4")]
    pub(crate) version: Option<i64>,
    #[prost(int64, optional, tag = "6")]
    pub(crate) mod_revision: Option<i64>,
}

const TARGET_VERSION: i32 = 0;
const TARGET_MOD: i32 = 2;

impl Compare {
    /// The key was last modified at this revision. 0 for a missing key.
    pub(crate) fn at_revision(key: Vec<u8>, revision: i64) -> Self {
        Self { target: TARGET_MOD, key, mod_revision: Some(revision), version: None }
    }

    /// The key was put this many times since its creation. 0 for a missing key.
    pub(crate) fn at_version(key: Vec<u8>, version: i64) -> Self {
        Self { target: TARGET_VERSION, key, version: Some(version), mod_revision: None }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) failure: Vec<RequestOp>,
}

impl TxnRequest {
    /// One operation if the condition is true, otherwise a read of the key.
    pub(crate) fn one(condition: Compare, then: Request) -> Self {
        let read = RangeRequest { key: condition.key.clone(), ..RangeRequest::default() };
        let op = |request| vec![RequestOp { request: Some(request) }];
        Self { compare: vec![condition], success: op(then), failure: op(Request::Range(read)) }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(bool, tag = "2")]
    pub(crate) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(crate) responses: Vec<ResponseOp>,
}

impl TxnResponse {
    /// Returns the value of the key before the transaction.
    pub(crate) fn into_previous(self) -> Option<KeyValue> {
        match self.responses.into_iter().next()?.response? {
            Response::Range(range) => range.kvs.into_iter().next(),
            Response::Put(put) => put.prev_kv,
            Response::DeleteRange(deleted) => deleted.prev_kvs.into_iter().next(),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CompactionRequest {
    #[prost(int64, tag = "1")]
    pub(crate) revision: i64,
}

/// A response of which nothing is used.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Empty {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchRequest {
    #[prost(oneof = "WatchCommand", tags = "1, 3")]
    pub(crate) command: Option<WatchCommand>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum WatchCommand {
    #[prost(message, tag = "1")]
    Create(WatchCreateRequest),
    #[prost(message, tag = "3")]
    Progress(Empty),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchCreateRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) start_revision: i64,
    #[prost(bool, tag = "4")]
    pub(crate) progress_notify: bool,
    #[prost(bool, tag = "6")]
    pub(crate) prev_kv: bool,
    #[prost(bool, tag = "8")]
    pub(crate) fragment: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(bool, tag = "3")]
    pub(crate) created: bool,
    #[prost(bool, tag = "4")]
    pub(crate) canceled: bool,
    #[prost(int64, tag = "5")]
    pub(crate) compact_revision: i64,
    #[prost(string, tag = "6")]
    pub(crate) cancel_reason: String,
    #[prost(bool, tag = "7")]
    pub(crate) fragment: bool,
    #[prost(message, repeated, tag = "11")]
    pub(crate) events: Vec<Event>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Event {
    #[prost(int32, tag = "1")]
    pub(crate) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) kv: Option<KeyValue>,
    #[prost(message, optional, tag = "3")]
    pub(crate) prev_kv: Option<KeyValue>,
}

/// The `kind` of an event that deletes its key.
pub(crate) const DELETE: i32 = 1;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseGrantRequest {
    /// In seconds.
    #[prost(int64, tag = "1")]
    pub(crate) ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseGrantResponse {
    #[prost(int64, tag = "2")]
    pub(crate) id: i64,
    #[prost(string, tag = "4")]
    pub(crate) error: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusResponse {
    #[prost(string, tag = "2")]
    pub(crate) version: String,
    /// 0 if the member has none.
    #[prost(uint64, tag = "4")]
    pub(crate) leader: u64,
    #[prost(bool, tag = "10")]
    pub(crate) is_learner: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) password: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub(crate) token: String,
}

/// Returns the revision of a response's header.
pub(crate) fn revision_of(header: Option<&ResponseHeader>) -> u64 {
    header.map_or(0, |header| unsigned(header.revision))
}

/// Converts one of etcd's numbers, which are never negative.
pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

/// Converts a number to etcd's type.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transaction_has_etcds_encoding() {
        let put = PutRequest { key: b"k".into(), value: Bytes::from_static(b"v"), lease: 0, prev_kv: true };
        let absent = TxnRequest::one(Compare::at_revision(b"k".into(), 0), Request::Put(put));
        #[rustfmt::skip]
        let expected: [u8; 29] = [
            // compare: target MOD, key, mod_revision 0 (present, because it is in a oneof)
            0x0a, 7, 0x10, 2, 0x1a, 1, b'k', 0x30, 0,
            // success: request_put with key, value and prev_kv
            0x12, 10, 0x12, 8, 0x0a, 1, b'k', 0x12, 1, b'v', 0x20, 1,
            // failure: request_range with key
            0x1a, 6, 0x0a, 4, 0x0a, 2, b'k', b'2',
        ];
        // The last key is longer in the expected bytes, so that the lengths differ.
        let mut absent = absent;
        absent.failure =
            TxnRequest::one(Compare::at_version(b"k2".into(), 1), Request::Range(RangeRequest::default())).failure;
        assert_eq!(absent.encode_to_vec(), expected);
        assert_eq!(TxnRequest::decode(&expected[..]).unwrap(), absent);
    }

    #[test]
    fn watch_requests_have_etcds_encoding() {
        let create = WatchCreateRequest {
            key: b"a".into(),
            range_end: b"b".into(),
            start_revision: 300,
            progress_notify: true,
            prev_kv: true,
            fragment: true,
        };
        let request = WatchRequest { command: Some(WatchCommand::Create(create)) };
        let expected = [0x0a, 15, 0x0a, 1, b'a', 0x12, 1, b'b', 0x18, 0xac, 2, 0x20, 1, 0x30, 1, 0x40, 1];
        assert_eq!(request.encode_to_vec(), expected);
        let progress = WatchRequest { command: Some(WatchCommand::Progress(Empty {})) };
        assert_eq!(progress.encode_to_vec(), [0x1a, 0]);
    }

    #[test]
    fn unknown_fields_of_responses_are_skipped() {
        // header: cluster 1, member 2, revision 7, term 3; more; count 9
        let bytes = [0x0a, 8, 0x08, 1, 0x10, 2, 0x18, 7, 0x20, 3, 0x18, 1, 0x20, 9];
        let response = RangeResponse::decode(&bytes[..]).unwrap();
        assert_eq!((revision_of(response.header.as_ref()), response.count, response.kvs.len()), (7, 9, 0));
    }

    #[test]
    fn value_of_an_event_is_decoded_with_its_revisions() {
        // type DELETE; kv: key, mod_revision 5; prev_kv: key, create 2, mod 3, version 2, value
        let bytes = [
            0x08, 1, 0x12, 5, 0x0a, 1, b'k', 0x18, 5, 0x1a, 12, 0x0a, 1, b'k', 0x10, 2, 0x18, 3, 0x20, 2, 0x2a, 1, b'v',
        ];
        let event = Event::decode(&bytes[..]).unwrap();
        let previous = event.prev_kv.unwrap();
        assert_eq!((event.kind, event.kv.unwrap().mod_revision), (DELETE, 5));
        assert_eq!((previous.create_revision, previous.mod_revision, &*previous.value), (2, 3, &b"v"[..]));
    }
}
