//! The body type of the layer's requests and responses.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::{Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use futures_util::{Stream, StreamExt as _, stream::BoxStream};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use pin_project_lite::pin_project;
use tower_chat_history::BoxError;

pin_project! {
    /// The body of a request to the inner service, and of a response to the caller. `B` is the original body.
    ///
    /// A body that passed through has the frames, the trailers and the size hint of the original.
    pub struct HistoryBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = KindProjected]
    enum Kind<B> {
        Passed { #[pin] body: B },
        Read { body: ReadBody<B> },
        Recorded { frames: Recorded },
    }
}

/// The frames of a recorded stream. The mutex makes the body `Sync`, as some HTTP clients require.
type Recorded = Mutex<BoxStream<'static, Result<Frame<Bytes>, BoxError>>>;

impl<B> HistoryBody<B> {
    /// Creates a body that is passed through.
    pub const fn passed(body: B) -> Self {
        Self { kind: Kind::Passed { body } }
    }

    /// Creates a body with these bytes and trailers.
    pub fn whole(bytes: Bytes, trailers: Option<HeaderMap>) -> Self {
        let data = Some(bytes).filter(|bytes| !bytes.is_empty()).map(Frame::data);
        let frames = data.into_iter().chain(trailers.map(Frame::trailers)).collect();
        Self::read(ReadBody { frames, rest: None })
    }

    pub(crate) const fn read(body: ReadBody<B>) -> Self {
        Self { kind: Kind::Read { body } }
    }

    pub(crate) fn recorded(frames: impl Stream<Item = Result<Frame<Bytes>, BoxError>> + Send + 'static) -> Self {
        Self { kind: Kind::Recorded { frames: Mutex::new(Box::pin(frames)) } }
    }

    /// Returns the original body if it was passed through.
    ///
    /// # Errors
    ///
    /// Returns this body otherwise.
    #[allow(clippy::result_large_err)] // The error is the value itself.
    pub fn into_passed(self) -> Result<B, Self> {
        match self.kind {
            Kind::Passed { body } => Ok(body),
            kind => Err(Self { kind }),
        }
    }
}

impl<B> Body for HistoryBody<B>
where
    B: Body<Error: Into<BoxError>>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.project().kind.project() {
            KindProjected::Passed { body } => poll_bytes(body, context),
            KindProjected::Read { body } => body.poll_frame(context),
            KindProjected::Recorded { frames } => {
                frames.get_mut().unwrap_or_else(PoisonError::into_inner).poll_next_unpin(context)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Passed { body } => body.is_end_stream(),
            Kind::Read { body } => body.is_end_stream(),
            Kind::Recorded { .. } => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Passed { body } => body.size_hint(),
            Kind::Read { body } => body.size_hint(),
            Kind::Recorded { .. } => SizeHint::default(),
        }
    }
}

impl<B> fmt::Debug for HistoryBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.kind {
            Kind::Passed { .. } => "Passed",
            Kind::Read { .. } => "Read",
            Kind::Recorded { .. } => "Recorded",
        };
        f.debug_tuple("HistoryBody").field(&kind).finish()
    }
}

/// Polls a frame, and converts its data to [`Bytes`].
fn poll_bytes<B>(body: Pin<&mut B>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>>
where
    B: Body<Error: Into<BoxError>>,
{
    let frame = ready!(body.poll_frame(context));
    let bytes = |mut data: B::Data| data.copy_to_bytes(data.remaining());
    Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(bytes)).map_err(Into::into)))
}

/// A body that was read in part: the frames that were read, and the rest.
pub(crate) struct ReadBody<B> {
    frames: VecDeque<Frame<Bytes>>,
    /// `None` after the end of the body.
    rest: Option<Pin<Box<B>>>,
}

impl<B> ReadBody<B>
where
    B: Body<Error: Into<BoxError>>,
{
    pub(crate) fn new(body: B) -> Self {
        Self { frames: VecDeque::new(), rest: Some(Box::pin(body)) }
    }

    /// Reads until `enough` returns `true` for the frames, the number of read bytes exceeds `limit`, or the body ends.
    /// Returns `false` if it exceeds the limit.
    pub(crate) async fn fill(
        &mut self,
        limit: usize,
        mut enough: impl FnMut(&Frame<Bytes>) -> bool,
    ) -> Result<bool, BoxError> {
        let mut bytes: usize = self.frames.iter().filter_map(Frame::data_ref).map(Bytes::len).sum();
        loop {
            if bytes > limit {
                return Ok(false);
            }
            let Some(rest) = &mut self.rest else { return Ok(true) };
            let Some(frame) = rest.frame().await.transpose().map_err(Into::into)? else {
                self.rest = None;
                return Ok(true);
            };
            let frame = frame.map_data(|mut data| data.copy_to_bytes(data.remaining()));
            bytes = bytes.saturating_add(frame.data_ref().map_or(0, Bytes::len));
            let is_enough = enough(&frame);
            self.frames.push_back(frame);
            if is_enough {
                return Ok(bytes <= limit);
            }
        }
    }

    /// Returns the bytes and the trailers that were read.
    pub(crate) fn into_whole(self) -> (Bytes, Option<HeaderMap>) {
        let (mut data, mut trailers) = (Vec::with_capacity(1), None);
        for frame in self.frames {
            match frame.into_data() {
                Ok(bytes) => data.push(bytes),
                Err(frame) => trailers = frame.into_trailers().ok().or(trailers),
            }
        }
        let bytes = if data.len() > 1 { data.concat().into() } else { data.pop().unwrap_or_default() };
        (bytes, trailers)
    }

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(frame) = self.frames.pop_front() {
            return Poll::Ready(Some(Ok(frame)));
        }
        match &mut self.rest {
            Some(rest) => poll_bytes(rest.as_mut(), context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty() && self.rest.as_ref().is_none_or(|rest| rest.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let read: u64 = self.frames.iter().filter_map(Frame::data_ref).map(|data| data.len() as u64).sum();
        let Some(rest) = self.rest.as_ref().map(|rest| rest.size_hint()) else { return SizeHint::with_exact(read) };
        let mut hint = SizeHint::new();
        hint.set_lower(read.saturating_add(rest.lower()));
        if let Some(upper) = rest.upper() {
            hint.set_upper(read.saturating_add(upper));
        }
        hint
    }
}
