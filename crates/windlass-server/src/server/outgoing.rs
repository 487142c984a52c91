//! Response bodies on a socket, charged to the client's connection until they are sent. Large ones are sent in turns.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::{coalesced_body::CoalescedBody, pacing::Pacing};
use crate::{
    budget::{Account, Charge, HeldBytes, OverBudget},
    http::{Body, BodyError},
};

/// The maximum size of a frame in bytes. A client that opens its window by one byte makes the connection hold one
/// frame.
const PIECE: usize = 64 << 10;

/// The minimum size at which a frame of a streamed body, for example an event, is charged.
const CHARGED: usize = 4 << 10;

/// A response body whose bytes are charged to a connection: a complete body at once, a stream frame by frame.
#[derive(Debug)]
pub(super) struct Outgoing {
    body: CoalescedBody,
    account: Arc<Account>,
    /// The charge for the bytes that the body holds. A complete body passes it on with its bytes.
    charge: Option<Charge>,
    /// The charge for the bytes that the body holds until it has sent its first part, and their current number.
    initial: Option<(Charge, HeldBytes)>,
    is_whole: bool,
    /// The unsent bytes of the last frame. They are requested before a turn, so that no turn waits for them.
    rest: Bytes,
    pacing: Pacing,
}

impl Outgoing {
    /// Creates a charged body. Returns an error if the connection already holds too much.
    pub(super) fn new(body: Body, account: &Arc<Account>) -> Result<Self, OverBudget> {
        let charge = match body.held_bytes() {
            0 => None,
            held => Some(account.try_charge(held)?),
        };
        let initial = match body.initial() {
            None => None,
            Some(held) => Some((account.try_charge(held.get())?, held.clone())),
        };
        Ok(Self {
            initial,
            pacing: Pacing::new(account, body.class()),
            is_whole: body.length().is_some(),
            body: CoalescedBody::new(body),
            account: Arc::clone(account),
            charge,
            rest: Bytes::new(),
        })
    }

    /// Creates a body that is sent regardless of limits. For short bodies.
    pub(super) fn unbounded(body: Body, account: &Arc<Account>) -> Self {
        Self {
            pacing: Pacing::new(account, body.class()),
            charge: Some(account.charge(body.held_bytes())),
            initial: None,
            is_whole: body.length().is_some(),
            body: CoalescedBody::new(body),
            account: Arc::clone(account),
            rest: Bytes::new(),
        }
    }

    /// Releases the bytes that the body no longer holds.
    fn release(&mut self) {
        if let Some((charge, held)) = &mut self.initial {
            charge.shrink_to(held.get());
            self.initial.take_if(|(charge, _)| charge.is_empty());
        }
    }

    fn charged(&mut self, data: Bytes) -> Bytes {
        let charged = self.charge.as_mut().filter(|charge| !charge.is_empty());
        match charged.map(|charge| charge.split(if self.is_whole { usize::MAX } else { data.len() })) {
            // The body had been charged for these bytes. They are released as the client reads.
            Some(part) => part.on(data),
            None if data.len() >= CHARGED => self.account.charge(data.len()).on(data),
            None => data,
        }
    }
}

