//! A turn that has begun, as its caller sees it: its prompt, its end without a save, and its repair.

use std::{fmt, time::Duration};

use tower_chat_history_core::{Dialect, Message};
use tracing::{Instrument as _, Span};

use super::Turn;
use crate::{
    call::{ReadBy, Reply},
    policy::OnSaveFailure,
    report::{NotStored, TurnOutcome},
    telemetry::fail,
};

impl Turn {
    /// Returns the messages to send after the head: the summary, if there is one, the window, the
    /// [recalled messages](crate::recall), if there are any, and the input. They obey the chat rules.
    #[must_use]
    pub fn context(&self) -> &[Message] {
        &self.0.context
    }

    /// Returns the messages to send between the head and the input: the summary, if there is one, the window, and the
    /// [recalled messages](crate::recall), if there are any.
    #[must_use]
    pub fn window(&self) -> &[Message] {
        &self.0.context[..self.0.window_len]
    }

    /// Returns the input messages of this call.
    #[must_use]
    pub fn input(&self) -> &[Message] {
        self.0.input()
    }

    /// Returns the value, in tokens, to which the request's own reply limit must be lowered. Otherwise prompt and
    /// reply would not fit the context window together. `None` means that the request needs no change.
    #[must_use]
    pub fn reply_limit(&self) -> Option<u32> {
        self.0.planned.tokens.and_then(|tokens| tokens.reply_limit)
    }

    /// Returns the provider that is [called](crate::HistoryOptions::origin), or, if it is not known, the one that made
    /// the newest reply of which the provider is recorded.
    #[must_use]
    pub fn provider(&self) -> Option<&str> {
        self.0.planned.provider.as_deref()
    }

    /// Returns the value by which the adapter reads the response.
    pub(crate) fn read_by(&self) -> &ReadBy {
        &self.0.call.read_by
    }

    /// Returns the idle timeout of streams.
    pub(crate) fn idle_timeout(&self) -> Option<Duration> {
        self.parts().options().stream_idle_timeout
    }

    /// Returns the number of choices that the request specifies.
    #[must_use]
    pub fn choices(&self) -> usize {
        self.0.call.choices
    }

    /// Returns the dialect of the call.
    #[must_use]
    pub fn dialect(&self) -> &'static dyn Dialect {
        self.0.call.dialect
    }

    /// Sets the number of the window's messages that the request's types could not represent without loss.
    pub fn note_downgraded(&mut self, messages: usize) {
        self.0.downgraded = messages;
    }

    /// Returns the turn's span, which ends with the turn. Code that uses the engine without the layer can do work for
    /// the turn in this span, so that traces show it as part of the turn.
    #[must_use]
    pub fn span(&self) -> &Span {
        &self.0.call.span
    }

    /// Ends the turn without storing anything. The report contains the reason.
    pub fn end(mut self, why: NotStored) {
        if let Some(call) = self.0.model_call.take() {
            call.ended_now(&Reply::default());
        }
        self.ended(TurnOutcome::NotStored(why));
    }

    /// Ends the turn after a failed model call. Nothing is stored, and the report has [`NotStored::CallFailed`]. In
    /// the spans of turn and model call, `error_type` is recorded as `error.type`: it must be a constant name or a
    /// status code.
    pub fn fail(mut self, error_type: &str) {
        if let Some(call) = self.0.model_call.take() {
            call.failed(error_type);
        }
        fail(self.span(), error_type);
        if let Some(key) = self.0.call.calibration_key() {
            self.parts().calibration.doubt(key);
        }
        // The caller's handle receives no report: the caller has the error, has left, or retries.
        self.0.report(TurnOutcome::NotStored(NotStored::CallFailed));
    }

    /// Returns `true` if [`repair`](Self::repair) can leave something out: the prompt has elements of the log that
    /// only the provider that made them can read.
    #[must_use]
    pub fn is_repairable(&self) -> bool {
        self.0.repairable.is_some()
    }

    /// Plans the turn once more without encrypted elements, after the provider refused the call because it could not
    /// read them. Of all stored replies, everything is left out that is [bound](crate::dialect::Bound) to its origin.
    /// If this returns `true`, call the model with the new [`context`](Self::context), within a new
    /// [`call_span`](Self::call_span). The turn has the same exchange id.
    ///
    /// If the exchange is stored, a [cut](crate::store::Positions::encrypted_from) is stored with it, so no later turn of the
    /// profile sends these elements. The report says [`WithoutEncrypted`](crate::report::Fallback::WithoutEncrypted).
    ///
    /// If another compaction was stored during the turn, the cut is stored in the background, after the exchange. The
    /// conversation's next turn in this engine waits for it, at most for the [store
    /// timeout](crate::HistoryOptions::store_timeout). If the cut is not stored by then, or if another process makes the
    /// next call, that call may be refused and repaired once more.
    ///
    /// Returns `false` if the turn is not [repairable](Self::is_repairable), if it was repaired before, or if it cannot
    /// be planned without these elements, for example because the prompt does not fit. The reason is then logged, and
    /// the context is unchanged. `error_type` is recorded in the span
    /// of the model call that failed, as by [`fail`](Self::fail).
    pub async fn repair(&mut self, error_type: &str) -> bool {
        let loaded = self.0.repairable.take().and_then(|loaded| loaded.without_encrypted());
        let Some(loaded) = loaded else { return false };
        if let Some(call) = self.0.model_call.take() {
            call.failed(error_type);
        }
        let span = self.span().clone();
        Box::pin(self.0.plan_again(&loaded)).instrument(span).await
    }

    pub(crate) fn on_save_failure(&self) -> OnSaveFailure {
        self.parts().options().policies.on_save_failure
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("conversation", &self.0.call.conversation)
            .field("exchange", &self.0.exchange)
            .field("messages", &self.0.context.len())
            .finish_non_exhaustive()
    }
}
