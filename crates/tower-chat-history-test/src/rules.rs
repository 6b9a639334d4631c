//! Ready-made rules for mock models.

use tower_chat_history_core::{Message, Role};

use crate::reply::Reply;

/// Returns a rule for a model that remembers nothing: it answers from the messages of the request only. With this rule,
/// a program can show that its history works.
///
/// It takes the user's name from any user message ("my name is X", "I'm X", "I am X" or "call me X"; the last one
/// counts). It answers "what is my name?" and "who am I?" with the name, or says that it does not know it. It answers
/// "how many messages" with the number of messages received, and greetings with a greeting. To any other text, it
/// answers with the text, cut to 60 characters, and the number of messages received.
///
/// ```
/// use tower_chat_history_core::Message;
/// use tower_chat_history_test::{Replies, rules::{remembered_answer, remembering}};
///
/// let replies = Replies::rules(remembering());
///
/// // The same answers as text:
/// let name = Message::user("Hi! My name is Nemo.");
/// let question = Message::user("What is my name?");
/// assert_eq!(remembered_answer(&[name.clone()]), "Nice to meet you, Nemo!");
/// assert_eq!(remembered_answer(&[name, question.clone()]), "Your name is Nemo.");
/// assert_eq!(remembered_answer(&[question]), "I do not know your name.");
/// ```
pub fn remembering() -> impl Fn(&[Message]) -> Reply + Clone + Send + Sync + 'static {
    |messages| Reply::text(remembered_answer(messages))
}

/// Returns the text of the reply of [`remembering`]. Your own rules can fall back to it.
#[must_use]
pub fn remembered_answer(messages: &[Message]) -> String {
    let received = match messages.len() {
        1 => "1 message".to_owned(),
        count => format!("{count} messages"),
    };
    let Some(last) = messages.last().filter(|last| *last.role() == Role::User || last.is_tool_result()) else {
        return format!("I received {received}, and the last one is not for me.");
    };
    let text = last.text();
    if last.is_tool_result() {
        return format!("The tool says: {} (I received {received}.)", shortened(&text));
    }

    let users = messages.iter().filter(|message| *message.role() == Role::User);
    let name = users.rev().find_map(|message| introduced(&message.text()));
    let question = text.to_lowercase().replace('’', "'");
    if ASKS_FOR_NAME.iter().any(|phrase| question.contains(phrase)) {
        return name.map_or_else(|| "I do not know your name.".to_owned(), |name| format!("Your name is {name}."));
    }
    if question.contains("how many messages") {
        return format!("I received {received}.");
    }

    if let Some(name) = introduced(&text) {
        return format!("Nice to meet you, {name}!");
    }
    let first_word = question.split(|c: char| !c.is_alphanumeric()).find(|word| !word.is_empty());
    if matches!(first_word, Some("hello" | "hi" | "hey" | "greetings")) {
        return name.map_or_else(|| "Hello!".to_owned(), |name| format!("Hello, {name}!"));
    }
    format!("You said: {} (I received {received}.)", shortened(&text))
}

/// Questions about the user's name.
const ASKS_FOR_NAME: [&str; 6] =
    ["what is my name", "what's my name", "whats my name", "who am i", "know my name", "remember my name"];

/// Returns the name that the author of a text states as their own.
fn introduced(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let plain: Vec<String> = words.iter().map(|word| bare(word).to_lowercase().replace('’', "'")).collect();

    (0..words.len()).rev().find_map(|at| {
        let phrases: [(&[&str], bool); 5] = [
            (&["my", "name", "is"], true),
            (&["my", "name's"], true),
            (&["call", "me"], true),
            (&["i", "am"], false),
            (&["i'm"], false),
        ];

        let (phrase, sure) = phrases.into_iter().find(|(phrase, _)| begins_with(&plain[at..], phrase))?;
        // A phrase that ends a sentence introduces no name: "who do you think I am? Guess."
        let before = words.get(at + phrase.len() - 1)?;
        let start = at + phrase.len();
        if before.ends_with(['.', '?', '!', ',']) {
            return None;
        }
        name(words.get(start..)?, sure)
    })
}

