//! The input of a call.

use std::sync::Arc;

use tower_chat_history_context::{
    RequestInfo,
    plan::{InputError, refuse_foreign},
    tokens::TokenCounter,
};
use tower_chat_history_core::{ChatCompletions, Closes, ConversationId, Dialect, ExchangeId, Message};

use super::{CallOptions, Stored};

/// The input of a call: its conversation, its new messages, and facts about its request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TurnInput {
    /// The conversation.
    pub conversation: ConversationId,
    /// The earlier messages that the caller resends, between the head and the input. They must equal the end of the
    /// loaded part of the log. They are only compared with the log, and neither sent nor stored again. The default is
    /// an empty list.
    pub transcript: Vec<Message>,
    /// The new messages, without the head (system and developer messages) and without the history. The list may be
    /// empty if the log ends with results for all tool calls, and the model has not answered them yet
    /// ([`Engine::store_results`](crate::Engine::store_results)).
    pub input: Vec<Message>,
    /// The dialect of the conversation. [`new`](Self::new) sets it to that of the first input message, or to
    /// [`ChatCompletions`](crate::dialect::ChatCompletions) if there is none.
    pub dialect: &'static dyn Dialect,
    /// The number of choices that are requested from the model. The default is 1.
    pub choices: usize,
    /// The other parts of the request. The default is an empty value: only the summary, the window and the input then
    /// count toward the budget.
    pub request: RequestInfo,
    /// The token counter for this call's model. The [counter of the options](crate::ContextOptions::token_counter),
    /// if set, takes precedence. The default is `None`: the counter is then the
    /// [preset](crate::tokens::Estimate::for_model) for the name of the request's model, or
    /// [`ByteEstimate`](crate::tokens::ByteEstimate) if there is none.
    pub counter: Option<Arc<dyn TokenCounter>>,
    /// The options of this call. [`few_shot_messages`](CallOptions::few_shot_messages) is ignored here, because the
    /// head is in [`request`](Self::request).
    pub options: CallOptions,
}

impl TurnInput {
    /// Creates the input of a call in this conversation.
    pub fn new(conversation: ConversationId, input: impl IntoIterator<Item = Message>) -> Self {
        let input: Vec<Message> = input.into_iter().collect();
        Self {
            conversation,
            transcript: Vec::new(),
            dialect: input.first().and_then(Message::dialect).unwrap_or(&ChatCompletions),
            input,
            choices: 1,
            request: RequestInfo::new(),
            counter: None,
            options: CallOptions::default(),
        }
    }

    /// Sets the earlier messages that the caller resends. The default is an empty list.
    #[must_use]
    pub fn transcript(mut self, messages: impl IntoIterator<Item = Message>) -> Self {
        self.transcript = messages.into_iter().collect();
        self
    }

    /// Sets the id of the exchange. The default is a generated id. See [`CallOptions::exchange`].
    #[must_use]
    pub fn exchange(mut self, id: ExchangeId) -> Self {
        self.options.exchange = Some(id);
        self
    }

    /// Sets the options of this call. Replaces all options that were set before, with one exception: if `options` has
    /// no exchange id, an [id](Self::exchange) that was set before stays.
    #[must_use]
    pub fn options(mut self, options: CallOptions) -> Self {
        let earlier = std::mem::replace(&mut self.options, options);
        self.options.exchange = self.options.exchange.or(earlier.exchange);
        self
    }

    /// Makes those checks of the messages that need no loaded conversation.
    pub(crate) fn check(&self) -> Result<(), InputError> {
        let instead = match &self.options.stored {
            Stored::Instead(messages) => messages.as_slice(),
            Stored::Exchange | Stored::Nothing => &[],
        };
        // A resent reply is not checked: it is only compared with the log.
        let is_resent_reply = |position, message: &Message| position < self.transcript.len() && message.is_reply();
        let messages = self.transcript.iter().chain(&self.input).enumerate();
        refuse_foreign(messages.filter(|(position, message)| !is_resent_reply(*position, message)))?;
        refuse_foreign(instead.iter().enumerate())?;
        let joins = |message: &Message| message.index().closes == Closes::AfterResult;
        let is_reply = |message: &Message| message.is_reply() && message.tool_calls().is_empty() && !joins(message);
        let reply = self.input.iter().position(is_reply);
        reply.map_or(Ok(()), |position| Err(InputError::Resent { position }))
    }
}
