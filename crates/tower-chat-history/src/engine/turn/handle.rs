//! A turn that has begun, as its caller sees it: its prompt, its end without a save, and its remedies.

use std::{fmt, time::Duration};

use tower_chat_history_core::{Dialect, Message};
use tracing::{Instrument as _, Span};

use super::Turn;
use crate::{
    call::{ReadBy, Reply},
    policy::OnSaveFailure,
    refusal::Remedy,
    report::{NotStored, TurnOutcome},
    telemetry::fail,
};

impl Turn {
    /// Returns the messages to send after the head: the summary, if there is one, the window, the
    /// [recalled messages](crate::recall), if there are any, and the input, with constant replies where a question would
    /// otherwise follow another one. They obey the chat rules.
    #[must_use]
    pub fn context(&self) -> &[Message] {
        &self.0.context
    }

    /// Returns the messages to send between the head and the input: the summary, if there is one, the window, and the
    /// [recalled messages](crate::recall), if there are any, with constant replies where a question would otherwise
    /// follow another one.
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

    /// Returns the number of messages at the beginning of the request's head that must not be sent, because the reader
    /// takes no [system messages](crate::compat::SystemMessages::Never). The [window](Self::window) begins with what they
    /// say.
    #[must_use]
    pub fn left_out_of_head(&self) -> usize {
        self.0.call.reader.left_out_of_head()
    }

    /// Returns the JSON of a tool that must be added to the request, which has none: the reader [refuses
    /// calls](crate::compat::Compat::calls_need_tools) in a request without tools.
    #[must_use]
    pub fn stub_tool(&self) -> Option<&'static str> {
        self.0.call.reader.stub_tool(&self.0.call.request, self.context())
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

    /// Returns `true` if [`remedy`](Self::remedy) can change the prompt: it has messages of the log, and the call was
    /// repeated less than twice.
    #[must_use]
    pub fn can_be_remedied(&self) -> bool {
        self.0.can_repeat()
    }

    /// Plans the turn once more with this remedy, after the provider refused the call. It changes what is sent of the
    /// history, never the head or the input. If this returns `true`, call the model with the new
    /// [`context`](Self::context), within a new [`call_span`](Self::call_span). The turn has the same exchange id.
    ///
    /// If the exchange is stored, what the conversation has learned is stored in its compaction, so that no later
    /// call is refused for the same reason. It's stored in the background. The conversation's next turn in this engine
    /// waits for it, at most for the [store timeout](crate::HistoryOptions::store_timeout). If it isn't stored by then,
    /// or if another process makes the next call, that call may be refused once more.
    ///
    /// Returns `false` if the turn [cannot be remedied](Self::can_be_remedied), or if the prompt would be the same. The
    /// context is then unchanged, and the caller should get the provider's error. `error_type` is recorded in the span
    /// of the model call that failed, as by [`fail`](Self::fail).
    pub async fn remedy(&mut self, remedy: &Remedy, error_type: &str) -> bool {
        if !self.can_be_remedied() {
            return false;
        }
        if let Some(call) = self.0.model_call.take() {
            call.failed(error_type);
        }
        let span = self.span().clone();
        Box::pin(self.0.apply(remedy)).instrument(span).await
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
