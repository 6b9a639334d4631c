//! Taking exchanges off the beginning of a log: what not every store can do.

use std::sync::Arc;

use async_trait::async_trait;

use super::{HistoryStore, Scan, StoreError, scan::at_least_one};
use crate::{ConversationId, Incarnation, Revision, Seq};

/// A store that can remove the beginning of a conversation's log for good: to keep no more than a service needs, or to
/// forget what must be forgotten.
///
/// # Contract
///
/// - **Whole turns, and never all.** What stays begins with a turn's opening: a position within a turn stands for that turn's
///   opening. The newest turn stays in any case; what removes everything is [`delete`](HistoryStore::delete). (A late
///   continuation of a turn that was removed stays where it is.)
/// - **Positions stay.** No exchange that stays gets another position, and the next append has the next one. The log has no
///   gap from its [first](Revision::first) position on: reading from before it starts there, and a load's window too. That is
///   no [truncated](crate::Window::truncated) load.
/// - **Conditional and in one step.** It is done only in the incarnation that is named. Which exchanges are the last ones is
///   decided in that step. A caller that drops the future leaves a log that was pruned or one that was not.
/// - **The revision changes, its end does not.** What was [known](crate::Load::known) is not known any more, so nobody goes
///   on with what was removed. But turns in flight land: what [expects](crate::Expect::Exactly) the revision from before is
///   stored or [truncated](crate::Truncate) as long as [nothing was appended](Revision::has_same_end). An exchange may also
///   [continue](crate::Exchange::continues) one that was removed. Where nothing is removed, the revision stays.
/// - **Exchange ids.** Those of removed exchanges are free again: a call that is repeated later than that asks the model
///   again. Those that stay are recognised as before.
/// - **Compactions** stay as they are ([`Derived::Keep`]), also where their window starts at what was removed, and one that
///   was made from the log as it was is stored. A summary goes on telling of what it covers. [`Derived::Erase`] forgets that
///   as well.
/// - **Repeatable.** An error other than a refusal leaves the outcome open. A repeat removes what a first try would remove
///   now; where that begins a new incarnation, it is refused with [`Gone`](StoreError::Gone).
///
/// The handle of a [`Conversation`](crate::Conversation) has `keep_last_turns`, `keep_last_messages` and `prune` for such a
/// store. The trait can be used as `Arc<dyn Prune>`, and the conformance suite proves a store that has it (see
/// `Fixture::open_prune` there).
#[async_trait]
pub trait Prune: HistoryStore {
    /// Removes the exchanges before those that are to stay, if the conversation is in that incarnation.
    ///
    /// # Errors
    ///
    /// [`Gone`](StoreError::Gone) when the incarnation has ended or there is no conversation, or when the store cannot be
    /// written. Nothing is removed by a refusal.
    async fn prune(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        keep: PruneTo,
        traces: Derived,
    ) -> Result<Pruned, StoreError>;
}

/// What is to stay of a log. It is rounded to whole turns, and the newest turn stays in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PruneTo {
    /// The exchange at this position and all after it; within a turn, the whole turn.
    From(Seq),
    /// That many turns, the newest ones.
    LastTurns(usize),
    /// The newest turns that together have at most that many messages. An exchange without messages counts as one
    /// message, as in a [`LoadLimit`](crate::LoadLimit).
    LastMessages(usize),
}

/// What becomes of what tells of removed exchanges, outside of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Derived {
    /// It stays: summaries tell of them, and calls that were begun with them are stored. This saves space, and nothing is lost
    /// of what later prompts say.
    #[default]
    Keep,
    /// It is removed: no compaction stays that has a summary or cannot be read, and what stays goes on in another incarnation,
    /// under other versions of its compactions. So what is in flight is refused with [`Gone`](StoreError::Gone), as after a
    /// deletion. It also removes the traces of what earlier prunes removed; a log that still has its very first exchange has
    /// none, and is left as it is.
    Erase,
}

/// What became of a prune.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pruned {
    /// The log's revision after it. It says where the log [begins](Revision::first).
    pub revision: Revision,
    /// How many exchanges were removed.
    pub removed: u64,
}

impl Pruned {
    /// So many exchanges were removed, and the log is at that revision.
    #[must_use]
    pub const fn new(revision: Revision, removed: u64) -> Self {
        Self { revision, removed }
    }
}

/// Walks a log back from its newest exchange and says where it begins after a prune.
///
/// Stores offer it one exchange after the other, from the one before [`end`](Self::end) back to the log's first, and stop when
/// it says so: every store then cuts at the same place.
///
/// ```
/// use tower_chat_history_core::{PruneTo, PruneScan, Scan, Seq};
///
/// // Four turns of two messages, of which four messages are to stay.
/// let mut scan = PruneScan::new(PruneTo::LastMessages(4), Seq::new(4));
/// assert_eq!(scan.end(), Seq::new(4));
/// assert_eq!(scan.offer(Seq::new(3), true, 2), Scan::More);
/// assert_eq!(scan.offer(Seq::new(2), true, 2), Scan::More);
/// assert_eq!(scan.offer(Seq::new(1), true, 2), Scan::Stop);
/// assert_eq!(scan.start(), Some(Seq::new(2)));
/// ```
#[derive(Clone, Debug)]
pub struct PruneScan {
    keep: PruneTo,
    end: Seq,
    turns: usize,
    messages: usize,
    /// The earliest opening that is to stay.
    opening: Option<Seq>,
}

