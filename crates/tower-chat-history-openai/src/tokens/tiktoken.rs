//! Counts by tiktoken-rs.

use std::{collections::HashSet, fmt, sync::Arc};

use tiktoken_rs::{CoreBPE, cl100k_base_singleton, o200k_base_singleton};
use tower_chat_history::tokens::TokenCounter;

use super::{
    built::Built,
    encoding::Encoding,
    pieces::{PIECE, pieces},
};

static BUILT: Built = Built::new();

/// The exact tokens of a text, in the encoding of a model of OpenAI.
///
/// The text of a special token (`<|endoftext|>`) counts as the text that it is, for so it is sent.
///
/// Its vocabularies are in the program. The first count in an encoding builds its tables, once in the process: about 100 ms,
/// and 46 MiB for o200k_base or 24 MiB for cl100k_base. The [engine](tower_chat_history::Engine) has that done where it
/// blocks nobody; [`warm_up`](Self::warm_up) does it before the first call. The counter
/// itself is as cheap to clone as to make.
///
/// It is safe with any text. tiktoken-rs alone panics at a million spaces, and is slow on long runs without a place to split:
/// so a text of more than 16 KiB is counted in pieces. They end where tokens end: between words, lines or punctuation. Only
/// where 16 KiB have no such place, as in a long run of letters or of white space, can a piece end inside of a token, which
/// changes the count by a few tokens.
///
/// ```
/// use tower_chat_history::tokens::TokenCounter;
/// use tower_chat_history_openai::tokens::Tiktoken;
///
/// assert_eq!(Tiktoken::o200k().count_text("hello world"), 2);
/// assert_eq!(Tiktoken::for_model("gpt-4").name().unwrap().as_ref(), "cl100k_base");
/// ```
#[derive(Clone, Copy)]
pub struct Tiktoken {
    encoding: Encoding,
}

impl Tiktoken {
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

    /// Builds the tables of its encoding now, unless they are there. It blocks for about 100 ms: call it before the service
    /// starts, or on a thread for blocking work.
    pub fn warm_up(&self) {
        self.bpe();
    }

    fn bpe(self) -> &'static CoreBPE {
        let bpe = match self.encoding {
            Encoding::O200k => o200k_base_singleton(),
            Encoding::Cl100k => cl100k_base_singleton(),
        };
        BUILT.note(self.encoding);
        bpe
    }

    fn count_in_pieces(self, text: &str, bound: usize) -> u32 {
        let (bpe, no_special) = (self.bpe(), HashSet::new());
        let tokens: usize = pieces(text, bound)
            // The counts that cannot fail panic instead. No piece of 16 KiB is known to fail.
            .map(|piece| bpe.count(piece, &no_special).unwrap_or_else(|_| piece.len().div_ceil(3)))
            .sum();
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }
}

impl TokenCounter for Tiktoken {
    fn name(&self) -> Option<&Arc<str>> {
        Some(self.encoding.name())
    }

    fn count_text(&self, text: &str) -> u32 {
        self.count_in_pieces(text, PIECE)
    }

    fn is_ready(&self) -> bool {
        BUILT.has(self.encoding)
    }
}

impl fmt::Debug for Tiktoken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tiktoken").field(self.encoding.name()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tiktoken_does_not_count_is_estimated() {
        // More than its regular expression can match at once.
        let spaces = " ".repeat(1_200_000);
        assert_eq!(Tiktoken::o200k().count_in_pieces(&spaces, usize::MAX), 400_000);
        assert!(Tiktoken::o200k().count_text(&spaces) < 400_000);
    }
}
