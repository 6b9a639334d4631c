//! The code that both counters share: everything except the tables and the counting function of the tokenizer crate.

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
            encoding: $crate::tokens::encoding::Encoding,
        }

        static BUILT: $crate::tokens::built::Built = $crate::tokens::built::Built::new();

        impl $counter {
            /// Creates a counter for `o200k_base`: GPT-4o, GPT-4.1, GPT-5, the o models and gpt-oss.
            #[must_use]
            pub const fn o200k() -> Self {
                Self { encoding: $crate::tokens::encoding::Encoding::O200k }
            }

            /// Creates a counter for `cl100k_base`: GPT-4 and GPT-3.5.
            #[must_use]
            pub const fn cl100k() -> Self {
                Self { encoding: $crate::tokens::encoding::Encoding::Cl100k }
            }

            /// Creates a counter for the encoding of this model, by the table of tiktoken-rs. A provider's name and a
            /// slash before the model's name (`openai/gpt-4o`) are ignored. A fine-tuned model (`ft:gpt-4o:org`) has
            /// the encoding of its base model.
            ///
            /// For any other model, the encoding is `o200k_base`. Its counts are then an estimate, and a warning with
            /// the model's name is logged once. At most 64 models are logged.
            #[must_use]
            pub fn for_model(model: &str) -> Self {
                Self { encoding: $crate::tokens::encoding::Encoding::for_model(model) }
            }

            #[doc = concat!("Builds the tables of the encoding, unless they are built. This blocks for up to ", $build_time, ".")]
            /// Call it before the service starts, or on a thread for blocking work.
            pub fn warm_up(&self) {
                self.tables();
            }

            fn tables(self) -> $tables {
                let tables = $load(self.encoding);
                BUILT.note(self.encoding);
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
                BUILT.has(self.encoding)
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
