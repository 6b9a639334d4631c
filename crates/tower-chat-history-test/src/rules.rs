//! Ready-made rules for mock models.

use tower_chat_history_core::{Message, Role};

use crate::Reply;

/// A model that remembers what it is sent, and nothing else: made to see with one's own eyes that a history works.
///
/// It takes the user's name from any user message ("my name is X", "I'm X", "I am X", "call me X"; the last one counts) and
/// answers "what is my name?" and "who am I?" with it, or says that it does not know. Asked "how many messages", it
/// says how many it received. It greets back. All else it repeats shortly, with the number of messages it received. The
/// answer depends on the received messages alone.
///
/// ```
/// use tower_chat_history_core::Message;
/// use tower_chat_history_test::{Replies, rules::{remembered_answer, remembering}};
///
/// let replies = Replies::rules(remembering());
///
/// // What it says, as text:
/// let told = Message::user("Hi! My name is Nemo.");
/// let asked = Message::user("What is my name?");
/// assert_eq!(remembered_answer(&[told.clone()]), "Nice to meet you, Nemo!");
/// assert_eq!(remembered_answer(&[told, asked.clone()]), "Your name is Nemo.");
/// assert_eq!(remembered_answer(&[asked]), "I do not know your name.");
/// ```
pub fn remembering() -> impl Fn(&[Message]) -> Reply + Clone + Send + Sync + 'static {
    |messages| Reply::text(remembered_answer(messages))
}

/// The text that [`remembering`] answers, for rules of one's own that fall back on it.
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
    let users = || messages.iter().filter(|message| *message.role() == Role::User);
    let name = users().rev().find_map(|message| introduced(&message.text()));
    let asked = text.to_lowercase().replace('’', "'");
    let asks = |phrases: &[&str]| phrases.iter().any(|phrase| asked.contains(phrase));
    if asks(&["what is my name", "what's my name", "whats my name", "who am i", "know my name", "remember my name"]) {
        return name.map_or_else(|| "I do not know your name.".to_owned(), |name| format!("Your name is {name}."));
    }
    if asks(&["how many messages"]) {
        return format!("I received {received}.");
    }
    if let Some(name) = introduced(&text) {
        return format!("Nice to meet you, {name}!");
    }
    let first_word = asked.split(|c: char| !c.is_alphanumeric()).find(|word| !word.is_empty());
    if matches!(first_word, Some("hello" | "hi" | "hey" | "greetings")) {
        return name.map_or_else(|| "Hello!".to_owned(), |name| format!("Hello, {name}!"));
    }
    format!("You said: {} (I received {received}.)", shortened(&text))
}

/// The name that a text introduces its author by.
fn introduced(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let plain: Vec<String> = words.iter().map(|word| bare(word).to_lowercase().replace('’', "'")).collect();
    let follows = |at: usize, phrase: &[&str]| plain[at..].iter().zip(phrase).filter(|(a, b)| a == b).count();
    (0..words.len()).rev().find_map(|at| {
        let phrases: [(&[&str], bool); 5] = [
            (&["my", "name", "is"], true),
            (&["my", "name's"], true),
            (&["call", "me"], true),
            (&["i", "am"], false),
            (&["i'm"], false),
        ];
        let (phrase, sure) = phrases.into_iter().find(|(phrase, _)| follows(at, phrase) == phrase.len())?;
        // What ends with a sentence mark is no introduction: "who do you think I am? Guess."
        let before = words.get(at + phrase.len() - 1)?;
        let start = at + phrase.len();
        if before.ends_with(['.', '?', '!', ',']) {
            return None;
        }
        name(words.get(start..)?, sure)
    })
}

/// The name that these words begin with: one word, and those after it while they are written like names.
fn name(words: &[&str], sure: bool) -> Option<String> {
    let first = bare(words.first()?);
    let lower = first.to_lowercase();
    if first.is_empty() || (!sure && (NO_NAMES.contains(&&*lower) || lower.ends_with("ing"))) {
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

/// What people are far more often than called: "I'm here", "I am not sure".
const NO_NAMES: [&str; 32] = [
    "a", "afraid", "all", "also", "an", "at", "back", "done", "fine", "from", "glad", "going", "good", "happy", "here",
    "hungry", "in", "just", "not", "now", "ok", "okay", "on", "ready", "so", "sorry", "still", "sure", "the", "tired",
    "very", "well",
];

/// The word without the marks around it.
fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

fn capitalized(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// The text in quotes, its first 60 characters at most.
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
    fn learns_names_however_they_are_said() {
        for said in [
            "my name is Nemo",
            "My name is nemo.",
            "Hey there! I'm Nemo.",
            "hi, i’m nemo, and you?",
            "I AM Nemo!",
            "please call me \"Nemo\"",
            "I'm tired. Call me Nemo, I am waiting.",
        ] {
            assert_eq!(answer(&[said]), "Nice to meet you, Nemo!", "{said}");
            assert_eq!(answer(&[said, "so, what's my name?"]), "Your name is Nemo.", "{said}");
        }
        assert_eq!(answer(&["I am Ada Lovelace. Who are you?"]), "Nice to meet you, Ada Lovelace!");
        assert_eq!(answer(&["my name is Nemo", "call me Dory", "who am I?"]), "Your name is Dory.");
        assert_eq!(answer(&["My name is Nemo. What is my name?"]), "Your name is Nemo.");
    }

    #[test]
    fn does_not_know_what_it_was_not_sent() {
        assert_eq!(answer(&["what is my name?"]), "I do not know your name.");
        assert_eq!(answer(&["I'm looking for a fish", "I am not sure", "Who am I?"]), "I do not know your name.");
        let told = [Message::assistant("I'm Nemo"), Message::system("I'm Nemo"), Message::user("who am i")];
        assert_eq!(remembered_answer(&told), "I do not know your name.", "only the user's own words count");
    }

    #[test]
    fn counts_greets_and_echoes() {
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
