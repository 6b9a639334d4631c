//! Adapters for a program's own request and response types, made from closures.
//!
//! [`Custom`] takes three closures: the first returns the new messages of a request, the second inserts the history
//! into it, and the third returns the reply in a response. In this example, the request type `Prompt` has a question
//! and a separate field for the history, and the response is a message:
//!
//! ```
//! use tower::{Service, ServiceBuilder, ServiceExt};
//! use tower_chat_history::{
//!     BoxError, ChatHistoryLayer, ConversationId, InConversation, MemoryStore, Message, adapt::Custom,
//! };
//!
//! struct Prompt {
//!     question: String,
//!     history: Vec<Message>,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! # let my_llm = tower::service_fn(|prompt: Prompt| async move {
//! #     Ok::<_, std::io::Error>(Message::assistant(format!("{} after {}", prompt.question, prompt.history.len())))
//! # });
//! let adapter = Custom::new(|prompt: &Prompt| Message::user(&prompt.question))
//!     .fill(|prompt, window| Prompt { history: window.to_vec(), ..prompt })
//!     .reply(|answer: &Message| answer.clone());
//! let mut chat = ServiceBuilder::new().layer(ChatHistoryLayer::new(MemoryStore::new(), adapter)).service(my_llm);
//!
//! let id = ConversationId::new(["acme", "user-42"])?;
//! for answer in ["Hi after 0", "Hi after 2"] {
//!     let prompt = Prompt { question: "Hi".into(), history: Vec::new() };
//!     assert_eq!(chat.ready().await?.call(InConversation::new(id.clone(), prompt)).await?.text(), answer);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The request type of the inner service may differ from that of the caller: `fill` converts the caller's into the
//! inner service's. If one field of a request contains all messages, use [`Custom::messages`], which needs no `fill`.
//! It also supports callers that resend the conversation ([`Custom::input_mode`]). For streams, a
//! [`FoldReply`] combines the items into the reply ([`Custom::fold`]).
//!
//! Messages are in the chat-completions format: `role`, `content`, `tool_calls` and `tool_call_id`, and any other
//! field that a provider adds. An input in another API's format (content blocks of Anthropic's Messages API such as
//! `tool_use` and `tool_result`, items of OpenAI's Responses API, Gemini's `parts`) is refused with
//! [`InputError::Foreign`](crate::error::InputError::Foreign), before anything is stored or sent. A program that
//! calls such an API must convert messages in these closures, in both directions. Additional fields of a
//! chat-completions message are stored and sent.
//!
//! A request that is itself a `serde_json::Value` may have up to [128 levels](crate::adapt::nested::MAX_LEVELS), as
//! with [`Json`](super::Json). A request with more levels is refused with [`TooDeep`](super::JsonRequestError::TooDeep).
//!
//! All clones of the service call the same closures, so these must be `Fn`, `Send` and `Sync`. Those of
//! [`fold`](Custom::fold) and [`id_from`](Custom::id_from) must be `Clone`, too.

mod closures;

use std::{any::Any, fmt, future, mem, ops::Range, sync::Arc};

use crate::context::{InputMode, RequestInfo};
use futures_util::{StreamExt as _, stream::BoxStream};
use serde_json::Value;
use tower_chat_history_core::{ConversationId, Message, nested};

// Programs do not name these types: they build a `Custom` with its methods and pass it to a layer.
use self::closures::{Field, Fill, Input, OwnFormat, Whole, own_format};
#[doc(hidden)]
pub use self::closures::{Folds, IntoInput};
use super::{
    AdaptRequest, CallFacts, Draft, JsonRequestError, ModelRequest, OpenedRequest, Prompt, ReadResponse, Reading,
    RequestMessages,
    extract::{CallScope, Envelope, ExtractScope, FromTask, IdFrom, IntoCallScope},
};
use crate::{
    call::{CallOptions, FoldReply, Reply, TurnInput},
    error::{BoxError, StreamStalled},
};

/// An adapter of requests of type `R`, made from closures. See the [module docs](self).
///
/// `S` and `P` hold the closures: `S` splits and fills a request, and `P` reads a response. `X` is the
/// [extractor](super::extract).
pub struct Custom<R, S, P = (), X = Envelope> {
    shape: S,
    /// Applies if one field contains all messages.
    mode: InputMode,
    reply: P,
    extract: X,
    info: Option<Info<R>>,
}

type Info<R> = Arc<dyn Fn(&R) -> RequestInfo + Send + Sync>;

