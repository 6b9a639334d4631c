//! The values of one call: its scope, its input and options, and the model's reply.

mod reply;

use std::{
    any::{Any, type_name},
    fmt,
    sync::Arc,
};

use tower_chat_history_core::{ChatCompletions, Closes, ConversationId, Dialect, ExchangeId, Message, Metadata};

pub use self::reply::{Flow, FoldReply, Reply};
use crate::{
    context::{
        RequestInfo,
        plan::{InputError, refuse_foreign},
        tokens::TokenCounter,
    },
    error::{DialectPlace, HistoryError, check_dialect},
    report::{ReportHandle, ReportSender},
};

/// A request with the conversation that it belongs to.
///
/// ```
/// use tower_chat_history::{ConversationId, InConversation};
///
/// let request = "any request type that an adapter knows";
/// let id = ConversationId::new(["acme", "user-42"])?;
/// let (call, report) = InConversation::new(id, request).with_report();
/// # Ok::<(), tower_chat_history::store::ConversationIdError>(())
/// ```
///
/// The setters are those of [`CallOptions`]. A stateless call has no options, so they have no effect on it.
///
/// `Debug` shows the scope, but not the request, because most request types show their text.
#[derive(Clone)]
pub struct InConversation<R> {
    scope: CallScope,
    pub(crate) request: R,
}

impl<R> InConversation<R> {
    /// Creates a request in this conversation.
    pub fn new(id: ConversationId, request: R) -> Self {
        Self { scope: id.into(), request }
    }

    /// Creates a request without a conversation: it is passed on unchanged, and nothing is stored.
    ///
    /// A call without an id is never stateless by default: it fails with
    /// [`MissingConversation`](crate::MissingConversation).
    pub const fn stateless(request: R) -> Self {
        Self { scope: CallScope::Stateless, request }
    }

    /// Changes the options of the call with a closure.
    #[must_use]
    pub fn options(mut self, change: impl FnOnce(CallOptions) -> CallOptions) -> Self {
        if let CallScope::Conversation(_, options) = &mut self.scope {
            *options = change(std::mem::take(options));
        }
        self
    }

    /// Sets the id of the exchange. See [`CallOptions::exchange`].
    #[must_use]
    pub fn exchange(self, id: ExchangeId) -> Self {
        self.options(|options| options.exchange(id))
    }

    /// Sets the number of few-shot messages that are part of the head. See [`CallOptions::few_shot_messages`].
    #[must_use]
    pub fn few_shot_messages(self, messages: usize) -> Self {
        self.options(|options| options.few_shot_messages(messages))
    }

    /// Sets your own data about the exchange. See [`CallOptions::metadata`].
    #[must_use]
    pub fn metadata(self, metadata: Metadata) -> Self {
        self.options(|options| options.metadata(metadata))
    }

    /// Disables storing for this call. See [`CallOptions::dont_store`].
    #[must_use]
    pub fn dont_store(self) -> Self {
        self.options(CallOptions::dont_store)
    }

    /// Sets the messages to store in place of the input. See [`CallOptions::store_instead`].
    #[must_use]
    pub fn store_instead(self, input: impl IntoIterator<Item = Message>) -> Self {
        self.options(|options| options.store_instead(input))
    }

    /// Returns the call, and a handle that receives the report of its turn. For a stateless call, the handle resolves
    /// to `None`.
    #[must_use]
    pub fn with_report(self) -> (Self, ReportHandle) {
        let (sender, handle) = ReportHandle::new();
        let call = self.options(|mut options| {
            options.report = Some(sender);
            options
        });
        (call, handle)
    }

    /// Returns the scope and the request. Adapters use this.
    pub fn into_parts(self) -> (CallScope, R) {
        (self.scope, self.request)
    }
}

impl<R> fmt::Debug for InConversation<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InConversation").field("scope", &self.scope).finish_non_exhaustive()
    }
}

/// The scope of a call: a conversation, or explicitly none.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // Values are short-lived: callers destructure them immediately.
pub enum CallScope {
    /// The prompt contains this conversation's history, and the exchange is stored in it according to the options.
    Conversation(ConversationId, CallOptions),
    /// The call is passed on unchanged, and nothing is stored.
    Stateless,
}

/// Creates the scope of a call in this conversation, with the default options.
impl From<ConversationId> for CallScope {
    fn from(conversation: ConversationId) -> Self {
        Self::Conversation(conversation, CallOptions::new())
    }
}

