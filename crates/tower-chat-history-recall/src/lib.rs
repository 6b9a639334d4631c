//! Finds the messages of a long conversation that matter again, and renders them for the model.
//!
//! A model's window shows the newest part of a conversation. This crate does the work of *recall*: it searches the
//! messages before the window for the words of the next input, selects messages within an allowance of tokens, and
//! renders them as delimited reference data. [`LogSearch`] does all of this for conversations in a store.
//! [`SearchTool`] lets the model search by itself. The crate needs no runtime, and no model unless an [`Embedder`] is
//! given.
//!
//! The steps are also there for themselves, without I/O:
//!
//! ```
//! use tower_chat_history_core::{Message, Recorded, Seq};
//! use tower_chat_history_recall::{Analyzer, Gate, LogTerms, Query, Search, Selector, render};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut messages = vec![Message::user("My dog is called Rex.")];
//! messages.extend((0..100).map(|n| Message::user(format!("Then there was chapter {n}."))));
//! let log = Recorded::log(messages);
//! let before_window = Seq::FIRST..Seq::new(1);
//!
//! let analyzer = Analyzer::default();
//! let terms = LogTerms::of(&analyzer, &log);
//! let search = Search::new(before_window.clone(), Gate::new(&analyzer));
//! let ranking = search.run(&terms, &Query::new(&analyzer, "What is my dog's name?"));
//! let tokens = |recorded: &Recorded, message: u32| {
//!     recorded.exchange.messages[message as usize].bytes() as u64 / 4
//! };
//! let cited = Selector::new(before_window, 500).select(&ranking, &log, tokens);
//! let recalled = render(&log, &cited).ok_or("nothing was found")?;
//! assert!(recalled.message.text().contains("My dog is called Rex."));
//! # Ok(())
//! # }
//! ```
//!
//! # Steps
//!
//! | Step | Types |
//! | --- | --- |
//! | text to terms: normalized, stemmed and hashed words | [`Analyzer`], [`Language`], [`Term`] |
//! | messages to passages of about 160 terms | [`Passage`], [`LogTerms`] |
//! | search by words, smoothed over neighbors | [`Query`], [`Search`], [`Ranking`] |
//! | decision if anything is recalled | [`Gate`], [`Outcome`] |
//! | search by meaning, fused with words | [`Embedder`], [`fuse`] |
//! | selection within an allowance | [`Selector`] |
//! | text for the model | [`render`] |
//! | all of these, in the newest messages of a log in a store | [`LogSearch`] |
//! | the same over other conversations of a user | [`SearchScope`] |
//! | a tool for the model | [`SearchTool`] |
//!
//! # Guarantees
//!
//! - **Same result everywhere.** The result of a search by words depends only on the log and on the range. It does not
//!   depend on the store, or on what is in memory. Scores are equal to the last bit on one machine. Machines whose `ln`
//!   and `log2` differ in the last bit can order nearly equal scores differently.
//! - **Never what was removed.** A [`LogSearch`] shows only messages that it has read from the log in the same search.
//! - **Never beyond a prefix.** A search finds messages of other conversations only with a [`SearchScope`], and only of
//!   those whose ids begin with the same parts as the conversation's own id.
//! - **Bounded work.** A search covers a [bounded](LogSearch#limits) part of a log. An exchange has at most 128
//!   passages, a passage at most 1,024 terms, and a word at most 64 characters. The rest is not found. A query has at
//!   most 256 words, of which the 32 rarest are scored, at most 65,536 times. Nothing recurses over input.
//! - **Nothing breaks out.** A rendered block has exactly one opening and one closing tag, whatever the messages say.
//!
//! # Stemmers
//!
//! Stems are those of [Snowball](https://snowballstem.org), by the crate `frostem` (BSD-3-Clause, no dependencies, no
//! `unsafe`). `frostem` is generated anew from Snowball's sources after each of their changes, and tantivy uses it.
//! `rust-stemmers` had its last release in 2019 and panics for some Greek words. `tantivy-stemmers` depends on
//! tantivy's tokenizer API, and `snowball_stemmers_rs` on serde's macros, without features for single languages.

mod analyzer;
mod fusion;
mod gate;
mod log;
mod passage;
mod search;
mod select;
mod shown;
mod tool;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use self::{
    analyzer::{Analyzer, Language, Term},
    fusion::fuse,
    gate::{Gate, Outcome},
    log::{Ask, EmbedError, Embedder, Found, LogSearch, Meaning, Others, Prepared, SearchError, SearchScope, Searched},
    passage::{Passage, is_recallable},
    search::{Hit, LogTerms, Query, Ranking, Search},
    select::{Selector, cited},
    shown::{render, render_exchange, render_frame, render_message},
    tool::{ArgumentsError, SearchTool, ToolError},
};
