//! Callers that resend what they have.

use tower_chat_history_core::{Message, Recorded, Role, Seq, Window};

use crate::TranscriptError;

/// What of a request is new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum InputMode {
    /// Everything behind the head.
    #[default]
    New,
    /// What comes after the last assistant message. The caller keeps its own list and sends all of it, as code that was
    /// written without history does: what stands before the input is compared with the log's end, and the window is sent in
    /// its place.
    ///
    /// So the caller's list must be what was stored: take a reply out of it that was interrupted or not saved, and do not
    /// store other messages than those that were sent.
    Transcript,
}

impl InputMode {
    /// Where the input starts among the messages behind the head. What stands before it is the
    /// [transcript](crate::TurnInput::transcript).
    ///
    /// ```
    /// use tower_chat_history::{InputMode, Message};
    ///
    /// let messages = [Message::user("Hi"), Message::assistant("Hello!"), Message::user("And?")];
    /// assert_eq!(InputMode::New.input_start(&messages), 0);
    /// assert_eq!(InputMode::Transcript.input_start(&messages), 2);
    /// ```
    #[must_use]
    pub fn input_start(self, messages: &[Message]) -> usize {
        match self {
            Self::New => 0,
            Self::Transcript => {
                messages.iter().rposition(|message| *message.role() == Role::Assistant).map_or(0, |last| last + 1)
            }
        }
    }
}

/// Checks that a transcript is the end of the log, as far as that is loaded.
///
/// Messages are compared by role, text and calls, and not by bytes: clients drop fields that their types do not know. A
/// transcript that is longer than what is loaded agrees if the log goes on before that; an empty one always agrees.
pub(crate) fn check(transcript: &[Message], loaded: Option<&Window>) -> Result<(), TranscriptError> {
    let log = loaded.into_iter().flat_map(|window| &window.exchanges).flat_map(messages);
    let log: Vec<(Seq, &Message)> = log.collect();
    let mut expected = log.iter().rev();
    for (position, message) in transcript.iter().enumerate().rev() {
        match expected.next() {
            Some((_, logged)) if says_the_same(message, logged) => {}
            Some((seq, _)) => return Err(TranscriptError { position, seq: Some(*seq) }),
            None if loaded.is_some_and(goes_on_before) => return Ok(()),
            None => return Err(TranscriptError { position, seq: None }),
        }
    }
    Ok(())
}

fn messages(recorded: &Recorded) -> impl DoubleEndedIterator<Item = (Seq, &Message)> {
    recorded.exchange.messages.iter().map(|message| (recorded.seq, message))
}

/// Whether the log has exchanges before those that were loaded, or had them before it was pruned.
fn goes_on_before(window: &Window) -> bool {
    window.exchanges.first().is_some_and(|first| first.seq > Seq::FIRST)
}

fn says_the_same(one: &Message, other: &Message) -> bool {
    one == other
        || one.role() == other.role()
            && one.tool_call_id() == other.tool_call_id()
            && one.tool_calls() == other.tool_calls()
            && one.text() == other.text()
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{Exchange, ExchangeId, Incarnation, Revision};

    use super::*;
    use crate::view::tests::calls;

    fn log(first: u64, exchanges: &[&[Message]]) -> Window {
        let recorded = (first..).zip(exchanges).map(|(seq, messages)| {
            Recorded::new(Seq::new(seq), Exchange::new(ExchangeId::generate(), messages.to_vec()))
        });
        Window::new(Revision::new(Incarnation::random(), 1), None, recorded.collect(), first > 0)
    }

    fn turn(number: u64) -> [Message; 2] {
        [Message::user(format!("u{number}")), Message::assistant(format!("a{number}"))]
    }

    #[test]
    fn a_transcript_is_the_end_of_the_log() {
        let log = log(0, &[&turn(0), &turn(1)]);
        assert_eq!(check(&[turn(0), turn(1)].concat(), Some(&log)), Ok(()));
        assert_eq!(check(&turn(1), Some(&log)), Ok(()), "what came before may be left out");
        assert_eq!(check(&[], Some(&log)), Ok(()));
        assert_eq!(check(&[], None), Ok(()));
    }

    #[test]
    fn where_they_part_is_said() {
        let log = log(0, &[&turn(0), &turn(1)]);
        let mut edited = [turn(0), turn(1)].concat();
        edited[1] = Message::assistant("other");
        assert_eq!(check(&edited, Some(&log)), Err(TranscriptError { position: 1, seq: Some(Seq::FIRST) }));
        let longer = [turn(9), turn(0), turn(1)].concat();
        assert_eq!(check(&longer, Some(&log)), Err(TranscriptError { position: 1, seq: None }));
        assert_eq!(check(&turn(0), None), Err(TranscriptError { position: 1, seq: None }), "there is no log yet");
    }

    #[test]
    fn only_what_is_loaded_is_compared() {
        let log = log(5, &[&turn(5)]);
        assert_eq!(check(&[turn(4), turn(5)].concat(), Some(&log)), Ok(()));
    }

    #[test]
    fn fields_that_a_client_drops_make_no_difference_and_calls_do() {
        let full = Message::from_json(r#"{"content":"a0","role":"assistant","reasoning_content":"r"}"#).unwrap();
        let logged = log(0, &[&[Message::user("u0"), full], &[Message::user("u1"), calls(&["x"])]]);
        assert_eq!(
            check(&[turn(0).to_vec(), vec![Message::user("u1"), calls(&["x"])]].concat(), Some(&logged)),
            Ok(())
        );
        assert_eq!(
            check(&[Message::user("u1"), calls(&["y"])], Some(&logged)),
            Err(TranscriptError { position: 1, seq: Some(Seq::new(1)) })
        );
    }
}
