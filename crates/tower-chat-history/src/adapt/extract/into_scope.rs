//! What an extractor finds.

use tower_chat_history_core::ConversationId;

use crate::{
    call::{CallOptions, CallScope},
    error::BoxError,
};

/// A call says neither which conversation it belongs to, nor that it is stateless.
///
/// Where calls belong to the conversation of the running task ([`in_conversation`](crate::in_conversation)), the most
/// probable cause is a `tokio::spawn` within it: a spawned task does not inherit the conversation. Enter it again in
/// the spawned future.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the call names no conversation: give it an id, make it within in_conversation (which a spawned task does not inherit), \
     or say that it is stateless"
)]
pub struct MissingConversation;

/// What says where a call belongs, as closures return it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say where a call belongs",
    note = "return a `ConversationId` (alone or with `CallOptions`), a `CallScope`, or an `Option` or a `Result` of one of them"
)]
pub trait IntoCallScope {
    /// Where the call belongs.
    ///
    /// # Errors
    ///
    /// [`MissingConversation`] when nothing was found, or the error that stands in place of it.
    fn into_call_scope(self) -> Result<CallScope, BoxError>;
}

impl IntoCallScope for CallScope {
    fn into_call_scope(self) -> Result<CallScope, BoxError> {
        Ok(self)
    }
}

impl IntoCallScope for (ConversationId, CallOptions) {
    fn into_call_scope(self) -> Result<CallScope, BoxError> {
        Ok(CallScope::Conversation(self.0, self.1))
    }
}

impl IntoCallScope for ConversationId {
    fn into_call_scope(self) -> Result<CallScope, BoxError> {
        Ok(self.into())
    }
}

impl<T: IntoCallScope> IntoCallScope for Option<T> {
    fn into_call_scope(self) -> Result<CallScope, BoxError> {
        self.ok_or(MissingConversation)?.into_call_scope()
    }
}

impl<T: IntoCallScope, E: Into<BoxError>> IntoCallScope for Result<T, E> {
    fn into_call_scope(self) -> Result<CallScope, BoxError> {
        self.map_err(Into::into)?.into_call_scope()
    }
}
