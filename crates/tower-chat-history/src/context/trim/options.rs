//! The options of a trim, and the speakers that they name.

use std::{fmt, marker::PhantomData, sync::Arc};

use tower_chat_history_core::Role;

/// The options of [`trim_messages`](super::trim_messages). The strategy is a type ([`Last`] or [`First`]), so an option
/// that has no meaning for the strategy does not compile.
///
/// ```
/// use tower_chat_history::{Message, tokens::ByteEstimate, trim::{Speaker, Trim}};
///
/// let messages = [
///     Message::user("What does Tom chase?"),
///     Message::assistant("Mice!"),
///     Message::user("And Jerry?"),
/// ];
/// let trim = Trim::last(10).start_on([Speaker::User]);
/// let kept = trim.apply(&messages, &ByteEstimate::new());
/// assert_eq!(kept, messages[2..]);
/// ```
///
/// ```compile_fail
/// // A list of the oldest messages always starts with the first one.
/// use tower_chat_history::trim::{Speaker, Trim};
/// let trim = Trim::first(10).start_on([Speaker::User]);
/// ```
///
/// ```compile_fail
/// // There is no such speaker.
/// use tower_chat_history::trim::Trim;
/// let trim = Trim::last(10).start_on(["usr"]);
/// ```
#[derive(Clone)]
pub struct Trim<S> {
    pub(super) strategy: Strategy,
    pub(super) max_tokens: u64,
    pub(super) end_on: Speakers,
    pub(super) splitter: Option<Splitter>,
    pub(super) keep_tool_pairs: bool,
    /// The strategy as a type. It determines the options that exist.
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

    /// Sets the speakers that the result may start with. All messages before the first message by one of these speakers
    /// are left out, except a [system message](Self::include_system). The default is an empty list: the result may
    /// start with any message.
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
        Self {
            strategy,
            max_tokens,
            end_on: Speakers::default(),
            splitter: None,
            keep_tool_pairs: true,
            side: PhantomData,
        }
    }

    /// Sets the speakers that the result may end with. All messages after the last message by one of these speakers are
    /// left out. The default is an empty list: the result may end with any message.
    ///
    /// With [`Trim::last`], they are left out before tokens are counted. With [`Trim::first`], they are left out
    /// afterward.
    #[must_use]
    pub fn end_on(mut self, speakers: impl IntoIterator<Item = Speaker>) -> Self {
        self.end_on = Speakers::new(speakers);
        self
    }

    /// Keeps a part of the first message that does not fit. By default, that message is left out. ([`Trim::last`]
    /// counts messages from the end of the list, [`Trim::first`] from its beginning.)
    ///
    /// Of a text, as many lines as fit are kept. Of a list of content parts, as many parts as fit are kept. If not even
    /// one part fits, the content becomes a text: as many lines of that part as fit. [`Trim::first`] keeps the first
    /// lines or parts, [`Trim::last`] the last.
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

    /// Sets whether a tool call and its results are kept or left out together. The default is `true`. With `false`, the
    /// outcome is identical to LangChain's.
    ///
    /// With `true`, a result that does not follow its call is left out before anything is counted. (Only other results
    /// may be between the call and the result.) A call that has no result in the list stays. Messages with tool calls,
    /// and tool results, are never kept in [part](Self::allow_partial). A part without text is not kept.
    #[must_use]
    pub const fn keep_tool_pairs(mut self, keep: bool) -> Self {
        self.keep_tool_pairs = keep;
        self
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

/// The speaker of a message. It is an enum and not a string, so that a misspelled speaker does not compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Speaker {
    /// The operator: system and developer messages.
    System,
    /// The user.
    #[doc(alias = "human")]
    User,
    /// The model.
    #[doc(alias = "ai")]
    Assistant,
    /// The result of a tool call.
    Tool,
    /// The result of a function call, the older form of [`Tool`](Self::Tool).
    Function,
}

impl Speaker {
    /// Returns the speaker of messages with this role, or `None` if this crate does not know the role.
    #[must_use]
    pub const fn of(role: &Role) -> Option<Self> {
        match role {
            Role::System | Role::Developer => Some(Self::System),
            Role::User => Some(Self::User),
            Role::Assistant => Some(Self::Assistant),
            Role::Tool => Some(Self::Tool),
            Role::Function => Some(Self::Function),
            _ => None,
        }
    }
}

/// A set of speakers.
#[derive(Clone, Debug, Default)]
pub(super) struct Speakers(Vec<Speaker>);

impl Speakers {
    pub(super) fn new(speakers: impl IntoIterator<Item = Speaker>) -> Self {
        Self(speakers.into_iter().collect())
    }

    /// Returns `true` if a list may begin or end with a message of this role. An empty set admits all roles.
    pub(super) fn admit(&self, role: &Role) -> bool {
        self.0.is_empty() || Speaker::of(role).is_some_and(|speaker| self.0.contains(&speaker))
    }
}
