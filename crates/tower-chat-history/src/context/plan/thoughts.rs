//! Old reasoning that nobody has signed: it is left out if [the option](crate::ContextOptions::old_reasoning) says so.
//!
//! It is left out of messages that are already [adapted](super::adapt) to their reader, both at the compaction that first
//! leaves it out and in later prompts. So both lead to the same bytes.
//!
//! # Decisions
//!
//! - **The position moves only at a compaction**, because every move changes the prompt from its beginning on. If no
//!   turn's reasoning is wanted, it leaves at the end of each turn instead: then only the newest turn changes.
//! - **A provenance has the position in both cases**, so a prompt can be explained under other options.

use tower_chat_history_core::{Compat, Cut, Message, ReasoningField, Recorded, Seq};

use super::{item::Item, reasoning::Conditions, window_index::WindowIndex};

/// The reasoning of earlier turns that is bound to nothing, in tokens. It is only counted if old reasoning is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Thoughts {
    /// The tokens that the prompt lacks.
    pub(crate) saved: u64,
    /// The tokens that the prompt has.
    pub(crate) sent_again: u64,
}

impl Thoughts {
    /// Counts that of the items before the turn of the input, which begins at `turn`.
    pub(super) fn of(items: &[Item], turn: Seq, cost: &dyn Fn(&Message) -> u64) -> Self {
        let mut thoughts = Self::default();
        for Item { message, seq, whole, .. } in items {
            if let Some(whole) = whole {
                thoughts.saved += cost(whole).saturating_sub(cost(message));
            } else if *seq < turn
                && let Some(rest) = message.without_reasoning()
            {
                thoughts.sent_again += cost(message).saturating_sub(cost(rest));
            }
        }
        thoughts
    }
}

/// Returns the position before which a prompt under this cut lacks old reasoning. If no turn's reasoning stays, it is
/// the start of the turn of the input, which continues this exchange.
pub(super) fn left_out_before(call: Conditions<'_>, exchanges: &[Recorded], cut: &Cut, continues: Option<Seq>) -> Seq {
    if call.old_reasoning != Some(0) {
        return cut.thoughts_from;
    }
    let log = WindowIndex::of(exchanges, cut, continues);
    cut.thoughts_from.max(log.seq(log.most.window))
}

/// Leaves out the reasoning before this position that is bound to nothing and that the reader does not require. Returns
/// `false` if there is none.
pub(super) fn leave_out(items: &mut [Item], before: Seq, compat: &Compat) -> bool {
    let mut are_left_out = false;
    if before == Seq::FIRST {
        return are_left_out;
    }
    for item in items.iter_mut().filter(|item| item.seq < before) {
        if is_required(&item.message, compat) {
            continue;
        }
        if let Some(rest) = item.message.without_reasoning().cloned() {
            item.whole = Some(std::mem::replace(&mut item.message, rest));
            are_left_out = true;
        }
    }
    are_left_out
}

/// Returns `true` if the reader refuses the message without its reasoning.
fn is_required(message: &Message, compat: &Compat) -> bool {
    let requires = matches!(compat.reasoning, ReasoningField::Required | ReasoningField::RequiredOfOthers);
    requires && !message.tool_calls().is_empty()
}