impl<R> Custom<R, Input<R>> {
    /// Creates an adapter. The closure `input` returns the new messages of a request: a message, a list of messages,
    /// or a `Result` of one of these. All of them are stored, so they must not contain instructions or examples. Call
    /// [`fill`](Self::fill) next. It sets the closure that inserts the history.
    pub fn new<F, T>(input: F) -> Self
    where
        F: Fn(&R) -> T + Send + Sync + 'static,
        T: IntoInput,
    {
        Self::shaped(Arc::new(move |request: &R| input(request).into_input()))
    }

    /// Sets the closure that makes the inner service's request from the caller's request and the history. The
    /// caller's request is complete: it contains its input, instructions and examples, and the closure decides where
    /// each goes. For a stateless call, the history is empty.
    pub fn fill<F, Q>(self, fill: F) -> Custom<R, (Input<R>, Fill<R, Q>)>
    where
        F: Fn(R, &[Message]) -> Q + Send + Sync + 'static,
    {
        Custom::shaped((self.shape, Arc::new(move |request, window: &[Message]| Ok(fill(request, window)))))
    }

    /// Sets a closure that does the same as that of [`fill`](Self::fill), but may return an error. Use it if the
    /// request type cannot represent every message. If the closure returns an error, the call fails with it before
    /// the model is called.
    pub fn try_fill<F, Q, E>(self, fill: F) -> Custom<R, (Input<R>, Fill<R, Q>)>
    where
        F: Fn(R, &[Message]) -> Result<Q, E> + Send + Sync + 'static,
        E: Into<BoxError>,
    {
        let fill = move |request, window: &[Message]| fill(request, window).map_err(Into::into);
        Custom::shaped((self.shape, Arc::new(fill)))
    }
}

impl<R, S> Custom<R, S> {
    fn shaped(shape: S) -> Self {
        Self { shape, mode: InputMode::New, reply: (), extract: Envelope::new(), info: None }
    }
}

impl<R> Custom<R, Field<R>> {
    /// Creates an adapter for requests in which one field contains all messages. The head is the leading system and
    /// developer messages, and after them the number of messages that
    /// [`few_shot_messages`](crate::CallOptions::few_shot_messages) sets. All other messages are input (see
    /// [`input_mode`](Custom::input_mode)). The history is inserted between head and input.
    pub fn messages<F>(field: F) -> Self
    where
        F: Fn(&mut R) -> &mut Vec<Message> + Send + Sync + 'static,
    {
        Self::shaped(Arc::new(field))
    }
}

impl<R, P, X> Custom<R, Field<R>, P, X> {
    /// Sets which messages of a request are new. The default is [`InputMode::New`]: all messages after the
    /// head.
    ///
    /// With [`InputMode::Transcript`], the request may resend the conversation. The history is sent in place of
    /// the resent messages, so code that keeps its own list of messages needs no change:
    ///
    /// ```
    /// use tower::{Service, ServiceBuilder, ServiceExt};
    /// use tower_chat_history::{
    ///     BoxError, ChatHistoryLayer, ConversationId, HistoryStoreExt, MemoryStore, Message, adapt::Custom,
    ///     engine::InputMode,
    /// };
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), BoxError> {
    /// # let my_llm = tower::service_fn(|messages: Vec<Message>| async move {
    /// #     Ok::<_, std::io::Error>(Message::assistant(format!("I got {}", messages.len())))
    /// # });
    /// let id = ConversationId::new(["acme", "user-42"])?;
    /// let here = id.clone();
    /// let adapter = Custom::messages(|messages: &mut Vec<Message>| messages)
    ///     .input_mode(InputMode::Transcript)
    ///     .reply(|answer: &Message| answer.clone())
    ///     .id_from(move |_| here.clone());
    /// let store = MemoryStore::new();
    /// let mut chat = ServiceBuilder::new().layer(ChatHistoryLayer::new(store.clone(), adapter)).service(my_llm);
    ///
    /// let mut messages = vec![Message::user("Hi")];
    /// messages.push(chat.ready().await?.call(messages.clone()).await?);
    /// messages.push(Message::user("And again"));
    /// messages.push(chat.ready().await?.call(messages.clone()).await?);
    /// assert_eq!(messages[3].text(), "I got 3");
    /// assert_eq!(store.conversation(&id).messages().await?, messages);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn input_mode(mut self, mode: InputMode) -> Self {
        self.mode = mode;
        self
    }
}

