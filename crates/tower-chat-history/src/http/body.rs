//! The body type of the layer's requests and responses, the limits of bodies, and the thread on which large ones are
//! read.

use std::{
    fmt,
    future::ready as value,
    mem,
    panic::resume_unwind,
    pin::Pin,
    sync::{Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes, BytesMut};
use futures_util::{Stream, stream};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, StreamBody, combinators::UnsyncBoxBody};
use pin_project_lite::pin_project;
use tokio::runtime::Handle;

use crate::error::BoxError;

/// The body of a request to the inner service, and of a response to the caller.
///
/// A body that passes through has the frames, the trailers and the size hint of the original. The type is `Send` and
/// `Sync`, as HTTP clients require, even if the original is not `Sync`. Its `Debug` output does not contain the body.
pub struct HistoryBody {
    /// The bytes that were read ahead. They are one buffer, because frames may be small.
    read: Bytes,
    /// The frames after them. The mutex makes the type `Sync`.
    rest: Option<Mutex<UnsyncBoxBody<Bytes, BoxError>>>,
    /// The trailers, if they were read ahead. There is then no rest.
    trailers: Option<HeaderMap>,
}

impl HistoryBody {
    /// Creates a body that passes another one through.
    pub fn new<B>(body: B) -> Self
    where
        B: Body<Error: Into<BoxError>> + Send + 'static,
    {
        let rest = Some(Mutex::new(InBytes { body }.boxed_unsync()));
        Self { read: Bytes::new(), rest, trailers: None }
    }

    /// Creates a body with these bytes and trailers.
    pub(crate) const fn whole(bytes: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self { read: bytes, rest: None, trailers }
    }

    /// Creates a body of these frames.
    pub(crate) fn of_frames(frames: impl Stream<Item = Result<Frame<Bytes>, BoxError>> + Send + 'static) -> Self {
        let rest = Some(Mutex::new(StreamBody::new(frames).boxed_unsync()));
        Self { read: Bytes::new(), rest, trailers: None }
    }

    /// Returns a clone of a body that is in memory, as that of every request with history is, and `None` for any other
    /// body. A layer for retries clones requests with it.
    #[must_use]
    pub fn try_clone(&self) -> Option<Self> {
        let Self { read, rest, trailers } = self;
        rest.is_none().then(|| Self { read: read.clone(), rest: None, trailers: trailers.clone() })
    }

    /// Reads ahead until a frame's data is `enough`, more than `limit` bytes have been read, or the body ends. Returns
    /// `false` if more than `limit` bytes have been read. If the future is dropped, the body keeps what was read.
    pub(crate) async fn read_ahead(
        &mut self,
        limit: usize,
        mut enough: impl FnMut(&[u8]) -> bool,
    ) -> Result<bool, BoxError> {
        let mut ahead = Ahead { read: BytesMut::from(mem::take(&mut self.read)), body: self };
        let Ahead { body, read } = &mut ahead;
        while let Some(rest) = &mut body.rest
            && read.len() <= limit
        {
            let Some(frame) = get_mut(rest).frame().await.transpose()? else {
                body.rest = None;
                break;
            };
            match frame.into_data() {
                Ok(data) => {
                    let is_enough = enough(&data);
                    // A single frame is not copied.
                    if read.is_empty() {
                        *read = BytesMut::from(data);
                    } else {
                        read.extend_from_slice(&data);
                    }
                    if is_enough {
                        break;
                    }
                }
                Err(frame) => {
                    body.trailers = frame.into_trailers().ok();
                    body.rest = None;
                }
            }
        }
        Ok(read.len() <= limit)
    }

    /// Reads the next frame ahead. An error of the body stays in it, after the bytes before it.
    pub(crate) async fn read_more(&mut self) {
        if let Err(error) = self.read_ahead(usize::MAX, |_| true).await {
            self.rest = Self::of_frames(stream::once(value(Err(error)))).rest;
        }
    }

    /// Reads ahead until the body ends or more than `limit` bytes have been read. Returns `true` if it ends before
    /// that. An error of the body stays in it, after the bytes before it.
    pub(crate) async fn peek(&mut self, limit: usize) -> bool {
        let Err(error) = self.read_ahead(limit, |_| false).await else { return self.rest.is_none() };
        self.rest = Self::of_frames(stream::once(value(Err(error)))).rest;
        false
    }

    /// Returns `true` if not all frames have been read ahead.
    pub(crate) const fn has_more(&self) -> bool {
        self.rest.is_some()
    }

    /// Returns the bytes that were read ahead.
    pub(crate) const fn read(&self) -> &Bytes {
        &self.read
    }

    /// Returns the bytes and the trailers that were read ahead.
    pub(crate) fn into_read(self) -> (Bytes, Option<HeaderMap>) {
        (self.read, self.trailers)
    }

