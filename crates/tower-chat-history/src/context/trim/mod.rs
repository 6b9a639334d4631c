//! Trimming lists of messages.
//!
//! These functions are for programs that keep their lists of messages themselves. [`fit_messages`] trims a list to a
//! valid prompt. [`trim_messages`] does the same as LangChain's function of this name. Both return a new list and
//! change nothing. If you use the [layer](crate::ChatHistoryLayer), you need neither, because the layer chooses the
//! messages that are sent.
//!
//! ```
//! use tower_chat_history::{
//!     Message,
//!     tokens::MessageCount,
//!     trim::{Speaker, Trim, trim_messages},
//! };
//!
//! let messages = [
//!     Message::system("you're a good assistant"),
//!     Message::user("I wonder why it's called langchain"),
//!     Message::assistant("Well, I guess they thought it sounded nice"),
//!     Message::user("and who is harrison chasing anyways"),
//!     Message::assistant("Hmmm let me think"),
//!     Message::user("what do you call a speechless parrot"),
//! ];
//! // `MessageCount` counts each message as one token, so this keeps at most 4 messages.
//! let trim = Trim::last(4)
//!     .include_system()
//!     .start_on([Speaker::User])
//!     .end_on([Speaker::User, Speaker::Tool]);
//! let kept = trim_messages(&messages, &trim, &MessageCount::new());
//! assert_eq!(kept, [&messages[..1], &messages[3..]].concat());
//! ```

mod options;
mod partial;
mod scan;

use tower_chat_history_core::{Message, Recorded};

pub use self::options::{First, Last, Speaker, Trim};
use self::{
    options::{Speakers, Strategy},
    partial::partial,
    scan::Scanned,
};
pub use crate::context::plan::FitError;
use crate::context::{
    budget::{CallLimits, PromptTokens, Watermark, Watermarks},
    plan::{CallBudget, FitBudget, History, PlanInput, plan_prompt},
    request::{InputMode, RequestMessages},
    tokens::{TokenCounter, count_messages, tokens_of},
};

/// Returns the messages that fit, as LangChain's `trim_messages` does.
///
/// [`Trim::last`] keeps the newest messages, [`Trim::first`] the oldest. Messages that are kept whole are unchanged,
/// with all the fields that a provider added.
///
/// By default, tool calls and their results are kept or left out together. With
/// [`keep_tool_pairs(false)`](Trim::keep_tool_pairs), the outcome is identical to LangChain's, which may separate them.
///
/// The result is empty if not even one message fits, or if the list has no message by the speakers that
/// [`start_on`](Trim::start_on) and [`end_on`](Trim::end_on) require. The result exceeds the budget in one case: a
/// [system message](Trim::include_system) stays even if it alone is larger.
///
/// At most one message beyond those kept is counted, and none is counted twice. The cost depends on the messages that
/// are kept, not on the length of the list.
pub fn trim_messages<S, C>(messages: &[Message], trim: &Trim<S>, counter: &C) -> Vec<Message>
where
    C: TokenCounter + ?Sized,
{
    match &trim.strategy {
        Strategy::First => first(messages, trim, counter),
        Strategy::Last { start_on, include_system } => last(messages, trim, start_on, *include_system, counter),
    }
}

impl<S> Trim<S> {
    /// Returns the messages that fit, like [`trim_messages`].
    pub fn apply<C>(&self, messages: &[Message], counter: &C) -> Vec<Message>
    where
        C: TokenCounter + ?Sized,
    {
        trim_messages(messages, self, counter)
    }
}

/// Keeps the oldest messages.
fn first<S, C: TokenCounter + ?Sized>(messages: &[Message], trim: &Trim<S>, counter: &C) -> Vec<Message> {
    let list = scan::from_start(messages, trim.keep_tool_pairs);
    let scanned = Scanned::of(list, false, trim.max_tokens, counter);

    let part = partial(&scanned, trim, counter);
    if let Some(part) = part.filter(|part| trim.end_on.admit(part.role())) {
        return scanned.fitting_messages().iter().cloned().chain([part]).collect();
    }

    let mut end = scanned.fitting;
    while let Some(last) = end.checked_sub(1) {
        if can_end_on(&scanned.messages[last], scanned.messages.get(end), trim) {
            break;
        }
        end = last;
    }
    scanned.messages[..end].to_vec()
}

