//! A writer with a fixed rate, on a thread of its own.

use std::{thread, time::Duration};

use serde_json::json;
use tokio::time::Instant;
use windlass_api::BoxError;

use super::{NAME, deliveries::Schedule};
use crate::{
    load::{Address, Frames, LARGE_READ, Outcome, REQUEST, Request, ResponseParser, TlsConnection, greeting},
    objects::JSON,
};

/// The connection of the writer.
pub(super) struct Writer {
    connection: TlsConnection,
    frames: Frames,
}

/// All writes.
#[derive(Debug)]
pub(super) struct Written {
    /// The time of each response after the scheduled time of its write.
    pub(super) responses: Vec<Duration>,
}

impl Writer {
    /// Connects. `path` is that of the written object.
    pub(super) fn open(address: &Address, path: &str) -> Result<Self, BoxError> {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": {"sequence": REQUEST},
        });
        let body = serde_json::to_vec(&object)?;
        let frames = address.frames(&Request { method: "PUT", path, content_type: JSON, body: &body })?;
        Ok(Self { connection: address.connect(LARGE_READ, &greeting())?, frames })
    }

    /// Writes one after the other, each at its time or as soon as the one before has its response.
    pub(super) fn run(mut self, schedule: Schedule) -> Result<Written, BoxError> {
        let mut written = Written { responses: Vec::with_capacity(schedule.writes as usize) };
        let (mut out, mut outcome, mut parser) = (Vec::new(), Outcome::default(), ResponseParser::new());
        for write in 1..=schedule.writes {
            #[expect(clippy::disallowed_methods, reason = "time itself is the subject, and the thread has no runtime")]
            thread::sleep(schedule.time(write).saturating_duration_since(Instant::now()));
            out.append(&mut outcome.reply);
            self.frames.write(2 * write - 1, 0, write as usize, &mut out);
            self.connection.send(&out)?;
            out.clear();
            while outcome.ended == 0 {
                self.connection.read(&mut |bytes| parser.take(bytes, &mut outcome))?;
            }
            outcome.ended = 0;
            written.responses.push(schedule.time(write).elapsed());
        }
        Ok(written)
    }
}