fn begins_with(words: &[String], phrase: &[&str]) -> bool {
    words.len() >= phrase.len() && words.iter().zip(phrase).all(|(word, expected)| word == expected)
}

/// Returns the name that these words begin with: one word, and the following ones while they are capitalized.
fn name(words: &[&str], sure: bool) -> Option<String> {
    let first = bare(words.first()?);
    let lower = first.to_lowercase();
    if first.is_empty() || (!sure && (NOT_NAMES.contains(&&*lower) || lower.ends_with("ing"))) {
        return None;
    }

    let mut name = capitalized(first);
    for pair in words.windows(2) {
        let [before, next] = pair else { break };
        let closed = !before.ends_with(|c: char| c.is_alphanumeric());
        let next = bare(next);
        if closed || !next.starts_with(char::is_uppercase) || next == "I" || next.starts_with("I'") {
            break;
        }
        name.push(' ');
        name.push_str(next);
    }
    Some(name)
}

/// Words that follow "I am" far more often than a name does: "I'm here", "I am not sure".
const NOT_NAMES: [&str; 32] = [
    "a", "afraid", "all", "also", "an", "at", "back", "done", "fine", "from", "glad", "going", "good", "happy", "here",
    "hungry", "in", "just", "not", "now", "ok", "okay", "on", "ready", "so", "sorry", "still", "sure", "the", "tired",
    "very", "well",
];

/// Returns the word without punctuation around it.
fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

fn capitalized(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Returns the text in quotes, cut to 60 characters.
fn shortened(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("\"{}…\"", &text[..end]),
        None => format!("\"{text}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(users: &[&str]) -> String {
        let messages: Vec<_> = users.iter().map(Message::user).collect();
        remembered_answer(&messages)
    }

    #[test]
    fn names_are_learned_from_all_phrases() {
        for text in [
            "my name is Nemo",
            "My name is nemo.",
            "Hey there! I'm Nemo.",
            "hi, i’m nemo, and you?",
            "I AM Nemo!",
            "please call me \"Nemo\"",
            "I'm tired. Call me Nemo, I am waiting.",
        ] {
            assert_eq!(answer(&[text]), "Nice to meet you, Nemo!", "{text}");
            assert_eq!(answer(&[text, "so, what's my name?"]), "Your name is Nemo.", "{text}");
        }
        assert_eq!(answer(&["I am Ada Lovelace. Who are you?"]), "Nice to meet you, Ada Lovelace!");
        assert_eq!(answer(&["my name is Nemo", "call me Dory", "who am I?"]), "Your name is Dory.");
        assert_eq!(answer(&["My name is Nemo. What is my name?"]), "Your name is Nemo.");
    }

    #[test]
    fn names_that_were_not_sent_are_not_known() {
        assert_eq!(answer(&["what is my name?"]), "I do not know your name.");
        assert_eq!(answer(&["I'm looking for a fish", "I am not sure", "Who am I?"]), "I do not know your name.");
        let prompt = [Message::assistant("I'm Nemo"), Message::system("I'm Nemo"), Message::user("who am i")];
        assert_eq!(remembered_answer(&prompt), "I do not know your name.", "only the user's own words count");
    }

    #[test]
    fn messages_are_counted_greetings_returned_and_texts_echoed() {
        assert_eq!(answer(&["How many messages did you get?"]), "I received 1 message.");
        assert_eq!(answer(&["a", "how many messages"]), "I received 2 messages.");
        assert_eq!(answer(&["Hello?"]), "Hello!");
        assert_eq!(answer(&["I'm Nemo", "hey"]), "Hello, Nemo!");
        assert_eq!(answer(&["", "the sea"]), "You said: \"the sea\" (I received 2 messages.)");
        let long = answer(&[&"ä".repeat(61)]);
        assert!(long.contains(&format!("\"{}…\"", "ä".repeat(60))), "{long}");
        let result = remembered_answer(&[Message::user("u"), Message::tool("a", "12 degrees")]);
        assert_eq!(result, "The tool says: \"12 degrees\" (I received 2 messages.)");
    }
}
