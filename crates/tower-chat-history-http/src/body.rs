//! The body type of the layer's requests and responses.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::{Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use futures_util::Stream;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, StreamBody, combinators::UnsyncBoxBody};
use pin_project_lite::pin_project;
use tower_chat_history::BoxError;

/// The body of a request to the inner service, and of a response to the caller.
///
/// A body that passes through has the frames, the trailers and the size hint of the original. The type is `Send` and
/// `Sync`, as HTTP clients require, even if the original is not `Sync`. Its `Debug` output does not contain the body.
pub struct HistoryBody {
    /// The frames that were read ahead.
    read: VecDeque<Frame<Bytes>>,
    /// The frames after them. The mutex makes the type `Sync`.
    rest: Option<Mutex<UnsyncBoxBody<Bytes, BoxError>>>,
}

impl HistoryBody {
    /// Creates a body that passes another one through.
    pub fn new<B>(body: B) -> Self
    where
        B: Body<Error: Into<BoxError>> + Send + 'static,
    {
        Self { read: VecDeque::new(), rest: Some(Mutex::new(InBytes { body }.boxed_unsync())) }
    }

    /// Returns a clone of a body that is in memory, as that of every request with history is, and `None` for any other
    /// body. A layer for retries clones requests with it.
    #[must_use]
    pub fn try_clone(&self) -> Option<Self> {
        if self.rest.is_some() {
            return None;
        }
        let trailers = |frame: &Frame<Bytes>| frame.trailers_ref().cloned().map(Frame::trailers);
        let clone = |frame: &Frame<Bytes>| frame.data_ref().cloned().map(Frame::data).or_else(|| trailers(frame));
        Some(Self { read: self.read.iter().filter_map(clone).collect(), rest: None })
    }

    /// Creates a body with these bytes and trailers.
    pub(crate) fn whole(bytes: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self { read: data_frame(bytes).into_iter().chain(trailers.map(Frame::trailers)).collect(), rest: None }
    }

    /// Creates a body of these frames.
    pub(crate) fn of_frames(frames: impl Stream<Item = Result<Frame<Bytes>, BoxError>> + Send + 'static) -> Self {
        Self { read: VecDeque::new(), rest: Some(Mutex::new(StreamBody::new(frames).boxed_unsync())) }
    }

    /// Reads ahead until a frame is `enough`, more than `limit` bytes have been read, or the body ends. Returns `false`
    /// if more than `limit` bytes have been read.
    pub(crate) async fn read_ahead(
        &mut self,
        limit: usize,
        mut enough: impl FnMut(&Frame<Bytes>) -> bool,
    ) -> Result<bool, BoxError> {
        let mut bytes = self.bytes_read();
        while bytes <= limit {
            let Some(rest) = &mut self.rest else { return Ok(true) };
            let Some(frame) = get_mut(rest).frame().await.transpose()? else {
                self.rest = None;
                return Ok(true);
            };
            bytes = bytes.saturating_add(frame.data_ref().map_or(0, Bytes::len));
            let is_enough = enough(&frame);
            self.read.push_back(frame);
            if is_enough {
                break;
            }
        }
        Ok(bytes <= limit)
    }

    /// Joins the frames of data that were read ahead. Returns their bytes.
    pub(crate) fn join(&mut self) -> Bytes {
        let (data, others): (VecDeque<_>, VecDeque<_>) = self.read.drain(..).partition(Frame::is_data);
        let mut data: Vec<Bytes> = data.into_iter().filter_map(|frame| frame.into_data().ok()).collect();
        let bytes = if data.len() > 1 { data.concat().into() } else { data.pop().unwrap_or_default() };
        self.read = data_frame(bytes.clone()).into_iter().chain(others).collect();
        bytes
    }

    fn bytes_read(&self) -> usize {
        self.read.iter().filter_map(Frame::data_ref).map(Bytes::len).sum()
    }

    /// Calls a function with the frames that were not read ahead.
    fn with_rest<T>(&self, call: impl FnOnce(&UnsyncBoxBody<Bytes, BoxError>) -> T) -> Option<T> {
        self.rest.as_ref().map(|rest| call(&rest.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// Returns a frame of these bytes, or `None` if there are none.
fn data_frame(bytes: Bytes) -> Option<Frame<Bytes>> {
    Some(bytes).filter(|bytes| !bytes.is_empty()).map(Frame::data)
}

/// Returns the body in a mutex without locking it.
fn get_mut(body: &mut Mutex<UnsyncBoxBody<Bytes, BoxError>>) -> &mut UnsyncBoxBody<Bytes, BoxError> {
    body.get_mut().unwrap_or_else(PoisonError::into_inner)
}

impl Body for HistoryBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(frame) = self.read.pop_front() {
            return Poll::Ready(Some(Ok(frame)));
        }
        match &mut self.rest {
            Some(rest) => Pin::new(get_mut(rest)).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_empty() && self.with_rest(Body::is_end_stream).unwrap_or(true)
    }

    fn size_hint(&self) -> SizeHint {
        let read = self.bytes_read() as u64;
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
        let frame = ready!(self.project().body.poll_frame(context));
        let bytes = |mut data: B::Data| data.copy_to_bytes(data.remaining());
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(bytes)).map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
