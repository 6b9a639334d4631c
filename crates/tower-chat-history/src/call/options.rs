//! The options of one call.

use std::fmt;

use tower_chat_history_core::{ExchangeId, Message};

use crate::report::{ReportHandle, ReportSender};

/// The options of one call. The default is to store the exchange as it was, under a generated id.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct CallOptions {
    /// Makes the call repeatable: an exchange with this id is stored once. The default is a generated id.
    pub exchange: Option<ExchangeId>,
    /// The number of messages after the leading system and developer messages that are head as well. Adapters that
    /// find the head in a list of messages read it. The default is 0.
    pub few_shot_messages: usize,
    pub(crate) keep: Stored,
    pub(crate) report: Option<ReportSender>,
}

/// The part of the exchange that is stored.
#[derive(Clone, Debug, Default)]
pub(crate) enum Stored {
    /// Input and reply.
    #[default]
    Exchange,
    /// Nothing.
    Nothing,
    /// These messages in place of the input, and the reply.
    Instead(Vec<Message>),
}

impl CallOptions {
    /// Returns the defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the exchange, which makes the call repeatable: it is stored once under this id. A repeated call fails with
    /// [`AlreadyRecorded`](crate::HistoryError::AlreadyRecorded) before the model is called. The default is a generated
    /// id.
    #[must_use]
    pub fn exchange(mut self, id: ExchangeId) -> Self {
        self.exchange = Some(id);
        self
    }

    /// Counts that many messages after the leading system and developer messages as head too: few-shot examples are
    /// sent first and never stored. The default is 0.
    #[must_use]
    pub const fn few_shot_messages(mut self, messages: usize) -> Self {
        self.few_shot_messages = messages;
        self
    }

    /// Stores nothing of this call: it sees the history and leaves no trace in it.
    #[must_use]
    pub fn dont_store(mut self) -> Self {
        self.keep = Stored::Nothing;
        self
    }

    /// Stores these messages in place of the input: the model sees a long prompt (documents that were looked up), and the
    /// conversation remembers the short question. They must fit the conversation as the input does, and answer open tool
    /// calls exactly when the input does.
    #[must_use]
    pub fn store_instead(mut self, input: impl IntoIterator<Item = Message>) -> Self {
        self.keep = Stored::Instead(input.into_iter().collect());
        self
    }

    /// Sends the turn's report to the returned handle. A stateless call has none.
    #[must_use]
    pub fn with_report(mut self) -> (Self, ReportHandle) {
        let (sender, handle) = ReportHandle::new();
        self.report = Some(sender);
        (self, handle)
    }
}

impl fmt::Debug for CallOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallOptions")
            .field("exchange", &self.exchange)
            .field("few_shot_messages", &self.few_shot_messages)
            .field("keep", &self.keep)
            .finish_non_exhaustive()
    }
}