impl PruneScan {
    /// A walk through a log whose next exchange will have position `next`.
    #[must_use]
    pub fn new(keep: PruneTo, next: Seq) -> Self {
        let end = match keep {
            PruneTo::From(from) => from.next().min(next),
            PruneTo::LastTurns(_) | PruneTo::LastMessages(_) => next,
        };
        Self { keep, end, turns: 0, messages: 0, opening: None }
    }

    /// The position after the first exchange to offer: what stands from there on stays in any case.
    #[must_use]
    pub const fn end(&self) -> Seq {
        self.end
    }

    /// Considers the next older exchange: its position, whether it opens a turn, and its number of messages.
    pub fn offer(&mut self, seq: Seq, opens_turn: bool, messages: usize) -> Scan {
        self.messages = self.messages.saturating_add(at_least_one(messages));
        let enough = match self.keep {
            PruneTo::From(_) => true,
            PruneTo::LastTurns(turns) => self.turns >= turns,
            PruneTo::LastMessages(most) => self.messages > most,
        };
        if enough && self.opening.is_some() {
            return Scan::Stop;
        }
        if opens_turn {
            self.turns += 1;
            self.opening = Some(seq);
        }
        Scan::More
    }

    /// Where the log begins, once all was offered or the walk was stopped. `None` if no opening was offered: then nothing is
    /// to be removed.
    #[must_use]
    pub const fn start(&self) -> Option<Seq> {
        self.opening
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Prune + ?Sized> Prune for Arc<S> {
    async fn prune(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        keep: PruneTo,
        traces: Derived,
    ) -> Result<Pruned, StoreError> {
        (**self).prune(id, incarnation, keep, traces).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trait_is_dyn_compatible() {
        fn usable(_: Option<Arc<dyn Prune>>, _: Option<&dyn Prune>) {}
        fn is_store<S: Prune + HistoryStore>() {}
        usable(None, None);
        is_store::<Arc<dyn Prune>>();
    }

    /// Offers a log, given in order as (opens a turn, messages), and returns where it begins and how many were offered.
    fn walk(keep: PruneTo, log: &[(bool, usize)]) -> (Option<u64>, usize) {
        let mut scan = PruneScan::new(keep, Seq::new(log.len() as u64));
        let end = usize::try_from(scan.end().get()).unwrap();
        for (offered, (seq, (opens, messages))) in log.iter().enumerate().take(end).rev().enumerate() {
            if scan.offer(Seq::new(seq as u64), *opens, *messages) == Scan::Stop {
                return (scan.start().map(Seq::get), offered + 1);
            }
        }
        (scan.start().map(Seq::get), end)
    }

    /// Turns of one, three and two exchanges.
    const LOG: [(bool, usize); 6] = [(true, 2), (true, 2), (false, 2), (false, 3), (true, 2), (false, 2)];

    #[test]
    fn turns_are_counted_by_their_openings() {
        for (turns, begins, offered) in [(0, 4, 3), (1, 4, 3), (2, 1, 6), (3, 0, 6), (usize::MAX, 0, 6)] {
            assert_eq!(walk(PruneTo::LastTurns(turns), &LOG), (Some(begins), offered), "{turns}");
        }
    }

    #[test]
    fn messages_are_those_of_whole_turns() {
        for (messages, begins) in [(0, 4), (3, 4), (4, 4), (10, 4), (11, 1), (12, 1), (13, 0), (usize::MAX, 0)] {
            assert_eq!(walk(PruneTo::LastMessages(messages), &LOG).0, Some(begins), "{messages}");
        }
    }

    #[test]
    fn exchanges_without_messages_count_as_one_message_each() {
        assert_eq!(walk(PruneTo::LastMessages(3), &[(true, 0); 100]), (Some(97), 4));
    }

    #[test]
    fn a_position_is_moved_back_to_its_opening() {
        for (from, begins) in [(0, 0), (1, 1), (2, 1), (3, 1), (4, 4), (5, 4), (6, 4), (u64::MAX, 4)] {
            let (begin, offered) = walk(PruneTo::From(Seq::new(from)), &LOG);
            assert_eq!(begin, Some(begins), "{from}");
            assert!(offered <= 5, "what stays in any case is not walked through");
        }
    }

    #[test]
    fn where_nothing_opens_a_turn_nothing_is_removed() {
        assert_eq!(walk(PruneTo::LastTurns(1), &[(false, 1), (false, 1)]).0, None);
        assert_eq!(walk(PruneTo::LastTurns(1), &[]).0, None);
    }
}
