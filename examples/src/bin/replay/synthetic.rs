//! A conversation that is made up: long, even, and the same for the same seed.

use std::f64::consts::TAU;

use tower_chat_history::Message;

use super::recording::Recording;

/// The mean tokens of what a user says and of what the model answers, without the 4 that each message costs besides.
const MEANS: (f64, f64) = (60.0, 180.0);
/// How much they vary: the standard deviation of the length's logarithm.
const SIGMA: f64 = 0.5;
const FRAMING: u32 = 4;

/// One token each in OpenAI's encodings, behind a space and at the beginning.
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

/// A system message of that many tokens, and so many turns of a question and an answer each.
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

/// SplitMix64.
struct Random(u64);

impl Random {
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In (0, 1].
    #[allow(clippy::cast_precision_loss)] // 53 bits are what it holds.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// A length around that mean: lognormal, and at least 8.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // It is small and positive.
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
    fn a_word_is_a_token() {
        for counter in [Tiktoken::o200k(), Tiktoken::cl100k()] {
            for head in [5, 2_000] {
                assert_eq!(tokens_of(&counter, &recording(1, head, 7).head()[0]), head);
            }
        }
        assert!(recording(1, 0, 7).head().is_empty());
    }

    #[test]
    #[allow(clippy::cast_precision_loss)]
    fn lengths_are_around_their_means() {
        let calls = recording(2_000, 0, 3).calls;
        let mean = |words: fn(&super::super::recording::Call) -> String| {
            calls.iter().map(|call| words(call).split(' ').count()).sum::<usize>() as f64 / calls.len() as f64
        };
        let (question, answer) = (mean(|call| call.input[0].text().into()), mean(|call| call.reply.text().into()));
        assert!((question - MEANS.0).abs() < 3.0 && (answer - MEANS.1).abs() < 9.0, "{question} {answer}");
    }

    #[test]
    fn a_seed_makes_one_conversation() {
        let texts = |seed| recording(3, 10, seed).calls.into_iter().map(|call| call.reply).collect::<Vec<_>>();
        assert_eq!(texts(1), texts(1));
        assert_ne!(texts(1), texts(2));
    }
}
