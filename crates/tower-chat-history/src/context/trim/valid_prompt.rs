//! Fitting a list of messages by the rules of the layer.

use tower_chat_history_core::{LoadLimit, Message, Recorded};

use crate::context::{
    budget::{CallLimits, PromptTokens, Watermark, Watermarks},
    plan::{Conditions, FitBudget, FitError, History, OnOpenTurn, PlanInput, plan},
    request::{InputMode, RequestMessages},
    tokens::{TokenCounter, tokens_of},
};

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
    let cost = |message: &Message| u64::from(tokens_of(counter, message));
    let sum = |messages: &[Message]| messages.iter().map(cost).sum();
    let RequestMessages { head, transcript, input } =
        RequestMessages::split(messages.to_vec(), 0, InputMode::Transcript);
    let budget = FitBudget {
        limits: CallLimits { context: max_tokens, prompt: max_tokens, reserve: 0, least_reply: None, ratio: 1.0 },
        watermarks: Watermarks { high: Watermark::Percent(100), low: Watermark::Percent(100) },
        clear: None,
        trimmer: None,
        stores: false,
        parts: PromptTokens { head: sum(&head), input: sum(&input), ..PromptTokens::default() },
        cost: &cost,
    };
    let plan = plan(&PlanInput {
        history: History::Resent(&Recorded::log(transcript)),
        summary: None,
        summary_tokens: 0,
        input: &input,
        instead: None,
        limit: LoadLimit::default(),
        on_open_turn: OnOpenTurn::Supersede,
        recall_reserve: None,
        recalls_others: false,
        overcount: 0,
        conditions: Conditions::unknown(),
        budget: Some(budget),
    })?;
    Ok(head.into_iter().chain(plan.fit.window).chain(input.iter().cloned()).collect())
}