/// The options of one call. By default, input and reply are stored unchanged, under a generated id.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct CallOptions {
    /// The id of the exchange. Only one exchange is stored under an id, so a call with an id can be repeated safely.
    /// The default is a generated id.
    pub exchange: Option<ExchangeId>,
    /// The number of few-shot messages: messages that follow the leading system and developer messages, and are also
    /// part of the head. Adapters use it if a request has one list for head and input. The default is 0.
    pub few_shot_messages: usize,
    /// Your own data about the exchange, which is stored with it and never sent. The default is `None`.
    pub metadata: Option<Metadata>,
    pub(crate) stored: Stored,
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

    /// Sets the id of the exchange. Only one exchange is stored under an id, so a call with an id can be repeated
    /// safely: if the first attempt was stored, the repeated call fails with
    /// [`AlreadyRecorded`](crate::HistoryError::AlreadyRecorded) before the model is called. The default is a
    /// generated id.
    #[must_use]
    pub fn exchange(mut self, id: ExchangeId) -> Self {
        self.exchange = Some(id);
        self
    }

    /// Sets the number of few-shot messages: messages that follow the leading system and developer messages, and are
    /// also part of the head. They are sent first and never stored. The default is 0.
    #[must_use]
    pub const fn few_shot_messages(mut self, messages: usize) -> Self {
        self.few_shot_messages = messages;
        self
    }

    /// Sets your own data about the exchange, such as ids of a user interface or who asked. It is stored with the
    /// exchange, even if the reply breaks off, and returned with it. It is never sent. If the exchange id is already
    /// stored, the stored metadata stays. The default is none.
    ///
    /// ```
    /// use serde_json::json;
    /// use tower_chat_history::{
    ///     CallOptions, ConversationId, Engine, HistoryStoreExt, MemoryStore, Message, Metadata, Reply, TurnInput,
    /// };
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let engine = Engine::new(MemoryStore::new());
    /// let id = ConversationId::new(["acme", "user-42"])?;
    /// let metadata = Metadata::new(json!({"asked_by": "ann"}).to_string())?;
    /// let input = TurnInput::new(id.clone(), [Message::user("Hi!")]);
    /// let turn = engine.begin(input.options(CallOptions::new().metadata(metadata.clone()))).await?;
    /// turn.commit(Reply::new(Message::assistant("Hello."))).await?;
    ///
    /// let log = engine.store().conversation(&id).exchanges().await?;
    /// assert_eq!(log[0].exchange.metadata, Some(metadata));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// Disables storing for this call: the prompt contains the history, but the exchange is not stored.
    #[must_use]
    pub fn dont_store(mut self) -> Self {
        self.stored = Stored::Nothing;
        self
    }

    /// Sets the messages to store in place of the input. For example, the model may see a long prompt with retrieved
    /// documents, while only the short question is stored. These messages must be as valid in the conversation as the
    /// input. If the input answers open tool calls, they must answer these calls too; otherwise they must answer
    /// none.
    #[must_use]
    pub fn store_instead(mut self, input: impl IntoIterator<Item = Message>) -> Self {
        self.stored = Stored::Instead(input.into_iter().collect());
        self
    }

    /// Returns the options, and a handle that receives the turn's report. A stateless call has no report.
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
            .field("metadata", &self.metadata)
            .field("stored", &self.stored)
            .finish_non_exhaustive()
    }
}

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
        let mut messages = self.input.iter().chain(&self.transcript).chain(instead);
        let dialect = self.dialect.or_else(|| messages.find_map(Message::dialect)).unwrap_or(&ChatCompletions);
        check_dialect(dialect, &self.input, DialectPlace::Input)?;
        check_dialect(dialect, &self.transcript, DialectPlace::Transcript)?;
        check_dialect(dialect, instead, DialectPlace::Instead)?;

        // A resent reply is not checked: it is only compared with the log.
        let messages = self.transcript.iter().chain(&self.input).enumerate();
        refuse_foreign(
            messages.filter(|(position, message)| *position >= self.transcript.len() || !message.is_reply()),
        )?;
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
    let mut position = 0;
    for reply in input.chunk_by(|one, next| is_element(one) && is_element(next)) {
        let has_calls = reply.iter().any(|message| !message.tool_calls().is_empty());
        if reply[0].is_reply() && !has_calls && !reply.iter().all(|message| message.index().restarts) {
            return Some(position);
        }
        position += reply.len();
    }
    None
}

/// Returns `true` if the message is an element of a reply that can have several.
fn is_element(message: &Message) -> bool {
    message.is_reply() && message.index().closes == Closes::AfterResult
}

/// A value of an adapter's own type, by which it reads the response of a call.
///
/// `open` creates the value, for example from the address of the request, and `read` gets it back in
/// [`CallFacts::read_by`](crate::adapt::CallFacts::read_by). An adapter whose response types tell their kinds needs none.
///
/// ```
/// use tower_chat_history::adapt::ReadBy;
///
/// #[derive(Debug, PartialEq)]
/// enum Format {
///     Chat,
///     Messages,
/// }
///
/// let read_by = ReadBy::new(Format::Messages);
/// assert_eq!(read_by.get(), Some(&Format::Messages));
/// assert_eq!(read_by.get::<u32>(), None);
/// assert_eq!(ReadBy::default().get::<Format>(), None);
/// ```
#[derive(Clone, Default)]
pub struct ReadBy(Option<Value>);

#[derive(Clone)]
struct Value {
    value: Arc<dyn Any + Send + Sync>,
    name: &'static str,
}

impl ReadBy {
    /// Creates a value.
    pub fn new<T: Send + Sync + 'static>(value: T) -> Self {
        Self(Some(Value { value: Arc::new(value), name: type_name::<T>() }))
    }

    /// Returns the value, or `None` if there is none, or if it has another type.
    #[must_use]
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.as_ref()?.value.downcast_ref()
    }
}

impl fmt::Debug for ReadBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadBy").field(&self.0.as_ref().map(|value| value.name)).finish()
    }
}
