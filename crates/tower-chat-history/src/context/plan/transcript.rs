//! The check of transcripts, which callers resend.
//!
//! # Decisions
//!
//! - **A transcript is compared by meaning**: speakers, texts, calls and results. Clients drop fields that their types
//!   lack, and write objects in their own spelling. The messages of the log are sent, not those of the transcript.

use tower_chat_history_core::{Dialect, Exchange, Message, Recorded, Seq};

use super::same::{is_constant, is_empty_or_white, is_same, is_silent, match_said};

/// A transcript that differs from the end of the log. The caller has changed it, or it belongs to another conversation.
///
/// Send only new messages, or import the messages that the store does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("message {position} (counted from 0 after the head) {}", match .seq {
    Some(seq) => format!("differs from the stored message of exchange {seq}"),
    None => "precedes all stored messages".to_owned(),
})]
pub struct TranscriptError {
    /// The last message that differs, counted from 0 after the head.
    pub position: usize,
    /// The exchange that has a different message at its position, or `None` if the message precedes the whole log.
    pub seq: Option<Seq>,
}

/// The largest number of alternatives that are followed at the same time when a list is matched with a log. With this
/// limit, the work grows linearly with the log and not with its square.
const MAX_ALTERNATIVES: usize = 32;

/// Checks that a transcript is the end of the log, as far as the log is loaded.
///
/// Messages are compared by speaker, text, calls and results, not by bytes, because clients drop fields that their
/// types do not know, trim texts, and write arguments of calls in their own spelling. Of other parts, such as
/// reasoning, only the kinds are compared, and only in elements that have nothing else. The transcript may lack such an
/// element of a reply, because clients drop what they do not know. The log may not lack it, because the prompt would
/// lack it, too. Blank elements are skipped on both sides. A transcript may be longer than the loaded part if the log
/// has earlier exchanges. An empty transcript always agrees.
///
/// The transcript may have the constant messages of a prompt: replies before questions, and results of abandoned calls.
///
/// The exchanges are compared as they are stored. Of an exchange in another dialect, only what is said is compared: the
/// caller has chosen the ids of its calls, and which texts are one message.
///
/// A transcript may lack exchanges that the caller possibly does not know: those whose reply broke off, and those with
/// only tool results, which were stored without a model call.
pub(crate) fn check(transcript: &[Message], loaded: Option<&[Recorded]>) -> Result<(), TranscriptError> {
    let Some(first) = transcript.iter().position(|message| !is_empty_or_white(message)) else { return Ok(()) };

    // As long as a message is left, one is left that is not blank: the first.
    let messages = &transcript[first..];
    let dialect = messages.iter().find_map(Message::dialect).map(Dialect::name);

    // The alternatives. Each is the number of the caller's messages that are not matched yet. Each exchange that the
    // caller may lack adds one alternative.
    let mut left = vec![messages.len()];
    let mut mismatch: Option<TranscriptError> = None;
    for Recorded { seq, exchange, .. } in loaded.into_iter().flatten().rev() {
        let is_other = dialect.is_some_and(|name| name != exchange.dialect.as_str());
        let mut next = Vec::with_capacity(left.len() + 1);
        for end in left {
            if may_be_unknown(exchange) {
                next.push(end);
            }
            let messages = &messages[..end];
            let matched =
                if is_other { match_said(messages, exchange) } else { match_exchange(messages, &exchange.messages) };
            match matched {
                Ok(0) => return Ok(()),
                Ok(rest) => next.push(rest),
                Err(position) => {
                    let position = first + position;
                    if mismatch.is_none_or(|mismatch| position <= mismatch.position) {
                        mismatch = Some(TranscriptError { position, seq: Some(*seq) });
                    }
                }
            }
        }

        if next.len() > 1 {
            // Alternatives that differ only in blank messages are the same.
            for end in &mut next {
                *end = without_blank_end(&messages[..*end]);
            }
        }
        next.sort_unstable();
        next.dedup();
        if next.len() > MAX_ALTERNATIVES {
            // The middle is dropped: a caller has either all of these exchanges or none.
            next.drain(MAX_ALTERNATIVES / 2..next.len() - MAX_ALTERNATIVES / 2);
        }
        left = next;
    }

    let Some(rest) = left.first() else { return mismatch.map_or(Ok(()), Err) };
    if loaded.is_some_and(has_earlier_exchanges) {
        return Ok(());
    }

    let position = first + without_blank_end(&messages[..*rest]).saturating_sub(1);
    let before = TranscriptError { position, seq: None };
    Err(mismatch.filter(|mismatch| mismatch.position < before.position).unwrap_or(before))
}

/// Matches the end of the messages with those of an exchange. Returns the number of messages before it, or the position
/// of the last message that differs.
///
/// Nearly all messages are equal to the logged ones. They are compared byte by byte, and only the parts of others are
/// read.
fn match_exchange(mut messages: &[Message], mut logged: &[Message]) -> Result<usize, usize> {
    while let Some((message, earlier)) = messages.split_last()
        && let Some((last, earlier_logged)) = logged.split_last()
    {
        if message == last {
            messages = earlier;
            logged = earlier_logged;
        } else if is_empty_or_white(message) {
            messages = earlier;
        } else if is_same(message, last) {
            messages = earlier;
            logged = earlier_logged;
        } else if is_silent(last) {
            logged = earlier_logged;
        } else if is_constant(message) {
            messages = earlier;
        } else {
            return Err(earlier.len());
        }
    }
    Ok(messages.len())
}

/// Returns the number of messages without the blank ones at the end.
fn without_blank_end(messages: &[Message]) -> usize {
    messages.iter().rposition(|message| !is_empty_or_white(message)).map_or(0, |last| last + 1)
}

/// Returns `true` if the caller may not know the exchange.
fn may_be_unknown(exchange: &Exchange) -> bool {
    exchange.incomplete || exchange.messages.iter().all(Message::is_tool_result)
}

/// Returns `true` if the log has exchanges before those that were loaded, or had them before it was pruned.
fn has_earlier_exchanges(loaded: &[Recorded]) -> bool {
    loaded.first().is_some_and(|first| first.seq > Seq::FIRST)
}
