//! The code that both counters share: everything except the tables and the counting function of the tokenizer crate.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, LazyLock, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tiktoken_rs::tokenizer::{Tokenizer, get_tokenizer};

/// The largest number of names of unknown models that are remembered, and the number of characters of each. Names may
/// come from callers, who must not be able to fill the memory or the log.
const MAX_NOTED: usize = 64;
const MAX_NOTED_CHARS: usize = 64;

/// Declares a public counter over the tables of a tokenizer crate, in the module that uses the macro.
///
/// `tables` returns the tables of an encoding, which are built at its first call in the process. `count` returns the
/// tokens of a text of at most [`PIECE`](super::pieces::PIECE) bytes.
macro_rules! counter {
    (
        $(#[$attribute:meta])*
        $counter:ident { tables: $load:path => $tables:ty, count: $count:path, build_time: $build_time:literal }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy)]
        pub struct $counter {
            encoding: $crate::tokens::counter::Encoding,
        }

        static READY: $crate::tokens::counter::ReadyTables = $crate::tokens::counter::ReadyTables::new();

        impl $counter {
            /// Creates a counter for `o200k_base`: GPT-4o, GPT-4.1, GPT-5, the o models and gpt-oss.
            #[must_use]
            pub const fn o200k() -> Self {
                Self { encoding: $crate::tokens::counter::Encoding::O200k }
            }

            /// Creates a counter for `cl100k_base`: GPT-4 and GPT-3.5.
            #[must_use]
            pub const fn cl100k() -> Self {
                Self { encoding: $crate::tokens::counter::Encoding::Cl100k }
            }

            /// Creates a counter for the encoding of this model, by the table of tiktoken-rs. A provider's name and a
            /// slash before the model's name (`openai/gpt-4o`) are ignored. A fine-tuned model (`ft:gpt-4o:org`) has
            /// the encoding of its base model.
            ///
            /// For any other model, the encoding is `o200k_base`. Its counts are then an estimate, and a warning with
            /// the model's name is logged once. At most 64 models are logged.
            #[must_use]
            pub fn for_model(model: &str) -> Self {
                Self { encoding: $crate::tokens::counter::Encoding::for_model(model) }
            }

            #[doc = concat!("Builds the tables of the encoding, unless they are built. This blocks for up to ", $build_time, ".")]
            /// Call it before the service starts, or on a thread for blocking work.
            pub fn warm_up(&self) {
                self.tables();
            }

            fn tables(self) -> $tables {
                let tables = $load(self.encoding);
                READY.note(self.encoding);
                tables
            }

            fn count_in_pieces(self, text: &str, bound: usize) -> u32 {
                let tables = self.tables();
                let tokens: usize =
                    $crate::tokens::pieces::pieces(text, bound).map(|piece| $count(tables, piece)).sum();
                u32::try_from(tokens).unwrap_or(u32::MAX)
            }
        }

        impl tower_chat_history::tokens::TokenCounter for $counter {
            fn name(&self) -> Option<&std::sync::Arc<str>> {
                Some(self.encoding.name())
            }

            fn count_text(&self, text: &str) -> u32 {
                self.count_in_pieces(text, $crate::tokens::pieces::PIECE)
            }

            fn is_ready(&self) -> bool {
                READY.has(self.encoding)
            }
        }

        impl std::fmt::Debug for $counter {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($counter)).field(self.encoding.name()).finish()
            }
        }
    };
}

pub(super) use counter;

/// The encodings of OpenAI's chat models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    O200k,
    Cl100k,
}

