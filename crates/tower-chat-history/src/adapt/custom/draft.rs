//! Opening and completing the requests of a [`Custom`] adapter.

use std::{any::Any, fmt, mem, ops::Range};

use serde_json::Value;
use tower_chat_history_core::nested;

use super::{Custom, Shape};
use crate::{
    adapt::{
        AdaptRequest, Completed, Draft, JsonRequestError, Opened, Prompt,
        extract::{CallScope, ExtractScope},
    },
    call::TurnInput,
    error::BoxError,
};

impl<R, S, P, X> AdaptRequest<X::Call> for Custom<R, S, P, X>
where
    R: Send + 'static,
    S: Shape<R, Request: Send> + Clone + Send + Sync,
    P: Sync,
    X: ExtractScope<R, Call: Send> + Sync,
{
    type Request = S::Request;
    type Draft = CustomDraft<R, S>;

    async fn open(&self, call: X::Call) -> Result<Opened<CustomDraft<R, S>, S::Request>, BoxError> {
        let (scope, mut request) = self.extract.extract(call)?;
        let CallScope::Conversation(id, options) = scope else {
            return Ok(Opened::PassThrough(self.shape.fill(request, 0..0, &[])?.request));
        };
        let any: &mut dyn Any = &mut request;
        if let Some(value) = any.downcast_mut::<Value>()
            && nested::is_too_deep(value)
        {
            nested::dismantle(mem::take(value));
            return Err(JsonRequestError::TooDeep.into());
        }
        let split = self.shape.split(&mut request, options.few_shot_messages)?;
        let resent = split.transcript_range();
        let mut turn = TurnInput::new(id, split.input).transcript(split.transcript).options(options);
        turn.request = self.info.as_ref().map(|info| info(&request)).unwrap_or_default();
        turn.request.head.extend(split.head);
        turn.request.max_output_is_fixed = true;
        Ok(Opened::Turn(turn, CustomDraft { request, resent, shape: self.shape.clone() }))
    }
}

/// A request of a program's own type that waits for its history.
#[doc(hidden)]
pub struct CustomDraft<R, S> {
    request: R,
    /// The range of the request's messages that the window replaces, if one field has all messages.
    resent: Range<usize>,
    shape: S,
}

impl<R, S: Shape<R>> Draft for CustomDraft<R, S> {
    type Request = S::Request;

    fn complete(self, prompt: Prompt<'_>) -> Result<Completed<S::Request>, BoxError> {
        self.shape.fill(self.request, self.resent, prompt.window)
    }
}

impl<R, S> fmt::Debug for CustomDraft<R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomDraft").finish_non_exhaustive()
    }
}