impl HttpBody for Outgoing {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.rest.is_empty() {
            let polled = Pin::new(&mut self.body).poll_frame(cx);
            self.release();
            let Poll::Ready(frame) = polled else {
                self.pacing.idle();
                return Poll::Pending;
            };
            match frame.transpose()?.map(Frame::into_data) {
                Some(Ok(frame)) => self.rest = self.charged(frame),
                // Responses have no trailers.
                _ => return Poll::Ready(None),
            }
        }
        ready!(self.pacing.poll_ready(cx));
        let length = self.rest.len().min(PIECE);
        let data = self.rest.split_to(length);
        let data = self.pacing.sent(data);
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // hyper requests the hint before the first frame.
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, StreamExt as _};
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::{
        budget::{Budget, Limits},
        turns::Class,
    };

    #[tokio::test(start_paused = true)]
    async fn large_responses_are_sent_in_turns_and_small_ones_at_once() {
        let budget = Budget::new(Limits::default());
        let account = budget.open();
        let mut turns = Vec::new();
        while let Some(turn) = Arc::clone(account.turns()).take(Class::Other).now_or_never() {
            turns.push(turn);
        }
        let sent = |body: &mut Outgoing| {
            let mut sent = 0;
            while let Some(Some(Ok(frame))) = body.frame().now_or_never() {
                sent += frame.into_data().unwrap().len();
            }
            sent
        };
        let mut small = Outgoing::new(Body::whole(vec![0; 2 * PIECE]), &account).unwrap();
        assert_eq!(sent(&mut small), 2 * PIECE);
        let mut large = Outgoing::new(Body::whole(vec![0; 10 * PIECE]), &budget.open()).unwrap();
        assert_eq!(sent(&mut large), 2 * PIECE);
        tokio::task::yield_now().await;
        assert_eq!(sent(&mut large), 0);
        turns.clear();
        assert_eq!(large.collect().await.unwrap().to_bytes().len(), 8 * PIECE);
    }

    #[tokio::test]
    async fn body_without_bytes_takes_no_turn() {
        let budget = Budget::new(Limits::default());
        let is_free = || Arc::clone(budget.open().turns()).take(Class::Other).now_or_never().is_some();
        let (sender, receiver) = futures::channel::mpsc::unbounded();
        let mut body = Outgoing::new(Body::frames(receiver), &budget.open()).unwrap();
        sender.unbounded_send(Bytes::from(vec![0; 2 * PIECE])).unwrap();
        for _ in 0..2 {
            assert!(body.frame().await.is_some());
        }
        let mut others = Vec::new();
        while let Some(turn) = Arc::clone(budget.open().turns()).take(Class::Other).now_or_never() {
            others.push(turn);
        }
        others.pop();
        for _ in 0..3 {
            assert!(body.frame().now_or_never().is_none());
            assert!(is_free());
            tokio::task::yield_now().await;
        }
        sender.unbounded_send(Bytes::from(vec![0; PIECE])).unwrap();
        let _sending = body.frame().await.unwrap().unwrap();
        assert!(!is_free(), "it has one now");
    }

    #[tokio::test]
    async fn initial_bytes_are_released_while_the_body_is_read() {
        let account = Budget::new(Limits::default()).open();
        let held = HeldBytes::default();
        held.set(3 * PIECE);
        let states = [2 * PIECE, 0].into_iter();
        let frames = futures::stream::iter(states).map({
            let held = held.clone();
            move |bytes| {
                held.set(bytes);
                Bytes::from(vec![b'x'; 2 * CHARGED])
            }
        });
        let frames = frames.chain(futures::stream::pending());
        let mut body = Outgoing::new(Body::frames(frames).with_initial(Some(held)), &account).unwrap();
        assert_eq!(account.budget().held(), 3 * PIECE);
        // The second frame is read ahead, to be coalesced with the first one.
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(account.budget().held(), first.len());
        drop(first);
        assert!(body.frame().now_or_never().is_none());
        assert_eq!(account.budget().held(), 0, "a watch that goes on holds nothing");
    }

    #[tokio::test]
    async fn frames_of_a_body_are_charged_until_they_are_dropped() {
        let account = Budget::new(Limits { connection_bytes: 3 * PIECE, ..Limits::default() }).open();
        let pieces = vec![Bytes::from(vec![b'x'; PIECE]); 6];
        let mut body = Outgoing::new(Body::pieces(pieces), &account).unwrap();
        let refused = || Outgoing::new(Body::whole(vec![0; PIECE]), &account).is_err();
        let mut frames = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            frames.push(frame.into_data().unwrap());
            assert!(refused());
        }
        assert_eq!(frames.iter().map(Bytes::len).collect::<Vec<_>>(), [PIECE; 6]);
        frames.pop();
        assert!(!refused(), "a frame that the client has read is not charged");
    }

    #[tokio::test]
    async fn large_body_is_split_and_charged_until_all_parts_drop() {
        let account = Budget::new(Limits { connection_bytes: 3 * PIECE, ..Limits::default() }).open();
        let mut body = Outgoing::new(Body::whole(vec![b'x'; 3 * PIECE + 1]), &account).unwrap();
        assert_eq!(body.size_hint().exact(), Some(3 * PIECE as u64 + 1));
        let mut frames = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            frames.push(frame.into_data().unwrap());
        }
        assert_eq!(frames.iter().map(Bytes::len).collect::<Vec<_>>(), [PIECE, PIECE, PIECE, 1]);
        drop(body);
        let refused = |length| Outgoing::new(Body::whole(vec![0; length]), &account).is_err();
        assert!(refused(3 * PIECE));
        frames.truncate(1);
        assert!(refused(3 * PIECE), "all pieces share the bytes");
        frames.clear();
        assert!(!refused(3 * PIECE));
    }
}
