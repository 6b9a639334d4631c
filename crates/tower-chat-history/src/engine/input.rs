//! What a call asks for.

use std::{fmt, sync::Arc};

use tower_chat_history_core::{ConversationId, ExchangeId, Message, Role};

use super::RequestInfo;
use crate::{
    InputError,
    report::{ReportHandle, ReportSender},
    tokens::TokenCounter,
};

/// What a call asks for: its conversation and its input messages.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TurnInput {
    /// The conversation.
    pub conversation: ConversationId,
    /// Makes the call repeatable: an exchange with this id is stored once. The default is a generated id.
    pub exchange: Option<ExchangeId>,
    /// What the caller resends of the conversation, between the head and the input: it must be the end of the log, as far as
    /// that is loaded. It is compared, and neither sent nor stored again. The default is nothing.
    pub transcript: Vec<Message>,
    /// The new messages, without the head (system and developer messages) and without the history. They may be none if
    /// the log ends with the results of all calls, which the model has not answered
    /// ([`Engine::store_results`](crate::Engine::store_results)).
    pub input: Vec<Message>,
    /// How many choices the request asks the model for. The default is 1.
    pub choices: usize,
    /// What the request has besides. The default is nothing: then only window and input count for the budget.
    pub request: RequestInfo,
    /// What counts the tokens of this call's model, if the [options](crate::HistoryOptions::token_counter) do not say it for
    /// all. The default is none: [`ByteEstimate`](crate::tokens::ByteEstimate) then counts.
    pub counter: Option<Arc<dyn TokenCounter>>,
    /// What this call wants otherwise.
    pub options: CallOptions,
}

impl TurnInput {
    /// The input of a call in that conversation.
    pub fn new(conversation: ConversationId, input: impl IntoIterator<Item = Message>) -> Self {
        Self {
            conversation,
            exchange: None,
            transcript: Vec::new(),
            input: input.into_iter().collect(),
            choices: 1,
            request: RequestInfo::new(),
            counter: None,
            options: CallOptions::default(),
        }
    }

    /// Says what the caller resends of the conversation. The default is nothing.
    #[must_use]
    pub fn transcript(mut self, messages: impl IntoIterator<Item = Message>) -> Self {
        self.transcript = messages.into_iter().collect();
        self
    }

    /// Names the exchange. The default is a generated id.
    #[must_use]
    pub fn exchange(mut self, id: ExchangeId) -> Self {
        self.exchange = Some(id);
        self
    }

    /// Sets what this call wants otherwise.
    #[must_use]
    pub fn options(mut self, options: CallOptions) -> Self {
        self.options = options;
        self
    }

    /// Checks what can be said of the messages before the conversation is loaded.
    pub(super) fn check(&self) -> Result<(), InputError> {
        let instead = match &self.options.keep {
            Stored::Instead(messages) => messages.as_slice(),
            Stored::Exchange | Stored::Nothing => &[],
        };
        // A reply was stored in the shape that the provider gave it: whoever resends it resends what the log has.
        let is_resent_reply =
            |position, message: &Message| position < self.transcript.len() && *message.role() == Role::Assistant;
        let messages = self.transcript.iter().chain(&self.input).enumerate();
        refuse_foreign(messages.filter(|(position, message)| !is_resent_reply(*position, message)))?;
        refuse_foreign(instead.iter().enumerate())?;
        let is_reply = |message: &Message| *message.role() == Role::Assistant && message.tool_calls().is_empty();
        let reply = self.input.iter().position(is_reply);
        reply.map_or(Ok(()), |position| Err(InputError::Resent { position }))
    }
}

/// Refuses messages of other APIs: their tool calls and results would not be seen, and so neither kept together nor
/// checked.
pub(super) fn refuse_foreign<'a>(messages: impl IntoIterator<Item = (usize, &'a Message)>) -> Result<(), InputError> {
    let mut shapes = messages.into_iter().map(|(position, message)| (position, message.foreign_shape()));
    let foreign = shapes.find_map(|(position, shape)| Some((position, shape?)));
    foreign.map_or(Ok(()), |(position, shape)| Err(InputError::Foreign { position, shape }))
}

/// What one call wants otherwise. The default is to store the exchange as it was.
#[derive(Clone, Default)]
pub struct CallOptions {
    pub(crate) keep: Stored,
    pub(crate) report: Option<ReportSender>,
}

/// What of the exchange is stored.
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
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
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

    /// Brings the turn's report to the returned handle.
    #[must_use]
    pub fn with_report(mut self) -> (Self, ReportHandle) {
        let (sender, handle) = ReportHandle::new();
        self.report = Some(sender);
        (self, handle)
    }
}

impl fmt::Debug for CallOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallOptions").field("keep", &self.keep).finish_non_exhaustive()
    }
}
