//! What a trim is asked for.

use std::{fmt, marker::PhantomData, sync::Arc};

use tower_chat_history_core::Message;

use super::{
    speaker::{Speaker, Speakers},
    trim_messages,
};
use crate::tokens::CountMessages;

/// What [`trim_messages`] is asked for. What makes no sense for a strategy cannot be asked of it.
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
/// // The first messages do not start anywhere else.
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
    /// What can be asked for.
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
    /// Keeps the newest messages that together have at most that many tokens.
    #[must_use]
    pub fn last(max_tokens: u64) -> Self {
        Self::of(Strategy::Last { start_on: Speakers::default(), include_system: false }, max_tokens)
    }

    /// Leaves out what comes before the first message by one of these speakers. An empty list is no condition. The default
    /// is to start anywhere.
    #[must_use]
    pub fn start_on(mut self, speakers: impl IntoIterator<Item = Speaker>) -> Self {
        if let Strategy::Last { start_on, .. } = &mut self.strategy {
            *start_on = Speakers::new(speakers);
        }
        self
    }

    /// Keeps the system or developer message that the list starts with, if it does, even if it alone is over the budget; only
    /// [`end_on`](Self::end_on) can leave it out. The default is to treat it like any other.
    #[must_use]
    pub const fn include_system(mut self) -> Self {
        if let Strategy::Last { include_system, .. } = &mut self.strategy {
            *include_system = true;
        }
        self
    }
}

impl Trim<First> {
    /// Keeps the oldest messages that together have at most that many tokens.
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

    /// Leaves out what comes behind the last message by one of these speakers. An empty list is no condition. The default is
    /// to end anywhere.
    ///
    /// [`Trim::last`] does this first, and then looks what fits; [`Trim::first`] does it last.
    #[must_use]
    pub fn end_on(mut self, speakers: impl IntoIterator<Item = Speaker>) -> Self {
        self.end_on = Speakers::new(speakers);
        self
    }

    /// Keeps a part of the message that fits no longer: of a list of parts as many as fit, of a text as many lines; the first
    /// ones, or with [`Trim::last`] the last ones. Where not even one part fits whole, its lines are the content, as a text.
    /// The default is to leave the message out.
    #[must_use]
    pub fn allow_partial(self) -> Self {
        self.allow_partial_by(by_lines)
    }

    /// The same, with a text split by this closure. What it returns is joined again without a separator.
    #[must_use]
    pub fn allow_partial_by(mut self, splitter: impl Fn(&str) -> Vec<String> + Send + Sync + 'static) -> Self {
        self.splitter = Some(Arc::new(splitter));
        self
    }

    /// Whether a call and its results are kept together, or left out together. The default is that they are; without it, the
    /// outcome is LangChain's.
    ///
    /// A result that does not follow its call, with nothing but other results between them, is left out first. A call that
    /// the list itself leaves unanswered stays. Of calls and results no [part](Self::allow_partial) is kept, nor of any message
    /// a part that has no text.
    #[must_use]
    pub const fn keep_tool_pairs(mut self, keep: bool) -> Self {
        self.keep_tool_pairs = keep;
        self
    }

    /// The same as [`trim_messages`].
    pub fn apply<C>(&self, messages: &[Message], counter: &C) -> Vec<Message>
    where
        C: CountMessages + ?Sized,
    {
        trim_messages(messages, self, counter)
    }
}

/// Lines, each with the end it has.
fn by_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    if text.ends_with('\n') {
        // Behind the last line end there is one more line, an empty one.
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