    /// Calls a function with the frames that were not read ahead.
    fn with_rest<T>(&self, call: impl FnOnce(&UnsyncBoxBody<Bytes, BoxError>) -> T) -> Option<T> {
        self.rest.as_ref().map(|rest| call(&rest.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// A body while it is read ahead. The bytes return to it even if the read is given up.
struct Ahead<'b> {
    body: &'b mut HistoryBody,
    read: BytesMut,
}

impl Drop for Ahead<'_> {
    fn drop(&mut self) {
        self.body.read = mem::take(&mut self.read).freeze();
    }
}

/// Returns the body in a mutex without locking it.
fn get_mut(body: &mut Mutex<UnsyncBoxBody<Bytes, BoxError>>) -> &mut UnsyncBoxBody<Bytes, BoxError> {
    body.get_mut().unwrap_or_else(PoisonError::into_inner)
}

impl Body for HistoryBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if !self.read.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(mem::take(&mut self.read)))));
        }
        match &mut self.rest {
            Some(rest) => Pin::new(get_mut(rest)).poll_frame(context),
            None => Poll::Ready(self.trailers.take().map(Frame::trailers).map(Ok)),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_empty() && self.trailers.is_none() && self.with_rest(Body::is_end_stream).unwrap_or(true)
    }

    fn size_hint(&self) -> SizeHint {
        let read = self.read.len() as u64;
        let rest = self.with_rest(Body::size_hint).unwrap_or_else(|| SizeHint::with_exact(0));
        let mut hint = SizeHint::new();
        hint.set_lower(read.saturating_add(rest.lower()));
        if let Some(upper) = rest.upper() {
            hint.set_upper(read.saturating_add(upper));
        }
        hint
    }
}

impl fmt::Debug for HistoryBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HistoryBody").field("size_hint", &self.size_hint()).finish_non_exhaustive()
    }
}

pin_project! {
    /// A body with [`Bytes`] as its data, and boxed errors.
    struct InBytes<B> {
        #[pin]
        body: B,
    }
}

impl<B: Body<Error: Into<BoxError>>> Body for InBytes<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(frame) = ready!(self.project().body.poll_frame(context)) else { return Poll::Ready(None) };
        let frame = frame.map(|frame| frame.map_data(|mut data| data.copy_to_bytes(data.remaining())));
        Poll::Ready(Some(frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The largest sizes of bodies that the layer reads.
///
/// ```
/// use tower_chat_history::http::HttpLimits;
///
/// let limits = HttpLimits::new().request(8 << 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpLimits {
    /// The largest body of a request, in bytes. The default is 32 MiB.
    pub request: usize,
    /// The largest body of a whole response, in bytes. The default is 64 MiB.
    pub response: usize,
    /// The largest event and the largest line of a stream, in bytes. The default is 64 MiB.
    pub event: usize,
}

impl HttpLimits {
    /// Returns the defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self { request: 32 << 20, response: 64 << 20, event: 64 << 20 }
    }

    /// Sets the largest body of a request, in bytes. The default is 32 MiB. A larger request fails with
    /// [`CallError::TooLarge`](crate::http::CallError::TooLarge) before the store and the model are called.
    ///
    /// A body is read into memory. One with a million messages takes ten times its size or more, and seconds of a
    /// thread for blocking work. Other calls do not wait for that thread, but planning such a call also takes some
    /// tenths of a second of the runtime's thread. If the senders are not trusted, set a limit that fits the model: a
    /// window of 200,000 tokens has about 1 MB of text.
    #[must_use]
    pub const fn request(mut self, bytes: usize) -> Self {
        self.request = bytes;
        self
    }

    /// Sets the largest body of a whole response, in bytes. The default is 64 MiB. A larger response is passed on
    /// unchanged, and nothing is stored.
    #[must_use]
    pub const fn response(mut self, bytes: usize) -> Self {
        self.response = bytes;
        self
    }

    /// Sets the largest event and the largest line of a stream, in bytes. The default is 64 MiB. A stream with a larger
    /// one is passed on unchanged, and its reply counts as interrupted.
    #[must_use]
    pub const fn event(mut self, bytes: usize) -> Self {
        self.event = bytes;
        self
    }
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self::new()
    }
}

/// The size of a body from which it is read on a thread for blocking work. A smaller body takes at most a few tens of
/// milliseconds.
const LARGE: usize = 1 << 20;

/// Does the work of reading a body of this size: on this thread, or on a thread for blocking work if the body is large.
pub(crate) async fn blocking<T: Send + 'static>(size: usize, work: impl Fn() -> T + Clone + Send + 'static) -> T {
    // Without a runtime, the engine refuses the call afterwards.
    let Ok(runtime) = Handle::try_current() else { return work() };
    if size < LARGE {
        return work();
    }
    match runtime.spawn_blocking(work.clone()).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime is shutting down.
            Err(_) => work(),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn only_large_bodies_are_read_on_another_thread() {
        let here = thread::current().id();
        let is_here = move || thread::current().id() == here;
        assert!(blocking(LARGE - 1, is_here).await);
        assert!(!blocking(LARGE, is_here).await);
    }

    #[tokio::test]
    #[should_panic(expected = "a wire panics")]
    async fn a_panic_reaches_the_caller() {
        blocking(LARGE, || panic!("a wire panics")).await;
    }
}