impl Encoding {
    pub(super) fn name(self) -> &'static Arc<str> {
        static O200K: LazyLock<Arc<str>> = LazyLock::new(|| "o200k_base".into());
        static CL100K: LazyLock<Arc<str>> = LazyLock::new(|| "cl100k_base".into());
        match self {
            Self::O200k => &O200K,
            Self::Cl100k => &CL100K,
        }
    }

    /// Returns the encoding of a model. For an unknown model, it returns `o200k_base`, the encoding of the newer
    /// models, and logs one warning.
    pub(super) fn for_model(model: &str) -> Self {
        static NOTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
        if let Some(encoding) = Self::of_known(model) {
            return encoding;
        }
        let model: String = model.chars().take(MAX_NOTED_CHARS).collect();
        let is_new = note(&mut NOTED.lock().unwrap_or_else(PoisonError::into_inner), &model);
        if is_new {
            tracing::warn!(?model, "the encoding of this model is unknown: its tokens are estimated with o200k_base");
        }
        Self::O200k
    }

    fn of_known(model: &str) -> Option<Self> {
        // Gateways put the provider before the name: `openai/gpt-4o`.
        let name = model.rsplit('/').next().unwrap_or(model);
        match get_tokenizer(model).or_else(|| get_tokenizer(name))? {
            // These two differ only in special tokens, which count as ordinary text here.
            Tokenizer::O200kBase | Tokenizer::O200kHarmony => Some(Self::O200k),
            Tokenizer::Cl100kBase => Some(Self::Cl100k),
            _ => None,
        }
    }
}

/// Notes a model. Returns `true` if it was not noted before and there is room for it.
fn note(noted: &mut BTreeSet<String>, model: &str) -> bool {
    noted.len() < MAX_NOTED && noted.insert(model.to_owned())
}

/// The encodings whose tables one counter has built. It is a `static`, because tables are built once per process.
pub(super) struct ReadyTables {
    o200k: AtomicBool,
    cl100k: AtomicBool,
}

impl ReadyTables {
    pub(super) const fn new() -> Self {
        Self { o200k: AtomicBool::new(false), cl100k: AtomicBool::new(false) }
    }

    /// Notes that the tables are built.
    pub(super) fn note(&self, encoding: Encoding) {
        self.of(encoding).store(true, Ordering::Relaxed);
    }

    /// Returns `true` if the tables are built.
    pub(super) fn has(&self, encoding: Encoding) -> bool {
        self.of(encoding).load(Ordering::Relaxed)
    }

    const fn of(&self, encoding: Encoding) -> &AtomicBool {
        match encoding {
            Encoding::O200k => &self.o200k,
            Encoding::Cl100k => &self.cl100k,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_have_the_encoding_of_tiktokens_table() {
        for model in [
            "gpt-5",
            "gpt-5.1-codex",
            "gpt-4.1-mini",
            "gpt-4o",
            "chatgpt-4o-latest",
            "o1",
            "o3-pro",
            "o4-mini",
            "gpt-oss-120b",
            "openai/gpt-4o",
            "openrouter/openai/gpt-oss-20b:free",
            "ft:gpt-4o:org",
            "ft:gpt-4o-mini-2024-07-18:org:name:id",
            "openai/ft:gpt-4o:org",
        ] {
            assert_eq!(Encoding::of_known(model), Some(Encoding::O200k), "{model}");
        }
        for model in ["gpt-4", "gpt-4-turbo", "gpt-3.5-turbo", "azure/gpt-35-turbo", "ft:gpt-3.5-turbo:a/b:c"] {
            assert_eq!(Encoding::of_known(model), Some(Encoding::Cl100k), "{model}");
        }
        for model in ["", "/", "ft:", "text-davinci-003", "claude-opus-4", "anthropic/claude-opus-4", "llama3:8b"] {
            assert_eq!(Encoding::of_known(model), None, "{model}");
            assert_eq!(Encoding::for_model(model), Encoding::O200k, "{model}");
        }
    }

    #[test]
    fn an_unknown_model_is_noted_once_and_the_number_is_bounded() {
        let mut noted = BTreeSet::new();
        assert!(note(&mut noted, "a"));
        assert!(!note(&mut noted, "a"));
        assert!(note(&mut noted, "b"));
        let all = (0..1_000).filter(|number| note(&mut noted, &number.to_string())).count();
        assert_eq!((all, noted.len()), (MAX_NOTED - 2, MAX_NOTED));
    }
}
