//! Finds the messages of a long conversation that matter again, and renders them for the model.
//!
//! A model's window shows the newest part of a conversation. This crate does the work of *recall*: it indexes the log,
//! searches the part of the log before the window for the words of the next input, selects messages within an allowance
//! of tokens, and renders them as delimited reference data. [`StoredIndex`] does all of this for conversations in a
//! store, whose index it keeps next to the log. [`SearchTool`] lets the model search by itself. The crate needs no
//! runtime, and no model unless an [`Embedder`] is given.
//!
//! The steps are also there for themselves, without I/O:
//!
//! ```
//! use tower_chat_history_core::{Message, Recorded, Seq};
//! use tower_chat_history_recall::{Analyzer, Gate, LogIndex, Query, Search, Selector, render};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut messages = vec![Message::user("My dog is called Rex.")];
//! messages.extend((0..100).map(|n| Message::user(format!("Then there was chapter {n}."))));
//! let log = Recorded::log(messages);
//! let before_window = Seq::FIRST..Seq::new(1);
//!
//! let analyzer = Analyzer::default();
//! let mut index = LogIndex::new(analyzer.clone());
//! index.cover(Seq::FIRST, &log)?;
//!
//! let search = Search::new(before_window.clone(), Gate::new(&analyzer));
//! let ranking = search.run(&index, &log, &Query::new(&analyzer, "What is my dog's name?"))?;
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
//! | messages to passages of about 160 terms | [`Passage`] |
//! | index in blocks and segments, as bytes | [`LogIndex`], [`IndexPart`], [`RecordName`] |
//! | search by words, smoothed over neighbors | [`Query`], [`Search`], [`Ranking`] |
//! | decision if anything is recalled | [`Gate`], [`Outcome`] |
//! | search by meaning, fused with words | [`Vector`], [`VectorBlock`], [`fuse`] |
//! | selection within an allowance | [`Selector`] |
//! | text for the model | [`render`] |
//! | all of these, with an index in a store | [`StoredIndex`] |
//! | the same over other conversations of a user | [`SearchScope`] |
//! | a tool for the model | [`SearchTool`] |
//!
//! # Guarantees
//!
//! - **Same result everywhere.** The result of a search by words depends only on the log and on the range. It does not
//!   depend on the part of the log that is indexed already, on the store, or on the division of the index into parts.
//!   One limit applies to [`StoredIndex`]: a search reads at most [512](StoredIndex::scan_limit) exchanges that are not
//!   indexed, and analyzes at most 4 MiB of them. Older ones that are not indexed are not found until they are indexed.
//!   Scores are equal to the last bit on one machine. Machines whose `ln` and `log2` differ in the last bit can order
//!   nearly equal scores differently.
//! - **Never beyond a prefix.** A search finds messages of other conversations only with a [`SearchScope`], and only of
//!   those whose ids begin with the same parts as the conversation's own id.
//! - **Bounded work.** An exchange has at most 128 passages and about 7,000 different terms, a passage at most 1,024
//!   terms, and a word at most 64 characters. The rest is not indexed. A query has at most 256 words, of which the 32
//!   rarest are scored, and reads at most 65,536 postings. Nothing recurses over input.
//! - **Damaged records are errors.** Decoding never panics, whatever the bytes are. The memory that it needs is
//!   proportional to their number.
//! - **Nothing breaks out.** A rendered block has exactly one opening and one closing tag, whatever the messages say.
//!
//! # Stemmers
//!
//! Stems are those of [Snowball](https://snowballstem.org), by the crate `frostem` (BSD-3-Clause, no dependencies, no
//! `unsafe`). `frostem` is generated anew from Snowball's sources after each of their changes, and tantivy uses it.
//! `rust-stemmers` had its last release in 2019 and panics for some Greek words. `tantivy-stemmers` depends on
//! tantivy's tokenizer API, and `snowball_stemmers_rs` on serde's macros, without features for single languages. The
//! [analyzer's id](Analyzer::id) contains a checksum of sample stems, because a later version may stem differently.

mod analyzer;
mod fusion;
mod gate;
mod index;
mod passage;
mod search;
mod select;
mod shown;
mod stored;
mod tool;
mod varint;
mod vectors;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use self::{
    analyzer::{Analyzer, Language, Term},
    fusion::fuse,
    gate::{Gate, Outcome},
    index::{IndexPart, LogIndex, RecordName},
    passage::{Passage, is_recallable},
    search::{Hit, Query, Ranking, Search},
    select::{Selector, cited},
    shown::{render, render_exchange, render_frame, render_message},
    stored::{
        Ask, EmbedError, Embedder, Found, IndexError, Indexed, Meaning, Others, SearchScope, Searched, StoredIndex,
    },
    tool::{ArgumentsError, SearchTool, ToolError},
    varint::DecodeError,
    vectors::{Vector, VectorBlock},
};
