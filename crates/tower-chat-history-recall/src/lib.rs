//! x
mod analyzer;
mod fusion;
mod gate;
mod index;
mod passage;
mod search;
mod select;
mod shown;
mod varint;
mod vectors;
pub use self::{
    analyzer::{Analyzer, Language, Term},
    fusion::fuse,
    gate::{Gate, Outcome},
    index::{IndexPart, LogIndex, RecordName},
    passage::{Passage, is_recallable},
    search::{Hit, Query, Ranking, Search},
    select::{Cite, Selector},
    shown::{render, render_exchange, render_frame, render_message},
    varint::DecodeError,
    vectors::{Vector, VectorBlock},
};
