//! Reading responses.

use std::{borrow::Cow, error::Error, fmt, future::pending};

use futures_core::Stream;

use crate::{
    call::{FoldReply, Reply},
    discard::Kept,
    engine::{Turn, stream::RecordedStream},
    error::{BoxError, StreamStalled, Unsaved, error_type},
    policy::OnSaveFailure,
};

/// Finds the reply in responses of type `Res`. The layer does the rest: it stores the exchange, or records the stream.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not know how to remember responses of type `{Res}`",
    note = "the inner service's response decides between a unary reply and a stream"
)]
pub trait ReadResponse<Res> {
    /// What the caller gets.
    type Response;

    /// Hands on the response to a request that belongs to no conversation.
    fn pass(&self, response: Res) -> Self::Response;

    /// The name of a failed call in spans (`error.type`): a constant name, or a status code. Whatever it is, it must not be
    /// text that came from the provider: that may repeat the request.
    fn error_type(&self, error: &(dyn Error + 'static)) -> Cow<'static, str> {
        error_type(error)
    }

    /// Reads a response: [whole](Read::whole), or as a [stream](Read::stream). `choices` is how many choices the request
    /// [asked for](crate::TurnInput::choices).
    ///
    /// # Errors
    ///
    /// Any error: the call has failed, nothing is stored, and the caller gets the error.
    fn read(
        &self,
        response: Res,
        choices: usize,
    ) -> impl Future<Output = Result<Read<Self::Response>, BoxError>> + Send;
}

/// A response that was read: what the caller gets, and where the reply is. `Debug` shows no response.
pub struct Read<R>(Kind<R>);

enum Kind<R> {
    Whole { response: R, reply: Reply, unsaved: fn(Unsaved<Reply>, R) -> BoxError },
    Stream(Box<dyn FnOnce(Turn) -> R + Send>),
    Failed { response: R, error_type: Cow<'static, str> },
}

impl<R> Read<R> {
    /// A whole response with its reply. The caller gets it once the exchange is stored. If the save fails, the caller gets
    /// [`Unsaved`] with the response in it, by the default [policy](OnSaveFailure).
    pub fn whole(response: R, reply: Reply) -> Self
    where
        R: Send + Sync + 'static,
    {
        Self(Kind::Whole { response, reply, unsaved: |failed, response| failed.with_response(response).into() })
    }

    /// A stream whose items `fold` puts together. The caller gets the response that `wrap` makes of the recorded stream,
    /// through which all items pass untouched.
    ///
    /// `stalled` makes the last item of a stream that the [idle timeout](crate::HistoryOptions::stream_idle_timeout) ends
    /// before its reply is complete: without an error the stream would look as if it were.
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

    /// A response that tells of a failure, as HTTP services answer: the call has failed and nothing is stored, and the
    /// caller gets the response as it is. Spans name the failure as `error_type` does, see
    /// [`ReadResponse::error_type`].
    pub fn failed(response: R, error_type: impl Into<Cow<'static, str>>) -> Self {
        Self(Kind::Failed { response, error_type: error_type.into() })
    }

    /// Stores the exchange, or sees to it that it will be, and returns what the caller gets.
    pub(crate) async fn finish(self, turn: Turn) -> Result<R, BoxError>
    where
        R: 'static,
    {
        match self.0 {
            Kind::Whole { response, reply, unsaved } => {
                let policy = turn.on_save_failure();
                let mut response = Kept::new(response);
                let committed = turn.commit(reply).await;
                // It is there: nobody else takes it.
                let Some(response) = response.take() else { return pending().await };
                match committed {
                    Err(failed) if policy == OnSaveFailure::Fail => Err(unsaved(failed, response)),
                    Ok(_) | Err(_) => Ok(response),
                }
            }
            Kind::Stream(record) => Ok(record(turn)),
            Kind::Failed { response, error_type } => {
                turn.fail(&error_type);
                Ok(response)
            }
        }
    }
}

// By hand: most response types show their text.
impl<R> fmt::Debug for Read<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.0 {
            Kind::Whole { .. } => "Whole",
            Kind::Stream(_) => "Stream",
            Kind::Failed { .. } => "Failed",
        };
        f.debug_tuple("Read").field(&kind).finish()
    }
}
