//! Recorded conversations, and generated ones.

use std::{
    f64::consts::TAU,
    fs::File,
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::{Deserializer, Value};
use tower_chat_history::{BoxError, Message, Role};

/// A recorded conversation, as a list of calls.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) id: String,
    pub(crate) calls: Vec<Call>,
}

/// One call: its input and the model's reply.
#[derive(Debug)]
pub(crate) struct Call {
    /// The system and developer messages so far.
    pub(crate) head: Vec<Message>,
    /// The messages since the previous reply. If there are none, the recording has two replies in succession.
    pub(crate) input: Vec<Message>,
    pub(crate) reply: Message,
}

#[derive(Deserialize)]
struct Conversation {
    #[serde(default)]
    id: Value,
    messages: Option<Vec<Message>>,
}

impl Recording {
    /// Reads the conversations from these files, or from stdin if there are none.
    pub(crate) fn read_all(files: &[PathBuf]) -> Result<Vec<Self>, BoxError> {
        let mut recordings = Vec::new();
        for path in files {
            let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
            read(BufReader::new(file), path, &mut recordings)?;
        }
        if files.is_empty() {
            read(io::stdin().lock(), Path::new("stdin"), &mut recordings)?;
        }
        Ok(recordings)
    }

    /// Splits a list of messages into calls. Messages after the last reply were never answered and are left out.
    pub(crate) fn new(id: String, messages: impl IntoIterator<Item = Message>) -> Self {
        let mut head = Vec::new();
        let mut input = Vec::new();
        let mut calls = Vec::new();
        for message in messages {
            if message.is_instruction() {
                head.push(message);
            } else if *message.role() == Role::Assistant {
                calls.push(Call { head: head.clone(), input: std::mem::take(&mut input), reply: message });
            } else {
                input.push(message);
            }
        }
        Self { id, calls }
    }

    /// Returns the head of the first call.
    pub(crate) fn head(&self) -> &[Message] {
        self.calls.first().map_or(&[], |call| &call.head)
    }
}

fn read(input: impl Read, path: &Path, recordings: &mut Vec<Recording>) -> Result<(), BoxError> {
    let path = path.display();
    let mut others = 0;
    for conversation in Deserializer::from_reader(input).into_iter() {
        // Only the position is shown, because the text is private.
        let Conversation { id, messages } = conversation.map_err(|error| {
            format!("{path}: invalid conversation at line {} column {}", error.line(), error.column())
        })?;

        let Some(messages) = messages else {
            others += 1;
            continue;
        };

        let id = match id {
            Value::String(id) => id,
            Value::Null => (recordings.len() + 1).to_string(),
            other => other.to_string(),
        };
        recordings.push(Recording::new(id, messages));
    }

    if others > 0 {
        eprintln!("replay: {path}: skipped {others} objects without messages");
    }
    Ok(())
}

/// Mean tokens of a user's message and of a reply, without the 4 tokens of framing per message.
const MEANS: (f64, f64) = (60.0, 180.0);
/// Standard deviation of the logarithm of the lengths.
const SIGMA: f64 = 0.5;
const FRAMING: u32 = 4;

/// Words that are one token each in OpenAI's encodings, both at the beginning and after a space.
const WORDS: [&str; 32] = [
    "time",
    "year",
    "people",
    "way",
    "day",
    "man",
    "thing",
    "woman",
    "life",
    "child",
    "world",
    "school",
    "state",
    "family",
    "student",
    "group",
    "country",
    "problem",
    "hand",
    "part",
    "place",
    "case",
    "week",
    "company",
    "system",
    "program",
    "question",
    "work",
    "government",
    "number",
    "night",
    "point",
];

/// Generates a long, even conversation: a system message of `head` tokens, and `turns` turns of a question and an
/// answer each. The same seed generates the same conversation.
pub(crate) fn generate(turns: usize, head: u32, seed: u64) -> Recording {
    let mut random = Random(seed);
    let mut messages = Vec::new();
    if head > FRAMING {
        messages.push(Message::system(random.text(head - FRAMING)));
    }

    for _ in 0..turns {
        let question = random.length(MEANS.0);
        let answer = random.length(MEANS.1);
        messages.extend([Message::user(random.text(question)), Message::assistant(random.text(answer))]);
    }
    Recording::new("synthetic".to_owned(), messages)
}

/// The SplitMix64 generator.
struct Random(u64);

impl Random {
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number in (0, 1].
    #[allow(clippy::cast_precision_loss)] // An f64 holds 53 bits exactly.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a log-normal length with this mean, at least 8.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // The length is small and positive.
    fn length(&mut self, mean: f64) -> u32 {
        let normal = (-2.0 * self.unit().ln()).sqrt() * (TAU * self.unit()).cos();
        let length = (SIGMA * normal - SIGMA * SIGMA / 2.0).exp() * mean;
        (length as u32).max(8)
    }

    fn text(&mut self, words: u32) -> String {
        let words: Vec<&str> = (0..words).map(|_| WORDS[(self.next() % 32) as usize]).collect();
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use tower_chat_history::tokens::tokens_of;
    use tower_chat_history_openai::tokens::Tiktoken;

    use super::*;

    #[test]
    fn each_reply_is_a_call_with_the_messages_before_it() {
        let [s, t] = ["s", "t"].map(Message::system);
        let [a, b] = ["a", "b"].map(Message::user);
        let [x, y] = ["x", "y"].map(Message::assistant);
        let messages = [&s, &a, &b, &x, &y, &t, &a, &x, &b].map(Message::clone);
        let calls = Recording::new("1".to_owned(), messages).calls;
        let calls: Vec<_> = calls.into_iter().map(|call| (call.head, call.input, call.reply)).collect();
        assert_eq!(
            calls,
            [(vec![s.clone()], vec![a.clone(), b], x.clone()), (vec![s.clone()], vec![], y), (vec![s, t], vec![a], x)]
        );
    }

    #[test]
    fn each_word_is_one_token() {
        for counter in [Tiktoken::o200k(), Tiktoken::cl100k()] {
            for head in [5, 2_000] {
                assert_eq!(tokens_of(&counter, &generate(1, head, 7).head()[0]), head);
            }
        }
        assert!(generate(1, 0, 7).head().is_empty());
    }

    #[allow(clippy::cast_precision_loss)]
    fn mean_words<'a>(messages: impl ExactSizeIterator<Item = &'a Message>) -> f64 {
        let count = messages.len() as f64;
        messages.map(|message| message.text().split(' ').count()).sum::<usize>() as f64 / count
    }

    #[test]
    fn lengths_have_the_stated_means() {
        let calls = generate(2_000, 0, 3).calls;
        let question = mean_words(calls.iter().map(|call| &call.input[0]));
        let answer = mean_words(calls.iter().map(|call| &call.reply));
        assert!((question - MEANS.0).abs() < 3.0 && (answer - MEANS.1).abs() < 9.0, "{question} {answer}");
    }

    fn replies(seed: u64) -> Vec<Message> {
        generate(3, 10, seed).calls.into_iter().map(|call| call.reply).collect()
    }

    #[test]
    fn a_seed_determines_the_conversation() {
        assert_eq!(replies(1), replies(1));
        assert_ne!(replies(1), replies(2));
    }
}
