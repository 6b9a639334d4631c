//! The options of a trim.

use std::{fmt, marker::PhantomData, sync::Arc};

use tower_chat_history_core::Message;

use super::{
    speaker::{Speaker, Speakers},
    trim_messages,
};
use crate::tokens::CountMessages;

/// The options of [`trim_messages`]. An option that has no meaning for a strategy does not compile with it.
///
/// ```
/// use tower_chat_history_context::{Message, tokens::ByteEstimate, trim::{Speaker, Trim}};
///
/// let messages = [Message::user("What does Tom chase?"), Message::assistant("Mice!"), Message::user("And Jerry?")];
/// let kept = Trim::last(10).start_on([Speaker::User]).apply(&messages, &ByteEstimate::new());
/// assert_eq!(kept, messages[2..]);
/// ```
///
/// ```compile_fail
/// // A list of the oldest messages always starts with the first one.
/// tower_chat_history_context::trim::Trim::first(10).start_on([tower_chat_history_context::trim::Speaker::User]);
/// ```
///
/// ```compile_fail
/// // There is no such speaker.
/// tower_chat_history_context::trim::Trim::last(10).start_on(["usr"]);
/// ```
#[derive(Clone)]
pub struct Trim<S> {
    pub(super) strategy: Strategy,
    pub(super) max_tokens: u64,
    pub(super) end_on: Speakers,
    pub(super) splitter: Option<Splitter>,
    pub(super) keep_tool_pairs: bool,
    /// The strategy as a type, which decides which options there are.
    side: PhantomData<S>,
}

pub(super) type Splitter = Arc<dyn Fn(&str) -> Vec<String> + Send + Sync>;

#[derive(Clone, Debug)]
pub(super) enum Strategy {
    First,
    Last { start_on: Speakers, include_system: bool },
}

/// A [`Trim`] that keeps the newest messages.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Last;

/// A [`Trim`] that keeps the oldest messages.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct First;

impl Trim<Last> {
    /// Keeps the newest messages that together have at most `max_tokens` tokens.
    #[must_use]
    pub fn last(max_tokens: u64) -> Self {
        Self::of(Strategy::Last { start_on: Speakers::default(), include_system: false }, max_tokens)
    }

    /// Leaves out all messages before the first one by one of these speakers. An empty list is not a condition. The
    /// default is none: the result may start with any message.
    #[must_use]
    pub fn start_on(mut self, speakers: impl IntoIterator<Item = Speaker>) -> Self {
        if let Strategy::Last { start_on, .. } = &mut self.strategy {
            *start_on = Speakers::new(speakers);
        }
        self
    }

    /// Keeps the system or developer message at the beginning of the list, even if it alone is over the budget. Only
    /// [`end_on`](Self::end_on) can leave it out. By default, it is treated like any other message.
    #[must_use]
    pub const fn include_system(mut self) -> Self {
        if let Strategy::Last { include_system, .. } = &mut self.strategy {
            *include_system = true;
        }
        self
    }
}

impl Trim<First> {
    /// Keeps the oldest messages that together have at most `max_tokens` tokens.
    #[must_use]
    pub fn first(max_tokens: u64) -> Self {
        Self::of(Strategy::First, max_tokens)
    }
}

impl<S> Trim<S> {
    fn of(strategy: Strategy, max_tokens: u64) -> Self {
        let (end_on, side) = (Speakers::default(), PhantomData);
        Self { strategy, max_tokens, end_on, splitter: None, keep_tool_pairs: true, side }
    }

    /// Leaves out all messages after the last one by one of these speakers. An empty list is not a condition. The
    /// default is none: the result may end with any message.
    ///
    /// [`Trim::last`] does this before it counts tokens, [`Trim::first`] after that.
    #[must_use]
    pub fn end_on(mut self, speakers: impl IntoIterator<Item = Speaker>) -> Self {
        self.end_on = Speakers::new(speakers);
        self
    }

    /// Keeps a part of the first message that does not fit: as many parts of its content as fit, or as many lines of
    /// its text. [`Trim::first`] keeps the first of them, [`Trim::last`] the last. If not even one part fits whole, the
    /// content becomes a text: the lines of that part that fit. By default, the message is left out.
    #[must_use]
    pub fn allow_partial(self) -> Self {
        self.allow_partial_by(by_lines)
    }

    /// Keeps a part of the first message that does not fit, like [`allow_partial`](Self::allow_partial), but splits
    /// texts with this closure. The pieces that are kept are joined without a separator.
    #[must_use]
    pub fn allow_partial_by(mut self, splitter: impl Fn(&str) -> Vec<String> + Send + Sync + 'static) -> Self {
        self.splitter = Some(Arc::new(splitter));
        self
    }

    /// Sets whether a call and its results are kept or left out together. The default is `true`. With `false`, the
    /// outcome is identical to LangChain's.
    ///
    /// With `true`, a result is left out in advance unless it follows its call with only other results between them. A
    /// call that has no result in the list stays. Messages with calls and tool results are never kept in
    /// [part](Self::allow_partial), and no part without text is kept.
    #[must_use]
    pub const fn keep_tool_pairs(mut self, keep: bool) -> Self {
        self.keep_tool_pairs = keep;
        self
    }

    /// Returns the messages that fit. It is the same as [`trim_messages`].
    pub fn apply<C>(&self, messages: &[Message], counter: &C) -> Vec<Message>
    where
        C: CountMessages + ?Sized,
    {
        trim_messages(messages, self, counter)
    }
}

/// Splits a text into lines. Each line includes its line end.
fn by_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    if text.ends_with('\n') {
        // After the last line end there is one more line, which is empty.
        lines.push(String::new());
    }
    lines
}

impl<S> fmt::Debug for Trim<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trim")
            .field("strategy", &self.strategy)
            .field("max_tokens", &self.max_tokens)
            .field("end_on", &self.end_on)
            .field("allow_partial", &self.splitter.is_some())
            .field("keep_tool_pairs", &self.keep_tool_pairs)
            .finish()
    }
}
