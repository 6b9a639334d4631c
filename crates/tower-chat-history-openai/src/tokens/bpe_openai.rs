//! Counts by bpe-openai.

use std::{fmt, sync::Arc};

use bpe_openai::{Tokenizer, byte_pair_encoding::BytePairEncoding, cl100k_base, o200k_base};
use tower_chat_history::tokens::TokenCounter;

use super::{
    built::Built,
    encoding::Encoding,
    pieces::{PIECE, pieces},
};

static BUILT: Built = Built::new();

/// Up to so many bytes without a place to split are counted by backtracking.
const BACKTRACKED: usize = 128;

/// The exact tokens of a text, in the encoding of a model of OpenAI: the counts of `Tiktoken`, and under the same names, by
/// another crate.
///
/// The text of a special token (`<|endoftext|>`) counts as the text that it is, for so it is sent.
///
/// Its vocabularies are in the program. The first count in an encoding builds its tables, once in the process: about 40
/// ms and 66 MiB for o200k_base, 17 ms and 32 MiB for cl100k_base. The [engine](tower_chat_history::Engine) has that
/// done where it blocks nobody; [`warm_up`](Self::warm_up) does it before the first call. The counter itself is as
/// cheap to clone as to make.
///
/// A text of more than 16 KiB is counted in pieces, as `Tiktoken` does, so that both count alike also where a piece has to
/// end inside of a token: only where 16 KiB have no place between words, lines or punctuation. That changes the count by a
/// few tokens.
///
/// ```
/// use tower_chat_history::tokens::TokenCounter;
/// use tower_chat_history_openai::tokens::BpeOpenai;
///
/// assert_eq!(BpeOpenai::o200k().count_text("hello world"), 2);
/// assert_eq!(BpeOpenai::for_model("gpt-4").name().unwrap().as_ref(), "cl100k_base");
/// ```
#[derive(Clone, Copy)]
pub struct BpeOpenai {
    encoding: Encoding,
}

impl BpeOpenai {
    /// Counts in `o200k_base`: GPT-4o, GPT-4.1, GPT-5, the o models and gpt-oss.
    #[must_use]
    pub const fn o200k() -> Self {
        Self { encoding: Encoding::O200k }
    }

    /// Counts in `cl100k_base`: GPT-4 and GPT-3.5.
    #[must_use]
    pub const fn cl100k() -> Self {
        Self { encoding: Encoding::Cl100k }
    }

    /// Counts in the encoding of this model, by tiktoken-rs's table. A provider before its name (`openai/gpt-4o`) does not
    /// matter, and a fine-tuned model (`ft:gpt-4o:org`) has the encoding of the one it comes from.
    ///
    /// Any other model gets `o200k_base`, which is an estimate then. A warning names it, once for each name; after 64
    /// names there are no more warnings.
    #[must_use]
    pub fn for_model(model: &str) -> Self {
        Self { encoding: Encoding::for_model(model) }
    }

    /// Builds the tables of its encoding now, unless they are there. It blocks for up to 40 ms: call it before the service
    /// starts, or on a thread for blocking work.
    pub fn warm_up(&self) {
        self.tokenizer();
    }

    fn tokenizer(self) -> &'static Tokenizer {
        let tokenizer = match self.encoding {
            Encoding::O200k => o200k_base(),
            Encoding::Cl100k => cl100k_base(),
        };
        BUILT.note(self.encoding);
        tokenizer
    }
}

impl TokenCounter for BpeOpenai {
    fn name(&self) -> Option<&Arc<str>> {
        Some(self.encoding.name())
    }

    fn count_text(&self, text: &str) -> u32 {
        let tokenizer = self.tokenizer();
        let parts = pieces(text, PIECE).flat_map(|piece| tokenizer.split(piece));
        let tokens: usize = parts.map(|part| count_part(&tokenizer.bpe, part.as_bytes())).sum();
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }

    fn is_ready(&self) -> bool {
        BUILT.has(self.encoding)
    }
}

/// The tokens of what the regular expression splits off, by the quicker of two ways that count alike.
///
/// Backtracking is the quicker one for anything that people write. But a long run of a character of which there are tokens of
/// many lengths, such as `-`, takes it almost a second a MiB. Merging needs a quarter of that at most.
fn count_part(bpe: &BytePairEncoding, part: &[u8]) -> usize {
    if part.len() <= BACKTRACKED { bpe.count(part) } else { bpe.encode_via_bitfield(part).len() }
}

impl fmt::Debug for BpeOpenai {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BpeOpenai").field(self.encoding.name()).finish()
    }
}
