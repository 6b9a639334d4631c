//! The words of a message, in all dialects. Reasoning and sealed parts are left out.

use std::{borrow::Cow, collections::HashMap};

use tower_chat_history_core::{CallId, Message, Part};

use super::{shorten::shorten, transcript::one_line};

/// The largest part of a call's arguments that is shown, in characters.
pub(super) const ARGUMENTS_CHARS: usize = 1_000;

/// The largest part of data in an unknown form that is shown, in characters.
const DATA_CHARS: usize = 2_000;

/// The words of a message, without those of its calls.
pub(super) struct Said<'m> {
    pub(super) name: Option<&'m str>,
    /// The results of calls, one for each call.
    pub(super) results: Vec<(&'m CallId, Words)>,
    /// The other words.
    pub(super) own: Words,
    /// `true` if the message has reasoning or sealed data.
    pub(super) has_reasoning: bool,
}

/// The text of a message or a result, and one text for each part that is not text.
#[derive(Default)]
pub(super) struct Words {
    text: String,
    others: Vec<String>,
}

impl Words {
    /// Returns the text, and each other text in a line of its own.
    pub(super) fn joined(self) -> String {
        let Self { mut text, others } = self;
        for other in others {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&other);
        }
        text
    }
}

impl<'m> Said<'m> {
    pub(super) fn of(message: &'m Message) -> Self {
        let mut said = Said { name: None, results: Vec::new(), own: Words::default(), has_reasoning: false };
        let mut places: HashMap<&CallId, usize> = HashMap::new();
        for call in message.answers() {
            places.entry(call).or_insert_with(|| {
                said.results.push((call, Words::default()));
                said.results.len() - 1
            });
        }
        // The result that other parts of a result message belong to.
        let mut newest = 0;
        message.parts(&mut |part| {
            let other = match part {
                Part::Name(name) => {
                    said.name = Some(name);
                    None
                }
                Part::Text(text) => {
                    said.own.text.push_str(&text);
                    None
                }
                Part::Result { call, text } => {
                    newest = places.get(call).copied().unwrap_or(newest);
                    let words = said.results.get_mut(newest).map_or(&mut said.own, |(_, words)| words);
                    words.text.push_str(&text);
                    None
                }
                Part::Reasoning(_) | Part::Sealed(_) => {
                    said.has_reasoning = true;
                    None
                }
                part => other(message, part),
            };
            if let Some(other) = other {
                let result = said.results.get_mut(newest).filter(|_| message.is_tool_result());
                result.map_or(&mut said.own, |(_, words)| words).others.push(other);
            }
        });
        said
    }

    /// Returns all words as one text.
    pub(super) fn joined(self) -> String {
        let mut all = self.own;
        for (_, words) in self.results {
            all.others.push(words.joined());
        }
        all.joined()
    }
}

/// Returns all words of a message as one text, with the calls and the results in brackets.
pub(super) fn in_brackets(message: &Message) -> String {
    let Said { results, mut own, .. } = Said::of(message);
    own.others.extend(results.into_iter().map(|(_, words)| format!("[result: {}]", words.joined())));
    own.others.extend(message.tool_calls().iter().map(|call| called(call.name(), call.arguments())));
    own.joined()
}

/// Returns the text for a part that is no text: its words, or its kind in brackets.
fn other(message: &Message, part: Part<'_>) -> Option<String> {
    match part {
        Part::Refusal(refusal) => Some(refusal.into_owned()).filter(|refusal| !refusal.is_empty()),
        Part::Media { words: Some(words), .. } => Some(words.into_owned()),
        Part::OtherCall { name, arguments } => Some(called(&name, &arguments)),
        Part::Other { kind, text } if kind.is_empty() => of_unknown_form(message, text),
        Part::Media { kind, .. } | Part::Other { kind, .. } => Some(format!("[{}]", one_line(&kind))),
        _ => None,
    }
}

fn called(name: &str, arguments: &str) -> String {
    format!("[calls {}: {}]", one_line(name), shorten(arguments, ARGUMENTS_CHARS))
}

