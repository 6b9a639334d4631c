//! The values by which a closure can name the conversation of a call.

use tower_chat_history_core::ConversationId;

use crate::{
    call::{CallOptions, CallScope},
    error::{BoxError, MissingConversation},
};

/// A value that names the conversation of a call, or marks the call as stateless. Closures of
/// [`IdFrom`](super::IdFrom) return such a value.
///
/// It is a [`ConversationId`], alone or with [`CallOptions`], a [`CallScope`], or an `Option` or `Result` of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which conversation a call belongs to",
    note = "return a `ConversationId` (alone or with `CallOptions`), a `CallScope`, or an `Option` or a `Result` of one of them"
)]
pub trait IntoCallScope {
    /// Converts the value into a scope.
    ///
    /// # Errors
    ///
    /// Returns [`MissingConversation`] for `None`, and for an `Err` its error.
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