impl<R, S, X> Custom<R, S, (), X> {
    /// Sets the closure that returns the reply in a response: a message, a complete [`Reply`], or an `Option` of one
    /// of these. If it returns no message, nothing is stored.
    ///
    /// The message is in the chat-completions format. A message in another API's format (for example Anthropic's
    /// `tool_use` blocks) is not stored: the report says
    /// [`UnreadableReply`](crate::report::NotStored::UnreadableReply). If a message has a role other than
    /// `assistant`, it is stored with the role `assistant`.
    pub fn reply<F, Res, T>(self, reply: F) -> Custom<R, S, Whole<Res>, X>
    where
        F: Fn(&Res) -> T + Send + Sync + 'static,
        T: Into<Reply>,
    {
        self.replied_by(Arc::new(move |response: &Res| reply(response).into()))
    }

    /// Sets the closure that makes a [`FoldReply`] for a `BoxStream<'static, Result<T, E>>`. The
    /// closure's argument is the number of choices that the request specifies.
    pub fn fold<F, W>(self, fold: F) -> Custom<R, S, Folds<F>, X>
    where
        F: Fn(usize) -> W,
    {
        self.replied_by(Folds(fold))
    }

    fn replied_by<P>(self, reply: P) -> Custom<R, S, P, X> {
        Custom { shape: self.shape, mode: self.mode, reply, extract: self.extract, info: self.info }
    }
}

impl<R, S, P, X> Custom<R, S, P, X> {
    /// Sets a closure that returns the conversation of a request. The caller then sends `R` itself, not an
    /// [`InConversation`](crate::InConversation). See [`IdFrom`].
    pub fn id_from<F, T>(self, find: F) -> Custom<R, S, P, IdFrom<F>>
    where
        F: Fn(&R) -> T,
        T: IntoCallScope,
    {
        self.extract_by(IdFrom::new(find))
    }

    /// Uses the conversation of the [running task](super::extract::in_conversation). The caller then sends `R`
    /// itself, not an [`InConversation`](crate::InConversation).
    pub fn id_from_task(self) -> Custom<R, S, P, FromTask> {
        self.extract_by(FromTask::new())
    }

    /// Sets a closure that describes the other parts of a request: its model, its tools, its reply limit, and the
    /// instructions and examples that are no messages. All of this counts for the [budget](crate::budget). A reply
    /// limit that the closure returns is not lowered. Without this closure, only messages count toward the budget,
    /// and the model is unknown: a budget applies only if it is the same for [every
    /// model](crate::ContextBudget::tokens), or is set for [unknown models](crate::ContextBudget::unknown).
    ///
    /// Spans show the model, the [provider](RequestInfo::provider), the temperature and `top_p`.
    #[must_use]
    pub fn request_info(mut self, info: impl Fn(&R) -> RequestInfo + Send + Sync + 'static) -> Self {
        self.info = Some(Arc::new(info));
        self
    }

    /// Sets the extractor, which determines the type of the calls.
    pub fn extract_by<Y>(self, extract: Y) -> Custom<R, S, P, Y> {
        Custom { shape: self.shape, mode: self.mode, reply: self.reply, extract, info: self.info }
    }
}

impl<R, Q, P, X> AdaptRequest<X::Call> for Custom<R, (Input<R>, Fill<R, Q>), P, X>
where
    R: Send + 'static,
    Q: Send,
    P: Sync,
    X: ExtractScope<R, Call: Send> + Sync,
{
    type Request = Q;
    type Draft = CustomDraft<R, Fill<R, Q>>;

    async fn open(&self, call: X::Call) -> Result<OpenedRequest<Self::Draft, Q>, BoxError> {
        let (input, fill) = &self.shape;
        let (scope, mut request) = self.extract.extract(call)?;
        let CallScope::Conversation(id, options) = scope else {
            return Ok(OpenedRequest::PassThrough(fill(request, &[])?));
        };

        refuse_too_deep(&mut request)?;
        let messages = RequestMessages::new_input(input(&request)?);
        Ok(self.opened(id, options, request, messages, Arc::clone(fill)))
    }
}

impl<R, P, X> AdaptRequest<X::Call> for Custom<R, Field<R>, P, X>
where
    R: Send + 'static,
    P: Sync,
    X: ExtractScope<R, Call: Send> + Sync,
{
    type Request = R;
    type Draft = CustomDraft<R, Field<R>>;

    async fn open(&self, call: X::Call) -> Result<OpenedRequest<Self::Draft, R>, BoxError> {
        let (scope, mut request) = self.extract.extract(call)?;
        let CallScope::Conversation(id, options) = scope else {
            return Ok(OpenedRequest::PassThrough(request));
        };

        refuse_too_deep(&mut request)?;
        let messages = (self.shape)(&mut request).clone();
        let messages = RequestMessages::split(messages, options.few_shot_messages, self.mode);
        Ok(self.opened(id, options, request, messages, Arc::clone(&self.shape)))
    }
}

