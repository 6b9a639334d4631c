//! The counter that uses tiktoken-rs.

use std::collections::HashSet;

use tiktoken_rs::{CoreBPE, cl100k_base_singleton, o200k_base_singleton};

use super::counter::{Encoding, counter};

counter! {
    /// Counts tokens exactly as OpenAI's models do, with the crate tiktoken-rs.
    ///
    /// The text of a special token (`<|endoftext|>`) counts as ordinary text, because it is sent as such.
    ///
    /// The vocabularies are compiled into the program. The first count in an encoding builds its tables, once per
    /// process. That takes about 100 ms, and 46 MiB for `o200k_base` or 24 MiB for `cl100k_base`. The
    /// [engine](tower_chat_history::Engine) makes that count on a thread for blocking work. [`warm_up`](Self::warm_up)
    /// builds the tables in advance. The counter itself is a small `Copy` type.
    ///
    /// The counter is safe with any text. (tiktoken-rs itself panics at a million spaces, and is slow on long runs
    /// without a word boundary.) For this purpose, a text of more than 16 KiB is counted in pieces, which end where
    /// tokens end: between words, lines or punctuation. If 16 KiB of text have no such place, as in a long run of
    /// letters or of white space, the piece may end within a token. This changes the count by a few tokens.
    ///
    /// ```
    /// use tower_chat_history::tokens::TokenCounter;
    /// use tower_chat_history_openai::tokens::Tiktoken;
    ///
    /// assert_eq!(Tiktoken::o200k().count_text("hello world"), 2);
    /// assert_eq!(Tiktoken::for_model("gpt-4").name().unwrap().as_ref(), "cl100k_base");
    /// ```
    Tiktoken { tables: tables => &'static CoreBPE, count: count, build_time: "about 100 ms" }
}

fn tables(encoding: Encoding) -> &'static CoreBPE {
    match encoding {
        Encoding::O200k => o200k_base_singleton(),
        Encoding::Cl100k => cl100k_base_singleton(),
    }
}

/// Returns the tokens of a piece. tiktoken-rs has counts that cannot fail, but these panic instead. No piece of 16
/// KiB is known to fail.
fn count(tables: &CoreBPE, piece: &str) -> usize {
    tables.count(piece, &HashSet::new()).unwrap_or_else(|_| piece.len().div_ceil(3))
}

#[cfg(test)]
mod tests {
    use tower_chat_history::tokens::TokenCounter as _;

    use super::*;

    #[test]
    fn a_text_that_tiktoken_cannot_count_is_estimated() {
        // These are more spaces than its regular expression can match at once.
        let spaces = " ".repeat(1_200_000);
        assert_eq!(Tiktoken::o200k().count_in_pieces(&spaces, usize::MAX), 400_000);
        assert!(Tiktoken::o200k().count_text(&spaces) < 400_000);
    }
}
