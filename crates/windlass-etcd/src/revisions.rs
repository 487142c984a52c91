//! Accounting of a watch: the revisions of which all events were received.
//!
//! etcd sends the events of one revision in one response, or in consecutive fragments of one. The events of a revision
//! are kept until it is complete. So they are passed on together, and a watch that is resumed after the last complete
//! revision neither skips nor repeats events.

use windlass_server::storage::{Delivery, Revision, StorageEvent};

#[derive(Debug)]
pub(crate) struct Revisions {
    /// The last revision of which all events were passed on.
    complete: Revision,
    /// The events of a later revision that may not be complete.
    pending: Vec<StorageEvent>,
    /// The last revision that was received, which may not be complete. It can have no events, if their keys are ignored.
    received: Revision,
}

impl Revisions {
    pub(crate) fn after(complete: Revision) -> Self {
        Self { complete, pending: Vec::new(), received: complete }
    }

    pub(crate) fn complete(&self) -> Revision {
        self.complete
    }

    /// Accounts for an event. `None` stands for one that is ignored. Passes on the events of earlier revisions.
    pub(crate) fn event(&mut self, revision: Revision, event: Option<StorageEvent>, out: &mut impl FnMut(Delivery)) {
        if revision <= self.complete {
            // etcd does not send events from before the start of a watch.
            return;
        }
        if revision > self.received {
            self.flush(out);
            self.received = revision;
        }
        self.pending.extend(event);
    }

    /// Accounts for the end of a response, which completes its last revision unless more fragments follow.
    pub(crate) fn end_of_response(&mut self, is_fragment: bool, out: &mut impl FnMut(Delivery)) {
        if !is_fragment {
            self.flush(out);
        }
    }

    /// Accounts for a progress response.
    pub(crate) fn progress(&mut self, revision: Revision, out: &mut impl FnMut(Delivery)) {
        // etcd does not report progress in the middle of a response.
        if self.received > self.complete || revision <= self.complete {
            return;
        }
        (self.complete, self.received) = (revision, revision);
        out(Delivery::Progress(revision));
    }

    /// Forgets the incomplete revision, which a new stream repeats.
    pub(crate) fn restart(&mut self) {
        self.pending.clear();
        self.received = self.complete;
    }

    fn flush(&mut self, out: &mut impl FnMut(Delivery)) {
        if self.received == self.complete {
            return;
        }
        self.complete = self.received;
        if self.pending.is_empty() {
            return out(Delivery::Progress(self.complete));
        }
        let last = self.pending.len() - 1;
        for (number, event) in self.pending.drain(..).enumerate() {
            out(Delivery::Event { event, completes: number == last });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Received responses: `r5a r5b .` are two events of revision 5 and the end of a response, `+` is the end of a
    /// fragment, `p7` is progress, `x6` an ignored event, and `!` a lost connection.
    fn passed_on(received: &str) -> (String, u64) {
        let mut revisions = Revisions::after(Revision(4));
        let mut passed = Vec::new();
        for part in received.split(' ') {
            let mut out = |delivery: Delivery| {
                passed.push(match delivery {
                    Delivery::Event { event, completes } => {
                        format!("r{}{}{}", event.revision, event.key, if completes { "!" } else { "" })
                    }
                    Delivery::Progress(revision) => format!("p{revision}"),
                    other @ Delivery::Unreadable { .. } => panic!("unexpected {other:?}"),
                });
            };
            let number = |text: &str| Revision(text.trim_matches(char::is_alphabetic).parse().unwrap());
            match part.as_bytes()[0] {
                b'r' => {
                    let (revision, key) = (number(part), part.trim_start_matches(|c: char| c == 'r' || c.is_numeric()));
                    let event = StorageEvent { revision, key: key.into(), current: None, previous: None };
                    revisions.event(revision, Some(event), &mut out);
                }
                b'x' => revisions.event(number(part), None, &mut out),
                b'p' => revisions.progress(number(part), &mut out),
                b'.' => revisions.end_of_response(false, &mut out),
                b'+' => revisions.end_of_response(true, &mut out),
                _ => revisions.restart(),
            }
        }
        (passed.join(" "), revisions.complete().0)
    }

    #[test]
    fn revision_is_complete_with_the_end_of_its_response() {
        assert_eq!(passed_on("r5a r5b r6a ."), ("r5a r5b! r6a!".into(), 6));
        assert_eq!(passed_on("r5a . r6a . p9"), ("r5a! r6a! p9".into(), 9));
    }

    #[test]
    fn fragments_do_not_complete_their_last_revision() {
        assert_eq!(passed_on("r5a r6a +"), ("r5a!".into(), 5));
        assert_eq!(passed_on("r5a r6a + r6b . r7a ."), ("r5a! r6a r6b! r7a!".into(), 7));
        assert_eq!(passed_on("r5a + r6a ."), ("r5a! r6a!".into(), 6));
    }

    #[test]
    fn lost_connection_repeats_only_the_incomplete_revision() {
        assert_eq!(passed_on("r5a r6a + ! r6a r6b ."), ("r5a! r6a r6b!".into(), 6));
        assert_eq!(passed_on("r5a . ! r5a . r6a ."), ("r5a! r6a!".into(), 6));
    }

    #[test]
    fn progress_never_decreases_or_passes_pending_events() {
        assert_eq!(passed_on("p7 p6 p7"), ("p7".into(), 7));
        assert_eq!(passed_on("r5a + p9 r5b ."), ("r5a r5b!".into(), 5));
    }

    #[test]
    fn ignored_events_count_as_progress() {
        assert_eq!(passed_on("x5 ."), ("p5".into(), 5));
        assert_eq!(passed_on("x5 r5a . x6 r7a ."), ("r5a! p6 r7a!".into(), 7));
    }
}
