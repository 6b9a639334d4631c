//! The input of a call.

use std::sync::Arc;

use tower_chat_history_core::{ChatCompletions, Closes, ConversationId, Dialect, ExchangeId, Message};

use super::{CallOptions, ReadBy, Stored};
use crate::{
    context::{
        RequestInfo,
        plan::{InputError, refuse_foreign},
        tokens::TokenCounter,
    },
    error::{DialectPlace, HistoryError, check_dialect},
};

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
    /// The dialect of the conversation. The default is `None`: it is then that of the first message of the input, the
    /// transcript or the messages to [store instead](CallOptions::store_instead), in this order. Without any message, it is
    /// [`ChatCompletions`].
    ///
    /// Set it for a call without input in another dialect: a store has only the name of a dialect. Otherwise, the call
    /// fails with [`HistoryError::OtherDialect`].
    pub dialect: Option<&'static dyn Dialect>,
    /// The number of choices that are requested from the model. The default is 1.
    pub choices: usize,
    /// The value by which the adapter reads the response, if it reads several kinds of them. The adapter gets it back
    /// in [`CallFacts::read_by`](crate::adapt::CallFacts::read_by). The default has no value.
    pub read_by: ReadBy,
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
            dialect: None,
            input,
            choices: 1,
            read_by: ReadBy::default(),
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

    /// Sets the dialect of the conversation. The default is that of the first message. See
    /// [`TurnInput::dialect`](Self#structfield.dialect).
    #[must_use]
    pub fn dialect(mut self, dialect: &'static dyn Dialect) -> Self {
        self.dialect = Some(dialect);
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

    /// Makes those checks of the messages that need no loaded conversation. Returns the dialect of the call.
    pub(crate) fn check(&self) -> Result<&'static dyn Dialect, HistoryError> {
        let instead = match &self.options.stored {
            Stored::Instead(messages) => messages.as_slice(),
            Stored::Exchange | Stored::Nothing => &[],
        };
        let first = || self.input.iter().chain(&self.transcript).chain(instead).find_map(Message::dialect);
        let dialect = self.dialect.or_else(first).unwrap_or(&ChatCompletions);
        check_dialect(dialect, &self.input, DialectPlace::Input)?;
        check_dialect(dialect, &self.transcript, DialectPlace::Transcript)?;
        check_dialect(dialect, instead, DialectPlace::Instead)?;

        // A resent reply is not checked: it is only compared with the log.
        let is_resent_reply = |position, message: &Message| position < self.transcript.len() && message.is_reply();
        let messages = self.transcript.iter().chain(&self.input).enumerate();
        refuse_foreign(messages.filter(|(position, message)| !is_resent_reply(*position, message)))?;
        refuse_foreign(instead.iter().enumerate())?;
        match resent_reply(&self.input) {
            Some(position) => Err(InputError::Resent { position }.into()),
            None => Ok(dialect),
        }
    }
}

/// Returns the position of the first reply without calls. In some dialects, a reply has several elements: their calls
/// are those of the reply. Compactions that the caller asked the provider for are no reply.
fn resent_reply(input: &[Message]) -> Option<usize> {
    let joins = |message: &Message| message.is_reply() && message.index().closes == Closes::AfterResult;
    let mut position = 0;
    for reply in input.chunk_by(|one, next| joins(one) && joins(next)) {
        let is_compaction = || reply.iter().all(|message| message.index().restarts);
        let has_no_calls = || reply.iter().all(|message| message.tool_calls().is_empty());
        if reply[0].is_reply() && has_no_calls() && !is_compaction() {
            return Some(position);
        }
        position += reply.len();
    }
    None
}
