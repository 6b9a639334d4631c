//! Loads that allow a store to return only the exchanges that were added since the known state.
//!
//! A store may always return the window instead, so each behavior accepts both answers.

use tower_chat_history_core::{
    CompactionVersion, Cut, ExchangeId, Incarnation, KnownState, Load, Loaded, PruneTo, Revision, Seq, Window,
};

use super::{Fixture, recalled, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::ADDED;

/// Loads what was added to this window, and returns the current one.
async fn extended(chat: &Chat, known: &Window, load: Load) -> Window {
    match chat.load(load.known(known.known()).or_added()).await {
        Loaded::Unchanged => known.clone(),
        Loaded::Added(added) => {
            assert!(!added.exchanges.is_empty(), "no exchange was added");
            known.clone().with_added(added)
        }
        loaded => window(loaded),
    }
}

/// However many exchanges others have added, the caller gets to the window that a load without a known state returns.
pub async fn added_exchanges_extend_the_known_window(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let other = chat.reopened(fixture).await;
    chat.add_turns(3).await;
    let mut known = chat.window(Load::new()).await;
    let mut windows = vec![known.clone()];
    for count in [0, 1, 2, 7] {
        other.add_turns(count).await;
        known = extended(&chat, &known, Load::new()).await;
        assert_eq!(known, chat.window(Load::new()).await, "{count} exchanges were added");
        windows.push(known.clone());
    }
    chat.cut(CompactionVersion::NONE, summary_to(4, "before")).await;
    let compacted = chat.window(Load::new()).await;
    other.add_turns(2).await;
    for known in [&compacted].into_iter().chain(&windows) {
        assert_eq!(extended(&chat, known, Load::new()).await, chat.window(Load::new()).await);
    }
}

/// Added exchanges have everything that those of a window have.
pub async fn added_exchanges_come_with_all_their_parts(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(1).await;
    let known = chat.window(Load::new()).await;
    let call = chat.add(call_of("what is it?")).await;
    chat.add(result_for(call.seq)).await;
    chat.add(recalled::recalling("asks", [0])).await;
    chat.add(super::provenance::made_after("third")).await;
    assert_eq!(extended(&chat, &known, Load::new()).await, chat.window(Load::new()).await);
}

/// A caller that does not expect this answer never gets it.
pub async fn only_a_load_that_allows_it_gets_added_exchanges(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(2).await;
    let known = chat.window(Load::new()).await.known();
    log.extend(chat.add_turns(1).await);
    assert_eq!(chat.window(Load::new().known(known)).await.exchanges, log);
    assert_eq!(chat.window(Load::new().or_added()).await.exchanges, log, "no state is known");
}

/// A state of another log, of another compaction, or from the future is not an earlier state of the log.
pub async fn nothing_is_added_to_a_state_that_the_log_never_had(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(3).await;
    let before = chat.window(Load::new()).await.known();
    log.extend(chat.add_turns(1).await);
    let in_incarnation = |version| Revision::new(before.revision.incarnation(), version);
    let of_revision = |revision| KnownState { revision, ..before.clone() };
    for known in [
        of_revision(in_incarnation(0)),
        of_revision(in_incarnation(1)),
        of_revision(in_incarnation(2)),
        of_revision(in_incarnation(4)),
        of_revision(in_incarnation(u64::MAX)),
        of_revision(Revision::new(Incarnation::random(), 3)),
        of_revision(in_incarnation(3).beginning_at(Seq::new(1))),
        KnownState { compaction: CompactionVersion::new(1), ..before.clone() },
        KnownState { compaction: CompactionVersion::new(u64::MAX), ..before.clone() },
    ] {
        let window = chat.window(Load::new().known(known.clone()).or_added()).await;
        assert_eq!(window.exchanges, log, "{known:?}");
    }
}

/// After a failover, the log can have other exchanges at the positions that the caller knows. The newest known exchange
/// shows that.
pub async fn nothing_is_added_to_a_state_with_a_lost_exchange(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(2).await;
    let before = chat.window(Load::new()).await.known();
    log.extend(chat.add_turns(2).await);
    for newest in
        [None, Some(ExchangeId::generate()), Some(log[0].exchange.id.clone()), Some(log[2].exchange.id.clone())]
    {
        let known = KnownState { newest, ..before.clone() };
        let window = chat.window(Load::new().known(known.clone()).or_added()).await;
        assert_eq!(window.exchanges, log, "{known:?}");
    }
}

/// A caller that does not know the compaction gets the whole window, also if exchanges were added.
pub async fn nothing_is_added_after_a_compaction(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(2).await;
    let known = chat.window(Load::new()).await;
    let compaction = chat.cut(CompactionVersion::NONE, Cut::window_from(Seq::new(1))).await;
    let added = chat.add_turns(1).await;
    let window = chat.window(Load::new().known(known.known()).or_added()).await;
    assert_eq!(window.compaction, Some(compaction));
    assert_eq!(window.exchanges, [&log[1..], &added].concat());
}

/// Exchanges that exceed the limit of the load are not added: the caller gets the window within the limit.
pub async fn added_exchanges_are_within_the_limit(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(2).await;
    let known = chat.window(Load::new()).await.known();
    let added = chat.add_turns(3).await;
    let bytes = usize::try_from(bytes_of(&added)).unwrap_or(usize::MAX);
    for load in [limit(5, usize::MAX), limit(usize::MAX, bytes - 1)] {
        let window = chat.window(load.known(known.clone()).or_added()).await;
        assert_eq!((window.exchanges.as_slice(), window.truncated), (&added[1..], true));
    }
    for load in [limit(6, usize::MAX), limit(usize::MAX, bytes)] {
        let exchanges = match chat.load(load.known(known.clone()).or_added()).await {
            Loaded::Added(found) => found.exchanges,
            loaded => window(loaded).exchanges,
        };
        assert_eq!(exchanges, added, "the added exchanges are exactly as large as the limit");
    }
}

/// The lookup of an exchange comes first, also if the exchange was added since.
pub async fn a_recorded_exchange_is_found_before_added_ones(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(2).await;
    let known = chat.window(Load::new()).await.known();
    log.extend(chat.add_turns(1).await);
    for recorded in log {
        let load = Load::new().exchange(recorded.exchange.id.clone()).known(known.clone()).or_added();
        assert_eq!(chat.load(load).await, Loaded::AlreadyRecorded(recorded));
    }
}

/// A truncation begins another incarnation, so nothing is added to a state from before.
pub async fn nothing_is_added_after_a_truncation(fixture: &dyn Fixture) {
    let edit = Editable::new(fixture).await;
    let chat = &edit.chat;
    let mut log = chat.add_turns(3).await;
    let known = chat.window(Load::new()).await;
    edit.keep(2).await;
    log.truncate(2);
    log.extend(chat.add_turns(2).await);
    assert_eq!(chat.window(Load::new().known(known.known()).or_added()).await.exchanges, log);
}

/// A prune moves the beginning of the log, so nothing is added to a state from before.
pub async fn nothing_is_added_after_a_prune(fixture: &dyn Fixture) {
    let prunable = Prunable::new(fixture).await;
    let chat = &prunable.chat;
    let mut log = chat.add_turns(3).await;
    let known = chat.window(Load::new()).await;
    prunable.keep(PruneTo::From(Seq::new(1))).await;
    log.extend(chat.add_turns(1).await);
    let load = Load::new().known(known.known()).or_added();
    assert_eq!(chat.window(load.clone()).await.exchanges, log[1..]);
    let pruned = chat.window(Load::new()).await;
    log.extend(chat.add_turns(1).await);
    assert_eq!(extended(chat, &pruned, Load::new()).await.exchanges, log[1..]);
}
