//! Adapters for a program's own request and response types, made from closures.
//!
//! [`Custom`] asks three things: what of a request is new, how a request takes up its history, and what of a response is the
//! reply. Here a prompt has a question and a separate place for the history, and the answer is a message:
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
//! What the inner service takes may be another type than what the caller sends: `fill` makes the one from the other. Where
//! one field has all messages, [`Custom::messages`] needs no `fill`, and serves callers that resend the conversation as well
//! ([`Custom::input_mode`]). A stream's reply is put together by a [`FoldReply`](super::FoldReply), see [`Custom::fold`].
//!
//! Messages are in the chat-completions format: `role`, `content`, `tool_calls` and `tool_call_id`, with whatever else
//! a provider adds. An input in another API's shape (content blocks of Anthropic's Messages API such as `tool_use` and
//! `tool_result`, items of OpenAI's Responses API, Gemini's `parts`) is refused with
//! [`InputError::Foreign`](crate::error::InputError::Foreign), before anything is stored or sent. A program that talks to such
//! an API maps its messages in these closures, in both directions; the fields of its own that a message carries along
//! are kept.
//!
//! A request that is a `serde_json::Value` itself may have up to [128 levels](crate::adapt::nested::MAX_LEVELS), as with
//! [`Json`](super::Json). A request with more is refused with
//! [`JsonRequestError::TooDeep`].
//!
//! The closures are called from all of the service's clones: they are `Fn`, and have to be `Clone`, `Send` and `Sync`.

mod reply;
mod shape;

use std::{fmt, ops::Range, sync::Arc};

use tower_chat_history_context::request::{InputMode, RequestInfo};
use tower_chat_history_core::Message;

// A program does not name these: it makes a `Custom` by its methods, and gives it to a layer.
#[doc(hidden)]
pub use self::{
    reply::{Folded, Whole},
    shape::{AllMessages, CountedFilling, Filling, IntoInput, Parts, Shape, TryFilling},
};
use super::{
    AdaptRequest, Completed, Draft, JsonRequestError, Opened, Prompt,
    extract::{CallScope, Envelope, ExtractScope, FromTask, IdFrom, IntoCallScope},
};
use crate::{
    call::{Reply, TurnInput},
    discard::refuse_deep,
    error::BoxError,
};

/// An adapter of requests of type `R`, made from closures. See the [module docs](self).
///
/// `S` and `P` are what the methods make of the closures: how a request is split and filled, and how a response is read.
/// `X` is the [extractor](super::extract).
pub struct Custom<R, S, P = (), X = Envelope> {
    shape: S,
    reply: P,
    extract: X,
    info: Option<Info<R>>,
}

type Info<R> = Arc<dyn Fn(&R) -> RequestInfo + Send + Sync>;

impl<R, I> Custom<R, Parts<I, ()>> {
    /// An adapter that finds a request's input by this closure: a message, a list of them, or a `Result` of these. All of
    /// it is stored, so instructions and examples do not belong to it. How the request takes up its history is said by
    /// [`fill`](Self::fill), which comes next.
    pub fn new<T>(input: I) -> Self
    where
        I: Fn(&R) -> T,
        T: IntoInput,
    {
        Self { shape: Parts { input, fill: () }, reply: (), extract: Envelope::new(), info: None }
    }

    /// Makes of a request and its history, which is empty for a stateless call, what the inner service takes. The input is
    /// still in the request, and where it goes is the closure's choice; so is the place of instructions and examples.
    pub fn fill<F, Q>(self, fill: F) -> Custom<R, Parts<I, Filling<F>>>
    where
        F: Fn(R, &[Message]) -> Q,
    {
        self.filled_by(Filling(fill))
    }

    /// Fills in the history as [`fill`](Self::fill) does, by a closure that may fail: for types that cannot carry every
    /// message. The call then fails with the closure's error, and nothing is sent.
    pub fn try_fill<F, Q, E>(self, fill: F) -> Custom<R, Parts<I, TryFilling<F>>>
    where
        F: Fn(R, &[Message]) -> Result<Q, E>,
        E: Into<BoxError>,
    {
        self.filled_by(TryFilling(fill))
    }

    /// Fills in the history as [`try_fill`](Self::try_fill) does, by a closure that [counts](Completed::downgraded) the
    /// messages that are not carried whole.
    pub fn try_fill_counted<F, Q, E>(self, fill: F) -> Custom<R, Parts<I, CountedFilling<F>>>
    where
        F: Fn(R, &[Message]) -> Result<Completed<Q>, E>,
        E: Into<BoxError>,
    {
        self.filled_by(CountedFilling(fill))
    }

    fn filled_by<F>(self, fill: F) -> Custom<R, Parts<I, F>> {
        let shape = Parts { input: self.shape.input, fill };
        Custom { shape, reply: self.reply, extract: self.extract, info: self.info }
    }
}

impl<R, F> Custom<R, AllMessages<F>> {
    /// An adapter of requests in which one field has all messages: leading system and developer messages, and as many
    /// behind them as few_shot_messages says, are head, all others input (see [`input_mode`](Custom::input_mode)). The history
    /// is put between them.
    pub fn messages(field: F) -> Self
    where
        F: Fn(&mut R) -> &mut Vec<Message>,
    {
        let shape = AllMessages { field, mode: InputMode::New };
        Self { shape, reply: (), extract: Envelope::new(), info: None }
    }
}

