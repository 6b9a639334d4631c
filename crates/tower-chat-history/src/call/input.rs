//! What a call asks for.

use std::sync::Arc;

use tower_chat_history_context::{
    plan::{InputError, refuse_foreign},
    request::RequestInfo,
    tokens::TokenCounter,
};
use tower_chat_history_core::{ConversationId, ExchangeId, Message, Role};

use super::{CallOptions, Stored};

/// What a call asks for: its conversation and its input messages.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TurnInput {
    /// The conversation.
    pub conversation: ConversationId,
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
    /// What counts the tokens of this call's model, if the [options](crate::ContextOptions::token_counter) do not say it for
    /// all. The default is none: [`ByteEstimate`](crate::tokens::ByteEstimate) then counts.
    pub counter: Option<Arc<dyn TokenCounter>>,
    /// The options of this call. [`few_shot_messages`](CallOptions::few_shot_messages) is not read here: the head is in
    /// [`request`](Self::request).
    pub options: CallOptions,
}

impl TurnInput {
    /// The input of a call in that conversation.
    pub fn new(conversation: ConversationId, input: impl IntoIterator<Item = Message>) -> Self {
        Self {
            conversation,
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

    /// Names the exchange. The default is a generated id. See [`CallOptions::exchange`].
    #[must_use]
    pub fn exchange(mut self, id: ExchangeId) -> Self {
        self.options.exchange = Some(id);
        self
    }

    /// Sets the options of this call. An [exchange id](Self::exchange) that was set before stays, unless these options
    /// have one.
    #[must_use]
    pub fn options(mut self, options: CallOptions) -> Self {
        let earlier = std::mem::replace(&mut self.options, options);
        self.options.exchange = self.options.exchange.or(earlier.exchange);
        self
    }

    /// Checks what can be said of the messages before the conversation is loaded.
    pub(crate) fn check(&self) -> Result<(), InputError> {
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
