//! Generates a long, even conversation. The same seed generates the same conversation.

use std::f64::consts::TAU;

use tower_chat_history::Message;

use super::recording::Recording;

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

/// Generates a system message of `head` tokens, and `turns` turns of a question and an answer each.
pub(crate) fn recording(turns: usize, head: u32, seed: u64) -> Recording {
    let mut random = Random(seed);
    let head = (head > FRAMING).then(|| Message::system(random.text(head - FRAMING)));
    let mut messages: Vec<Message> = head.into_iter().collect();
    for _ in 0..turns {
        let (question, answer) = (random.length(MEANS.0), random.length(MEANS.1));
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
    fn each_word_is_one_token() {
        for counter in [Tiktoken::o200k(), Tiktoken::cl100k()] {
            for head in [5, 2_000] {
                assert_eq!(tokens_of(&counter, &recording(1, head, 7).head()[0]), head);
            }
        }
        assert!(recording(1, 0, 7).head().is_empty());
    }

    #[test]
    #[allow(clippy::cast_precision_loss)]
    fn lengths_have_the_stated_means() {
        let calls = recording(2_000, 0, 3).calls;
        let mean = |words: fn(&super::super::recording::Call) -> String| {
            calls.iter().map(|call| words(call).split(' ').count()).sum::<usize>() as f64 / calls.len() as f64
        };
        let (question, answer) = (mean(|call| call.input[0].text().into()), mean(|call| call.reply.text().into()));
        assert!((question - MEANS.0).abs() < 3.0 && (answer - MEANS.1).abs() < 9.0, "{question} {answer}");
    }

    #[test]
    fn a_seed_determines_the_conversation() {
        let texts = |seed| recording(3, 10, seed).calls.into_iter().map(|call| call.reply).collect::<Vec<_>>();
        assert_eq!(texts(1), texts(1));
        assert_ne!(texts(1), texts(2));
    }
}