impl<R, F, P, X> Custom<R, AllMessages<F>, P, X> {
    /// What of a request is new. The default is [`InputMode::New`]: everything behind the head.
    ///
    /// With [`InputMode::Transcript`] the history is sent in place of what the request resends of it, so code that keeps its
    /// own list stays as it is:
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
    pub fn input_mode(mut self, mode: InputMode) -> Self {
        self.shape.mode = mode;
        self
    }
}

impl<R, S, X> Custom<R, S, (), X> {
    /// Finds the reply in a response: a message, a whole [`Reply`], or an `Option` of one of them. Without one, nothing
    /// is stored.
    ///
    /// The message is in the chat-completions format. One in another API's shape (Anthropic's `tool_use` blocks, say)
    /// is not stored: the report says [`UnreadableReply`](crate::report::NotStored::UnreadableReply). One with another role is
    /// stored as the assistant's.
    pub fn reply<F, Res, T>(self, reply: F) -> Custom<R, S, Whole<F>, X>
    where
        F: Fn(&Res) -> T,
        T: Into<Reply>,
    {
        self.replied_by(Whole(reply))
    }

    /// Puts the reply together from a `BoxStream<'static, Result<T, E>>`: the closure is told how many choices there will
    /// be, and returns what folds them.
    pub fn fold<F, W>(self, fold: F) -> Custom<R, S, Folded<F>, X>
    where
        F: Fn(usize) -> W,
    {
        self.replied_by(Folded(fold))
    }

    fn replied_by<P>(self, reply: P) -> Custom<R, S, P, X> {
        Custom { shape: self.shape, reply, extract: self.extract, info: self.info }
    }
}

impl<R, S, P, X> Custom<R, S, P, X> {
    /// The adapter of `R` itself, whose conversation a closure finds. See [`IdFrom`].
    pub fn id_from<F, T>(self, find: F) -> Custom<R, S, P, IdFrom<F>>
    where
        F: Fn(&R) -> T,
        T: IntoCallScope,
    {
        self.extract_by(IdFrom::new(find))
    }

    /// The adapter of `R` itself, in the conversation of the [running task](super::extract::in_conversation).
    pub fn id_from_task(self) -> Custom<R, S, P, FromTask> {
        self.extract_by(FromTask::new())
    }

    /// Says what a request has besides its messages: its model, its tools, the limit of its reply, instructions and examples
    /// that are no messages. All this counts for the [budget](crate::budget); without it only messages count, and there is a
    /// budget only where it is the same for [every model](crate::ContextBudget::tokens). A limit of the reply that is stated
    /// here is not lowered. Spans tell its model, its [provider](RequestInfo::provider), its temperature and `top_p`.
    #[must_use]
    pub fn request_info(mut self, info: impl Fn(&R) -> RequestInfo + Send + Sync + 'static) -> Self {
        self.info = Some(Arc::new(info));
        self
    }

    /// The adapter with that extractor.
    pub fn extract_by<Y>(self, extract: Y) -> Custom<R, S, P, Y> {
        Custom { shape: self.shape, reply: self.reply, extract, info: self.info }
    }
}

impl<R, S, P, X> AdaptRequest<X::Call> for Custom<R, S, P, X>
where
    R: Send + 'static,
    S: Shape<R, Request: Send> + Clone + Send + Sync,
    P: Sync,
    X: ExtractScope<R, Call: Send> + Sync,
{
    type Request = S::Request;
    type Draft = CustomDraft<R, S>;

    async fn open(&self, call: X::Call) -> Result<Opened<CustomDraft<R, S>, S::Request>, BoxError> {
        let (scope, request) = self.extract.extract(call)?;
        let CallScope::Conversation(id, options) = scope else {
            return Ok(Opened::PassThrough(self.shape.fill(request, 0..0, &[])?.request));
        };
        // From here on it may be dropped: the history may not come, or not fit.
        let mut request = refuse_deep(request).ok_or(JsonRequestError::TooDeep)?;
        let split = self.shape.split(&mut request, options.few_shot_messages)?;
        let resent = split.transcript_range();
        let mut turn = TurnInput::new(id, split.input).transcript(split.transcript).options(options);
        turn.request = self.info.as_ref().map(|info| info(&request)).unwrap_or_default();
        turn.request.head.extend(split.head);
        turn.request.max_output_is_fixed = true;
        Ok(Opened::Turn(turn, CustomDraft { request, resent, shape: self.shape.clone() }))
    }
}

/// A request of a program's own type that waits for its history.
#[doc(hidden)]
pub struct CustomDraft<R, S> {
    request: R,
    /// Which of its messages the window stands for, if it has a list of all.
    resent: Range<usize>,
    shape: S,
}

impl<R, S: Shape<R>> Draft for CustomDraft<R, S> {
    type Request = S::Request;

    fn complete(self, prompt: Prompt<'_>) -> Result<Completed<S::Request>, BoxError> {
        self.shape.fill(self.request, self.resent, prompt.window)
    }
}

// By hand: derived, they would ask the same of `R`.
impl<R, S: Clone, P: Clone, X: Clone> Clone for Custom<R, S, P, X> {
    fn clone(&self) -> Self {
        Self {
            shape: self.shape.clone(),
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

impl<R, S> fmt::Debug for CustomDraft<R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomDraft").finish_non_exhaustive()
    }
}