/// Returns the text of a part whose kind is not known. Long JSON is shortened, because it may be data.
fn of_unknown_form(message: &Message, text: Cow<'_, str>) -> Option<String> {
    // The whole message has fields of an unknown form. Its other parts are shown.
    if text == message.json() {
        return None;
    }
    if !text.starts_with(['{', '[']) {
        return Some(text.into_owned());
    }
    let has_words = text.contains(char::is_alphanumeric);
    Some(if has_words { shorten(&text, DATA_CHARS).into_owned() } else { "[part]".to_owned() })
}

#[cfg(test)]
mod tests {
    use test_providers::signing::SigningDialect;
    use tower_chat_history_context::tokens::{ByteEstimate, TokenCounter as _};
    use tower_chat_history_core::Role;

    use super::{
        super::{shorten::shorten_message, transcript::transcript},
        *,
    };

    fn element(json: &str) -> Message {
        Message::in_dialect(&SigningDialect, json).unwrap()
    }

    /// A turn with two calls of one id in different spaces, and a result element with a text of the user.
    fn turn() -> Vec<Message> {
        [
            r#"{"from":"user","text":"Which is warmer?"}"#,
            r#"{"from":"model","thinking":"secret","signature":"secret"}"#,
            r#"{"from":"model","plan":"secret","next":true}"#,
            r#"{"from":"model","call":{"id":"x","kind":"f","name":"weather","input":"Oslo"}}"#,
            r#"{"from":"model","call":{"id":"x","kind":"g","name":"map","input":"Rome"}}"#,
            r#"{"from":"user","results":[{"to":"x","kind":"g","text":"20"},{"to":"x","kind":"f","text":"-3"}],"text":"Well?"}"#,
            r#"{"from":"user","results":[{"to":"?","kind":"f","text":"late"}]}"#,
            r#"{"from":"model","sealed":"secret","by":"one"}"#,
            r#"{"from":"model","thinking":"secret","signature":"secret","text":"Rome."}"#,
            r#"{"from":"tool_list","secret":"secret"}"#,
        ]
        .map(element)
        .to_vec()
    }

    #[test]
    fn a_transcript_has_texts_calls_and_results_and_no_reasoning() {
        assert_eq!(
            transcript(&turn()),
            "user: Which is warmer?\n\
             assistant calls weather: Oslo\n\
             assistant calls map: Rome\n\
             result of map: 20\n\
             result of weather: -3\n\
             user: Well?\n\
             result of a tool: late\n\
             assistant: Rome.\n\
             tool_list: [tool_list]\n"
        );
    }

    #[test]
    fn a_shortened_message_stays_in_its_dialect_and_loses_its_reasoning() {
        let counter = ByteEstimate::new();
        let long = "word ".repeat(10_000);
        for (json, role, begins) in [
            (
                format!(r#"{{"from":"model","thinking":"secret {long}","signature":"00","text":"{long}"}}"#),
                Role::Assistant,
                "word ",
            ),
            (
                format!(r#"{{"from":"model","call":{{"id":"x","kind":"g","name":"look","input":"{long}"}}}}"#),
                Role::Assistant,
                "[calls look: word ",
            ),
            (
                format!(r#"{{"from":"user","results":[{{"to":"x","kind":"f","text":"{long}"}}]}}"#),
                Role::User,
                "[result: word ",
            ),
        ] {
            let shorter = shorten_message(&element(&json), 200, &counter).unwrap();
            assert_eq!(shorter.dialect().map(|dialect| dialect.name()), Some(SigningDialect::NAME));
            assert!(counter.count_message(&shorter) <= 200, "{begins}");
            assert_eq!(*shorter.role(), role);
            assert!(shorter.text().starts_with(begins) && !shorter.text().contains("secret"), "{}", shorter.text());
        }
        let note = shorten_message(&element(&format!(r#"{{"from":"model","text":"{long}"}}"#)), 1, &counter).unwrap();
        assert!(note.text().ends_with("tokens, left out]") && note.is_reply(), "{}", note.text());
    }

    #[test]
    fn data_of_an_unknown_form_is_shortened() {
        let data = format!(r#"{{"data":"{}"}}"#, "A".repeat(100_000));
        let message = Message::from_json(format!(r#"{{"role":"user","content":[{data}]}}"#)).unwrap();
        assert!(transcript(&[message]).len() < 3_000);
        let odd = Message::from_json(r#"{"role":"assistant","content":"a","refusal":{"odd":1}}"#).unwrap();
        assert_eq!(transcript(&[odd]), "assistant: a\n");
    }
}