/// Keeps the newest messages.
fn last<S, C: TokenCounter + ?Sized>(
    messages: &[Message],
    trim: &Trim<S>,
    start_on: &Speakers,
    include_system: bool,
    counter: &C,
) -> Vec<Message> {
    let (system, rest) = if include_system { split_system(messages, trim.keep_tool_pairs) } else { (None, messages) };

    let mut list = scan::from_end(rest, trim.keep_tool_pairs).peekable();
    let mut next = None;
    while let Some(message) = list.next_if(|message| !can_end_on(message, next, trim)) {
        next = Some(message);
    }

    // If no other message remains, the list ends with the system message. No result follows it, so only `end_on` can
    // forbid that.
    if list.peek().is_none() && system.is_some_and(|system| !trim.end_on.admit(system.role())) {
        return Vec::new();
    }

    let tokens = system.map_or(0, |system| u64::from(tokens_of(counter, system)));
    let max_tokens = trim.max_tokens.saturating_sub(tokens);
    let scanned = Scanned::of(list, true, max_tokens, counter);

    let part = partial(&scanned, trim, counter).filter(|part| start_on.admit(part.role()));
    let mut kept = scanned.fitting_messages();
    if part.is_none() {
        while let [message, rest @ ..] = kept {
            let separates_a_pair = trim.keep_tool_pairs && message.is_tool_result();
            if start_on.admit(message.role()) && !separates_a_pair {
                break;
            }
            kept = rest;
        }
    }
    system.cloned().into_iter().chain(part).chain(kept.iter().cloned()).collect()
}

/// Splits a list into the system message that it starts with, and the messages after it. Tool results before the system
/// message are left out if pairs are kept, since no call precedes them.
fn split_system(messages: &[Message], keep_tool_pairs: bool) -> (Option<&Message>, &[Message]) {
    let first = messages.iter().position(|message| !keep_tool_pairs || !message.is_tool_result());
    match first {
        Some(first) if Speaker::of(messages[first].role()) == Some(Speaker::System) => {
            (Some(&messages[first]), &messages[first + 1..])
        }
        _ => (None, messages),
    }
}

/// Returns `true` if a list may end on `last`. `next` is the message after it, which is then left out. The list must
/// have no results without their calls.
fn can_end_on<S>(last: &Message, next: Option<&Message>, trim: &Trim<S>) -> bool {
    let separates_a_pair = trim.keep_tool_pairs && next.is_some_and(Message::is_tool_result);
    trim.end_on.admit(last.role()) && !separates_a_pair
}

/// Returns the messages that fit, by the rules of the layer of `tower-chat-history`. The returned list is a valid
/// prompt and has at most `max_tokens` tokens. Only the messages count, without tools and the priming of the reply.
///
/// The system and developer messages at the beginning of the list stay. All messages after the last assistant message
/// stay too. If these are tool results, their calls and the question of that turn also stay.
///
/// If the messages between these two groups do not all fit, the function leaves out the oldest turns, the oldest tool
/// rounds of the remaining turns, or both, so that as many tokens as possible stay. The questions and answers of the
/// remaining turns stay. A tool call and its results are always kept or left out together.
///
/// ```
/// use tower_chat_history::{Message, tokens::ByteEstimate, trim::fit_messages};
///
/// let messages = [
///     Message::user("Who is Tom?"),
///     Message::assistant("A cat."),
///     Message::user("And Jerry?"),
/// ];
/// assert_eq!(fit_messages(&messages, 100, &ByteEstimate::new())?, messages);
/// assert_eq!(fit_messages(&messages, 10, &ByteEstimate::new())?, messages[2..]);
/// assert!(fit_messages(&messages, 5, &ByteEstimate::new()).is_err());
/// # Ok::<(), tower_chat_history::trim::FitError>(())
/// ```
///
/// # Errors
///
/// Returns [`FitError::DoesNotFit`] if the messages that have to stay are larger than `max_tokens`. Returns
/// [`FitError::Input`] if the list has no message after its system and developer messages, if it ends with an assistant
/// message, or if the tool results of its input (the messages after the last assistant message) do not answer exactly
/// the calls before them.
pub fn fit_messages<C>(messages: &[Message], max_tokens: u64, counter: &C) -> Result<Vec<Message>, FitError>
where
    C: TokenCounter + ?Sized,
{
    let RequestMessages { head, transcript, input } =
        RequestMessages::split(messages.to_vec(), 0, InputMode::Transcript);

    let limits = CallLimits { context: max_tokens, prompt: max_tokens, reserve: 0, least_reply: None, ratio: 1.0 };
    let sizes = PromptTokens {
        head: count_messages(counter, &head),
        input: count_messages(counter, &input),
        ..PromptTokens::default()
    };
    let budget = FitBudget {
        call: CallBudget { limits, sizes },
        watermarks: Watermarks { high: Watermark::Percent(100), low: Watermark::Percent(100) },
        clear: None,
        trimmer: None,
        stores: false,
        cost: &|message| u64::from(tokens_of(counter, message)),
    };

    let transcript = Recorded::log(transcript);
    let history = History::Resent(&transcript);
    let plan = plan_prompt(&PlanInput { budget: Some(budget), ..PlanInput::new(history, &input) })?;

    Ok(head.into_iter().chain(plan.fit.window).chain(input.iter().cloned()).collect())
}