/// Refuses a request that is JSON with too many levels.
fn refuse_too_deep<R: 'static>(request: &mut R) -> Result<(), BoxError> {
    let any: &mut dyn Any = request;
    if let Some(value) = any.downcast_mut::<Value>()
        && nested::is_too_deep(value)
    {
        nested::dismantle(mem::take(value));
        return Err(JsonRequestError::TooDeep.into());
    }
    Ok(())
}

impl<R, S, P, X> Custom<R, S, P, X> {
    fn opened<F, Q>(
        &self,
        id: ConversationId,
        options: CallOptions,
        request: R,
        messages: RequestMessages,
        fill: F,
    ) -> OpenedRequest<CustomDraft<R, F>, Q> {
        let resent = messages.transcript_range();
        let mut turn = TurnInput::new(id, messages.input).transcript(messages.transcript).options(options);
        turn.request = self.info.as_ref().map(|info| info(&request)).unwrap_or_default();
        turn.request.head.extend(messages.head);
        turn.request.max_output_is_fixed = true;
        OpenedRequest::Turn(turn, CustomDraft { request, resent, fill })
    }
}

/// A request of a program's own type that waits for its history.
#[doc(hidden)]
pub struct CustomDraft<R, F> {
    request: R,
    /// The range of the request's messages that the window replaces, if one field has all messages.
    resent: Range<usize>,
    fill: F,
}

impl<R, Q> Draft for CustomDraft<R, Fill<R, Q>> {
    type Request = Q;

    fn complete(self, prompt: Prompt<'_>) -> Result<ModelRequest<Q>, BoxError> {
        Ok(ModelRequest::new((self.fill)(self.request, prompt.window)?, 0))
    }
}

impl<R> Draft for CustomDraft<R, Field<R>> {
    type Request = R;

    fn complete(mut self, prompt: Prompt<'_>) -> Result<ModelRequest<R>, BoxError> {
        let messages = (self.fill)(&mut self.request);
        // The closure may return another field than before. That must not cause a panic.
        let resent = self.resent.start.min(messages.len())..self.resent.end.min(messages.len());
        messages.splice(resent, prompt.window.iter().cloned());
        Ok(ModelRequest::new(self.request, 0))
    }
}

impl<R, S> fmt::Debug for CustomDraft<R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomDraft").finish_non_exhaustive()
    }
}

impl<R, S, X, Res> ReadResponse<Res> for Custom<R, S, Whole<Res>, X>
where
    Res: Send + Sync + 'static,
{
    type Response = Res;

    fn pass(&self, response: Res) -> Res {
        response
    }

    fn read(&self, response: Res, _: CallFacts) -> impl Future<Output = Result<Reading<Res>, BoxError>> + Send {
        let reply = own_format((self.reply)(&response));
        future::ready(Ok(Reading::whole(response, reply)))
    }
}

impl<R, S, X, F, W, T, E> ReadResponse<BoxStream<'static, Result<T, E>>> for Custom<R, S, Folds<F>, X>
where
    F: Fn(usize) -> W,
    W: FoldReply<T>,
    T: Send + 'static,
    E: From<StreamStalled> + Send + 'static,
{
    type Response = BoxStream<'static, Result<T, E>>;

    fn pass(&self, response: BoxStream<'static, Result<T, E>>) -> Self::Response {
        response
    }

    fn read(
        &self,
        response: BoxStream<'static, Result<T, E>>,
        call: CallFacts,
    ) -> impl Future<Output = Result<Reading<Self::Response>, BoxError>> + Send {
        let fold = OwnFormat((self.reply.0)(call.choices));
        future::ready(Ok(Reading::stream(response, fold, E::from, |recorded| recorded.boxed())))
    }
}

// Not derived, because a derived impl would require `R: Clone`.
impl<R, S: Clone, P: Clone, X: Clone> Clone for Custom<R, S, P, X> {
    fn clone(&self) -> Self {
        Self {
            shape: self.shape.clone(),
            mode: self.mode,
            reply: self.reply.clone(),
            extract: self.extract.clone(),
            info: self.info.clone(),
        }
    }
}

impl<R, S, P, X: fmt::Debug> fmt::Debug for Custom<R, S, P, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Custom").field("extract", &self.extract).finish_non_exhaustive()
    }
}
