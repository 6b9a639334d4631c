//! The counter that uses bpe-openai.

use bpe_openai::{Tokenizer, byte_pair_encoding::BytePairEncoding, cl100k_base, o200k_base};

use super::counter::{Encoding, counter};

/// The largest part that is counted by backtracking, in bytes.
const MAX_BACKTRACKED: usize = 128;

counter! {
    /// Counts tokens exactly as OpenAI's models do, with the crate bpe-openai. The counts and the names are those of
    /// `Tiktoken`.
    ///
    /// The text of a special token (`<|endoftext|>`) counts as ordinary text, because it is sent as such.
    ///
    /// The vocabularies are compiled into the program. The first count in an encoding builds its tables, once per
    /// process. That takes about 40 ms and 66 MiB for `o200k_base`, or 17 ms and 32 MiB for `cl100k_base`. The
    /// [engine](tower_chat_history::Engine) makes that count on a thread for blocking work. [`warm_up`](Self::warm_up)
    /// builds the tables in advance. The counter itself is a small `Copy` type.
    ///
    /// A text of more than 16 KiB is counted in pieces of at most 16 KiB, as with `Tiktoken`. A piece ends between
    /// words, lines or punctuation. If 16 KiB of text have no such place, the piece may end within a token. This
    /// changes the count by a few tokens, which are the same for both counters.
    ///
    /// ```
    /// use tower_chat_history::tokens::TokenCounter;
    /// use tower_chat_history_openai::tokens::BpeOpenai;
    ///
    /// assert_eq!(BpeOpenai::o200k().count_text("hello world"), 2);
    /// assert_eq!(BpeOpenai::for_model("gpt-4").name().unwrap().as_ref(), "cl100k_base");
    /// ```
    BpeOpenai { tables: tables => &'static Tokenizer, count: count, build_time: "40 ms" }
}

fn tables(encoding: Encoding) -> &'static Tokenizer {
    match encoding {
        Encoding::O200k => o200k_base(),
        Encoding::Cl100k => cl100k_base(),
    }
}

fn count(tables: &Tokenizer, piece: &str) -> usize {
    tables.split(piece).map(|part| count_part(&tables.bpe, part.as_bytes())).sum()
}

/// Returns the tokens of a part that the regular expression splits off. There are two ways, with the same counts.
///
/// Backtracking is faster for ordinary texts. But it needs almost a second per MiB for a long run of a character that
/// has tokens of many lengths, such as `-`. Merging needs at most a quarter of that time.
fn count_part(bpe: &BytePairEncoding, part: &[u8]) -> usize {
    if part.len() <= MAX_BACKTRACKED { bpe.count(part) } else { bpe.encode_via_bitfield(part).len() }
}
