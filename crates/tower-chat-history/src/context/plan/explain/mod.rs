//! Explaining a past prompt: it is made again from the log and the [provenance](Provenance) of its reply, and the
//! digests are compared.
//!
//! The provenance has the positions under which the prompt was made, so nothing is fitted again: the functions
//! of the planner clear results, leave out reasoning and cut the window. It does not say if the request had a budget
//! for thinking, so both are tried. The rules for clearing are those of the options.

mod row;
mod rows;

use std::fmt;

use tower_chat_history_core::{Cut, Exchange, Message, Provenance, Recorded, Seq};

pub use self::row::{Fate, Row, SizedMessage, Subject, Why};
use self::rows::{Stages, rows};
use super::{
    RENDERER, before_input, clearing,
    fit::{WholeWindow, kept},
    fold::Folded,
    input::check_input,
    provenance::{Conditions, digest_after},
    window_index::WindowIndex,
};
use crate::context::{budget::ClearResults, request::RequestInfo};

/// The data to make a prompt again.
#[derive(Clone, Copy)]
pub struct ExplainInput<'a> {
    /// The exchange whose prompt is explained, as it is stored.
    pub explained: &'a Recorded,
    /// The exchanges of the log from the start of the window to the [time](Provenance::made_at) of the prompt, in the
    /// dialect of the explained exchange.
    pub exchanges: &'a [Recorded],
    /// The positions of those that were translated, in order.
    pub translated: &'a [Seq],
    /// The position of the log's first exchange.
    pub first: Seq,
    /// The message of the summary that the provenance names, if it is still stored. `None` if the provenance names no
    /// summary.
    pub summary: Option<&'a Message>,
    /// The options for clearing results.
    pub clear: Option<&'a ClearResults>,
    /// Counts the tokens of a message.
    pub cost: &'a dyn Fn(&Message) -> u64,
}

impl fmt::Debug for ExplainInput<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExplainInput")
            .field("explained", self.explained)
            .field("exchanges", &self.exchanges.len())
            .field("first", &self.first)
            .finish_non_exhaustive()
    }
}

/// The reason why a prompt is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotKnown {
    /// No model made the exchange, or an erasing prune removed its provenance.
    #[error("nothing is stored about a prompt: no model made the exchange, or it was erased")]
    NoProvenance,
    /// The prompt was made by another version of this library, which may render the same log in another way.
    #[error("the prompt was made by version {made_by} of the renderer, and this is version {this}")]
    OtherRenderer {
        /// The version that made it.
        made_by: u32,
        /// The version of this library.
        this: u32,
    },
    /// The history could not be loaded for the call, so its prompt was made without the log.
    #[error("the prompt was made without the log, which could not be loaded")]
    NotLoaded,
    /// The prompt had a summary that was replaced since.
    #[error("the summary of the exchanges before {covers_to} is not stored any more")]
    SummaryGone {
        /// The end of the exchanges that it covers.
        covers_to: Seq,
    },
    /// Exchanges of the prompt are not in the log any more.
    #[error("the exchanges before {first} are not stored any more")]
    Pruned {
        /// The position of the first exchange that is stored.
        first: Seq,
    },
    /// The log leads to another prompt. Other options may be in use now than when it was made, another input may be
    /// stored than was sent, another summary of the same exchanges may have been sent, or a trimmer may have chosen the
    /// turns.
    #[error("the log leads to another prompt: options, input or summary differed, or a trimmer chose its turns")]
    Differs,
}

/// Returns the provenance of an exchange, and the position of the log's next exchange when its prompt was made.
///
/// # Errors
///
/// Returns the reason if the prompt cannot be known, whatever else is stored.
pub fn provenance_of(exchange: &Exchange) -> Result<(&Provenance, Seq), NotKnown> {
    let provenance = exchange.provenance.as_deref().ok_or(NotKnown::NoProvenance)?;
    if provenance.renderer != RENDERER {
        return Err(NotKnown::OtherRenderer { made_by: provenance.renderer, this: RENDERER });
    }
    let next = provenance.made_at.ok_or(NotKnown::NotLoaded)?;

    Ok((provenance, next))
}

/// Makes the prompt of an exchange again. Returns what became of each message in it.
///
/// # Errors
///
/// Returns the reason if the prompt is not known: if its digest is not the stored one.
pub fn explain(input: &ExplainInput<'_>) -> Result<Vec<Row>, NotKnown> {
    let (provenance, next) = provenance_of(&input.explained.exchange)?;
    let covers_to = provenance.cut.covers_to;
    if covers_to > Seq::FIRST && input.summary.is_none() {
        return Err(NotKnown::SummaryGone { covers_to });
    }

    for thinks_with_budget in [false, true] {
        let mut request = RequestInfo::new();
        request.thinks_with_budget = thinks_with_budget;
        if let Some(stages) = stages(input, provenance, &request) {
            return Ok(rows(input, provenance, next, &stages));
        }
    }
    if provenance.cut.window_start.min(next) < input.first {
        return Err(NotKnown::Pruned { first: input.first });
    }
    Err(NotKnown::Differs)
}

/// Makes the prompt again, for a request like this one. Returns `None` if it is not the one that was sent.
fn stages(input: &ExplainInput<'_>, provenance: &Provenance, request: &RequestInfo) -> Option<Stages> {
    let ExplainInput { exchanges, summary, clear, cost, .. } = *input;
    let explained = &input.explained.exchange;
    let cut = Cut::at(provenance.cut);

    let mut folded = Folded::of(exchanges, cut.window_start, cut.recalled_from);
    folded.make_way_for(explained.input());
    let answers = check_input(folded.state(), explained.input()).ok()?;
    let continues = folded.state().asked().filter(|_| answers);
    let gave_way = folded.gave_way().to_vec();
    let folded = before_input(folded, exchanges, explained.input(), answers, request);

    let mut items = folded.clone();
    if let Some(clear) = clear {
        clearing::apply(&mut items, clear, cost, cut.cleared_before);
    }
    let cleared = items.clone();

    let log = WindowIndex::of(exchanges, &cut, continues);
    let conditions = Conditions { request, head: provenance.digests.head, origin: &provenance.origin };
    let mut window = WholeWindow { items, exchanges, cut: &cut, continues, summary, conditions };
    let reasoning = window.apply_rule(&log);
    let ruled = window.items;

    // Unlike those of a window index, these positions can be after the last exchange: then its round was left out, too.
    let sent = kept(ruled.clone(), cut.window_start, cut.rounds_start.max(cut.window_start));

    let recalled = explained.recalled.iter().map(|recalled| &recalled.message);
    let before = summary.into_iter().chain(sent.iter().map(|item| &item.message));
    let digest = digest_after(provenance.digests.head, before.chain(recalled).chain(explained.input()));
    let is_same = digest == provenance.digests.prompt;
    is_same.then_some(Stages { gave_way, folded, cleared, ruled, sent, restarts: reasoning.restarts })
}
