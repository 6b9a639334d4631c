//! Reading replies from responses.
//!
//! # Decisions
//!
//! - **An adapter is a value**, and the type of the response selects its implementation. One request type can serve
//!   several providers, and a program can't implement a foreign trait for a foreign type.

use std::{borrow::Cow, error::Error, fmt, pin::Pin, time::Duration};

use futures_core::Stream;
use futures_util::stream::Peekable;
use tower_chat_history_core::Dialect;

use crate::{
    call::{FoldReply, ReadBy, Reply},
    engine::{Turn, stream::RecordedStream},
    error::{BoxError, StreamStalled, Unsaved, error_type},
    policy::OnSaveFailure,
    refusal::Remedy,
    timeout::timeout,
};

/// Finds the reply in responses of type `Res`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot read responses of type `{Res}`",
    note = "the adapter must implement `ReadResponse` for the inner service's response type, unary or stream"
)]
pub trait ReadResponse<Res> {
    /// The response type that the caller gets.
    type Response;

    /// Converts the response of a stateless call. No reply is read from it.
    fn pass(&self, response: Res) -> Self::Response;

    /// Returns the name of an error of a failed call, for spans (`error.type`): a constant name, or a status code. It
    /// must not contain text from the provider, because that text may repeat the request.
    fn error_type(&self, error: &(dyn Error + 'static)) -> Cow<'static, str> {
        error_type(error)
    }

    /// Returns the remedy with which a call that failed with this error can succeed. The default is `None`.
    fn remedy(&self, error: &(dyn Error + 'static)) -> Option<Remedy> {
        let _ = error;
        None
    }

    /// Reads a response, either [completely](Reading::whole) or as a [stream](Reading::stream). `call` has the facts
    /// about the call by which it is read.
    ///
    /// # Errors
    ///
    /// Returns any error. The call then fails with this error, and nothing is stored.
    fn read(
        &self,
        response: Res,
        call: CallFacts,
    ) -> impl Future<Output = Result<Reading<Self::Response>, BoxError>> + Send;
}

/// The facts about a call by which its response is read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CallFacts {
    /// The number of choices that the request [specifies](crate::TurnInput::choices).
    pub choices: usize,
    /// The dialect of the call.
    pub dialect: &'static dyn Dialect,
    /// The value that the adapter [set](crate::TurnInput::read_by) when it read the request.
    pub read_by: ReadBy,
    /// The [idle timeout](crate::HistoryOptions::stream_idle_timeout), for adapters that [wait](within) for a part of the
    /// response. The layer applies it to [streams](Reading::stream) itself.
    pub idle_timeout: Option<Duration>,
    /// True if the call can be repeated with a [`Remedy`]. If it cannot, there is no need to look for one.
    pub is_repeatable: bool,
}

impl CallFacts {
    /// Returns the facts about the call of a turn.
    #[must_use]
    pub fn of(turn: &Turn) -> Self {
        let (choices, dialect, read_by) = (turn.choices(), turn.dialect(), turn.read_by().clone());
        let idle_timeout = turn.idle_timeout();
        Self { choices, dialect, read_by, idle_timeout, is_repeatable: false }
    }

    /// Sets whether the call can be repeated with a [`Remedy`]. The default is `false`.
    #[must_use]
    pub fn repeatable(mut self, is_repeatable: bool) -> Self {
        self.is_repeatable = is_repeatable;
        self
    }
}

/// Returns the output of a future, or an error if it takes longer than `limit`. Without a limit, the time is not
/// limited.
///
/// # Errors
///
/// Returns an error if the future takes longer.
pub async fn within<F: Future>(limit: Option<Duration>, future: F) -> Result<F::Output, StreamStalled> {
    timeout(limit, future).await.map_err(|after| StreamStalled { after })
}

/// The longest time for which the beginning of a stream is held back, to see if it's a refusal.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns the first item of a stream, which may be a refusal. The item stays in the stream. Returns `None` if the
/// stream is empty, or if the item doesn't come within a second. Adapters use it if the call
/// [can be repeated](CallFacts::is_repeatable).
pub async fn first_item<S: Stream + Unpin>(stream: &mut Peekable<S>) -> Option<&S::Item> {
    within(Some(HEAD_TIMEOUT), Pin::new(stream).peek()).await.ok().flatten()
}

/// A response that was read: the response for the caller, and its reply. Its `Debug` output does not contain
/// the response.
pub struct Reading<R>(Kind<R>);

enum Kind<R> {
    Whole { response: R, reply: Reply, unsaved: fn(Unsaved<Reply>, R) -> BoxError },
    Stream(Box<dyn FnOnce(Turn) -> R + Send>),
    Failed { response: R, error_type: Cow<'static, str>, remedy: Option<Remedy> },
}

impl<R> Reading<R> {
    /// Creates the result for a complete response. The caller receives the response after the exchange is stored. If
    /// the save fails, the default [policy](OnSaveFailure) returns [`Unsaved`], which contains the response.
    pub fn whole(response: R, reply: Reply) -> Self
    where
        R: Send + Sync + 'static,
    {
        Self(Kind::Whole { response, reply, unsaved: |failed, response| failed.with_response(response).into() })
    }

    /// Creates the result for a stream, whose items `fold` combines into the reply. The caller receives the response
    /// that `wrap` makes of the recorded stream. The recorded stream yields all items unchanged.
    ///
    /// If the [idle timeout](crate::HistoryOptions::stream_idle_timeout) ends the stream before its reply is
    /// complete, `stalled` makes the error that the stream yields as its last item. Without this error, the stream
    /// would appear to be complete.
    pub fn stream<T, E>(
        stream: impl Stream<Item = Result<T, E>> + Send + 'static,
        fold: impl FoldReply<T>,
        stalled: impl FnOnce(StreamStalled) -> E + Send + 'static,
        wrap: impl FnOnce(RecordedStream<T, E>) -> R + Send + 'static,
    ) -> Self
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        Self(Kind::Stream(Box::new(move |turn| wrap(turn.record_stream(stream, fold, stalled)))))
    }

    /// Creates the result for a response that reports a failure, such as an HTTP response with an error status.
    /// Nothing is stored, and the caller receives the response unchanged. Spans show `error_type`, which must follow
    /// the rules of [`ReadResponse::error_type`].
    pub fn failed(response: R, error_type: impl Into<Cow<'static, str>>) -> Self {
        Self(Kind::Failed { response, error_type: error_type.into(), remedy: None })
    }

    /// Sets the remedy with which a [failed](Self::failed) call can succeed. If the call
    /// [can be repeated](CallFacts::is_repeatable), the layer plans its turn again, makes another request of
    /// [`Draft::again`](super::Draft::again), and calls the inner service once more, at most twice in a turn. If no
    /// remedy helps, the last response is returned. The default is `None`. For other results, there is no remedy.
    #[must_use]
    pub fn with_remedy(mut self, by: Option<Remedy>) -> Self {
        if let Kind::Failed { remedy, .. } = &mut self.0 {
            *remedy = by;
        }
        self
    }

    /// Returns the remedy for a failed call, and the type of its error.
    pub(crate) fn remedy(&self) -> Option<(Remedy, Cow<'static, str>)> {
        match &self.0 {
            Kind::Failed { error_type, remedy: Some(remedy), .. } => Some((remedy.clone(), error_type.clone())),
            Kind::Failed { .. } | Kind::Whole { .. } | Kind::Stream(_) => None,
        }
    }

    /// Converts the response. An adapter can so use what another adapter has read.
    #[must_use]
    pub fn map<T>(self, convert: impl FnOnce(R) -> T + Send + 'static) -> Reading<T>
    where
        R: 'static,
        T: Send + Sync + 'static,
    {
        Reading(match self.0 {
            Kind::Whole { response, reply, .. } => return Reading::whole(convert(response), reply),
            Kind::Stream(record) => Kind::Stream(Box::new(move |turn| convert(record(turn)))),
            Kind::Failed { response, error_type, remedy } => {
                Kind::Failed { response: convert(response), error_type, remedy }
            }
        })
    }

    /// Stores the exchange, or arranges that it is stored, and returns the response for the caller.
    pub(crate) async fn finish(self, turn: Turn) -> Result<R, BoxError> {
        match self.0 {
            Kind::Whole { response, reply, unsaved } => {
                let policy = turn.on_save_failure();
                match turn.commit(reply).await {
                    Err(failed) if policy == OnSaveFailure::Fail => Err(unsaved(failed, response)),
                    Ok(_) | Err(_) => Ok(response),
                }
            }
            Kind::Stream(record) => Ok(record(turn)),
            Kind::Failed { response, error_type, remedy: _ } => {
                turn.fail(&error_type);
                Ok(response)
            }
        }
    }
}

// Not derived, because most response types show their text.
impl<R> fmt::Debug for Reading<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.0 {
            Kind::Whole { .. } => "Whole",
            Kind::Stream(_) => "Stream",
            Kind::Failed { .. } => "Failed",
        };
        f.debug_tuple("Reading").field(&kind).finish()
    }
}
