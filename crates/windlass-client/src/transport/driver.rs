//! The drivers of HTTP/1.1 connections: the futures that read and write them.
//!
//! hyper hands the chunks of a response over one by one. With a task for each connection, every chunk needs two switches
//! between the tasks, and a watch has one or two chunks for each event. So the task that reads a body polls the driver
//! itself. At other times, the driver has its own task.
//!
//! A connection whose body is not polled is neither read nor written, so its end is noticed when the body is polled again
//! or dropped. The exception are connections that this client closes ([`Closing::All`](super::Closing::All)): the task
//! notices that.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, OnceLock, Weak},
    task::{Context, Poll, Waker, ready},
};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use hyper::{body::Incoming, rt::Executor};
use parking_lot::Mutex;
use tokio::sync::futures::OwnedNotified;

tokio::task_local! {
    /// The driver that is being polled.
    static CURRENT: Weak<Driver>;
}

/// Runs the futures of a pool, each in a task.
#[derive(Clone)]
pub(super) struct Drivers;

/// A future of a pool: the driver of a connection, or another one, which no socket refers to.
struct Driver {
    state: Mutex<State>,
    /// Set by the first read of the socket, while `state` is locked.
    cut: Mutex<Option<Cut>>,
}

struct State {
    /// `None` after its end.
    future: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// `true` while a body polls the future instead of the task.
    has_reader: bool,
    /// The task, once it has been polled.
    task: Option<Waker>,
}

/// Completes when a connection must end immediately.
pub(super) type Cut = Pin<Box<OwnedNotified>>;

/// A socket's reference to the driver that reads it.
#[derive(Clone, Default)]
pub(super) struct DriverSlot(Arc<OnceLock<Weak<Driver>>>);

/// The body of a response, which polls the driver of its connection.
pub(super) struct DrivingBody {
    body: Incoming,
    driver: Option<Reader>,
}

/// The reader of a driver, until it is dropped.
struct Reader(Arc<Driver>);

// === impl Drivers ===

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Drivers {
    fn execute(&self, future: F) {
        let state = State { future: Some(Box::pin(future)), has_reader: false, task: None };
        let driver = Arc::new(Driver { state: Mutex::new(state), cut: Mutex::default() });
        tokio::spawn(poll_fn(move |cx| driver.poll_in_task(cx)));
    }
}

// === impl Driver ===

impl Driver {
    fn poll_in_task(self: &Arc<Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        state.keep_task(cx);
        if state.has_reader && state.future.is_some() && self.poll_cut(cx).is_pending() {
            return Poll::Pending;
        }
        self.poll(&mut state, cx)
    }

    fn poll_cut(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.cut.lock().as_mut().map_or(Poll::Pending, |cut| cut.as_mut().poll(cx))
    }

    /// Polls the future for the reader of a body.
    fn poll_for_reader(self: &Arc<Self>, cx: &mut Context<'_>) {
        let mut state = self.state.lock();
        if !std::mem::replace(&mut state.has_reader, true)
            && let Some(task) = &state.task
        {
            // It must wait for `cut`, and no longer for the socket.
            task.wake_by_ref();
        }
        // The end of the connection is the task's, too.
        let _ = self.poll(&mut state, cx);
    }

    fn poll(self: &Arc<Self>, state: &mut State, cx: &mut Context<'_>) -> Poll<()> {
        let Some(future) = &mut state.future else { return Poll::Ready(()) };
        ready!(CURRENT.sync_scope(Arc::downgrade(self), || future.as_mut().poll(cx)));
        state.future = None;
        Poll::Ready(())
    }
}

// === impl State ===

impl State {
    fn keep_task(&mut self, cx: &Context<'_>) {
        match &mut self.task {
            Some(task) => task.clone_from(cx.waker()),
            None => self.task = Some(cx.waker().clone()),
        }
    }
}

// === impl DriverSlot ===

impl DriverSlot {
    /// On the first call, refers to the driver that is being polled, and gives it `cut`.
    pub(super) fn fill(&self, cut: &mut Option<Cut>) {
        if self.0.get().is_some() {
            return;
        }
        let _ = CURRENT.try_with(|driver| {
            if let Some(driver) = driver.upgrade() {
                *driver.cut.lock() = cut.take();
            }
            self.0.set(Weak::clone(driver))
        });
    }

    fn driver(&self) -> Option<Arc<Driver>> {
        self.0.get()?.upgrade()
    }
}

// === impl DrivingBody ===

impl DrivingBody {
    /// Returns the response with a body that polls the driver of its connection.
    pub(super) fn of(response: Response<Incoming>) -> Response<Self> {
        let (mut parts, body) = response.into_parts();
        let slot: Option<DriverSlot> = parts.extensions.remove();
        let driver = slot.and_then(|slot| slot.driver()).filter(|_| !body.is_end_stream()).map(Reader);
        Response::from_parts(parts, Self { body, driver })
    }
}

impl Body for DrivingBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        let mut frame = Pin::new(&mut this.body).poll_frame(cx);
        if frame.is_pending()
            && let Some(Reader(driver)) = &this.driver
        {
            driver.poll_for_reader(cx);
            frame = Pin::new(&mut this.body).poll_frame(cx);
        }
        // After the last frame of a known length, the connection can carry other requests, and nobody may poll this body.
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) || this.body.is_end_stream() {
            this.driver = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

// === impl Reader ===

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if std::mem::take(&mut state.has_reader)
            && let Some(task) = &state.task
        {
            task.wake_by_ref();
        }
    }
}
