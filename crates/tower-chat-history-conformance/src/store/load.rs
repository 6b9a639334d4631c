//! Loads: known states and recorded exchanges.

use tower_chat_history_core::{
    CompactionVersion, Cut, Exchange, ExchangeId, Incarnation, KnownState, Load, Loaded, Recorded, Revision, Seq,
};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::LOAD;

/// A conversation that does not exist is absent, whatever the load asks for.
pub async fn a_missing_conversation_is_absent(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let revision = Revision::new(Incarnation::random(), 1);
    let known = KnownState { revision, compaction: CompactionVersion::NONE, newest: None };
    let asked = Load::new().exchange(ExchangeId::generate());
    for load in [Load::new(), Load::new().known(known.clone()), asked.clone(), asked.known(known.clone()), limit(1, 1)]
    {
        assert_eq!(chat.load(load).await.is_absent(), true);
    }
}

/// Without a compaction the window is the whole log.
pub async fn the_window_is_the_whole_log_at_first(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let added = chat.add_turns(5).await;
    let window = chat.window(Load::new()).await;
    assert_eq!((window.compaction, window.truncated), (None, false));
    assert_eq!(window.exchanges, added);
}

/// A window says how large the whole log is, whatever part of the log it has.
pub async fn a_window_has_the_size_of_the_whole_log(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::LOG_BYTES;
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(3).await;
    chat.cut(CompactionVersion::NONE, Cut::window_from(Seq::new(1))).await;
    for text in ["", "a longer question"] {
        for load in [Load::new(), limit(1, 1)] {
            for chat in [&chat, &chat.reopened(fixture).await] {
                assert_eq!(chat.window(load.clone()).await.log_bytes, bytes_of(&log));
            }
        }
        log.push(chat.add(turn_of(text)).await);
    }
    let empty = Exchange::new(ExchangeId::generate(), []);
    chat.add(empty).await;
    assert_eq!(chat.window(Load::new()).await.log_bytes, bytes_of(&log));
    chat.delete().await;
    let log = chat.add_turns(1).await;
    assert_eq!(chat.window(Load::new()).await.log_bytes, bytes_of(&log));
}

/// A caller that knows the log and the compaction gets `Unchanged`, with and without a compaction.
pub async fn a_known_state_is_unchanged(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(2).await;
    let known = chat.window(Load::new()).await.known();
    assert_eq!(chat.load(Load::new().known(known.clone())).await, Loaded::Unchanged);
    assert_eq!(chat.load(limit(1, 1).known(known.clone())).await, Loaded::Unchanged);
    chat.cut(CompactionVersion::NONE, Cut::window_from(Seq::new(1))).await;
    let known = chat.window(Load::new()).await.known();
    assert_eq!(chat.load(Load::new().known(known.clone())).await, Loaded::Unchanged);
}

/// An append by another caller changes the known state.
pub async fn an_append_changes_the_known_state(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut added = chat.add_turns(2).await;
    let known = chat.window(Load::new()).await.known();
    added.extend(chat.reopened(fixture).await.add_turns(1).await);
    let window = chat.window(Load::new().known(known.clone())).await;
    assert_ne!(window.revision, known.revision);
    assert_eq!(window.exchanges, added);
}

/// A compaction by another caller changes the known state, even though the log is unchanged.
pub async fn a_compaction_changes_the_known_state(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let added = chat.add_turns(3).await;
    let other = chat.reopened(fixture).await;
    let known = chat.window(Load::new()).await.known();
    let first = other.cut(CompactionVersion::NONE, Cut::window_from(Seq::new(1))).await;
    let window = chat.window(Load::new().known(known.clone())).await;
    assert_eq!((window.revision, window.compaction.as_ref()), (known.revision, Some(&first)));
    assert_eq!(window.exchanges, added[1..]);
    let known = window.known();
    let second = other.cut(first.version, Cut::window_from(Seq::new(2))).await;
    let window = chat.window(Load::new().known(known.clone())).await;
    assert_eq!(window.compaction, Some(second));
    assert_eq!(window.exchanges, added[2..]);
}

/// A known state of one profile is not accepted for another profile whose compaction has another version.
pub async fn another_profile_is_not_known(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let added = chat.add_turns(2).await;
    let known = chat.window(Load::new()).await.known();
    let small = profile("small");
    chat.compact_as(&small, CompactionVersion::NONE, Cut::window_from(Seq::new(1)))
        .await
        .must("the cut is legal", &CLAUSE);
    let window = chat.window(Load::new().profile(small).known(known.clone())).await;
    assert_eq!(window.exchanges, added[1..]);
    let small_is_known = Load::new().known(window.known());
    assert_eq!(chat.window(small_is_known).await.exchanges, added);
    assert_eq!(
        chat.load(Load::new().known(known.clone())).await,
        Loaded::Unchanged,
        "the default profile did not change"
    );
}

/// Only the exact state is known: a revision or a compaction version that never existed returns the window.
pub async fn a_state_that_never_existed_is_not_known(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let added = chat.add_turns(1).await;
    let now = chat.window(Load::new()).await.known();
    let in_incarnation = |version| Revision::new(now.revision.incarnation(), version);
    let of_revision = |revision| KnownState { revision, ..now.clone() };
    let of_compaction = |version| KnownState { compaction: CompactionVersion::new(version), ..now.clone() };
    for known in [
        of_compaction(1),
        of_compaction(u64::MAX),
        of_revision(in_incarnation(u64::MAX)),
        of_revision(in_incarnation(now.revision.version().wrapping_sub(1))),
        of_revision(Revision::new(Incarnation::random(), now.revision.version())),
        // If a server lost acknowledged appends, another exchange may be at the same revision.
        KnownState { newest: Some(ExchangeId::generate()), ..now.clone() },
    ] {
        assert_eq!(chat.window(Load::new().known(known.clone())).await.exchanges, added, "{known:?}");
    }
    let without_end = KnownState { newest: None, ..now.clone() };
    for known in [now, without_end] {
        assert_eq!(chat.load(Load::new().known(known.clone())).await, Loaded::Unchanged);
    }
}

/// A recorded exchange is found by its id before the known state is checked.
pub async fn a_recorded_exchange_is_found_first(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let added = chat.add_turns(3).await;
    let known = chat.window(Load::new()).await.known();
    for recorded in added {
        let asked = Load::new().exchange(recorded.exchange.id.clone());
        for load in [asked.clone(), asked.clone().known(known.clone()), asked.limit(limit(1, 1).limit)] {
            assert_eq!(chat.load(load).await, Loaded::AlreadyRecorded(recorded.clone()));
        }
    }
}

/// A recorded exchange before the window is found.
pub async fn an_exchange_before_the_window_is_found(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let added = chat.add_turns(3).await;
    chat.cut(CompactionVersion::NONE, summary_to(2, "before")).await;
    let asked = limit(1, 1).exchange(added[0].exchange.id.clone());
    assert_eq!(chat.load(asked).await, Loaded::AlreadyRecorded(added[0].clone()));
}

/// If the requested exchange is not recorded, the answer is the same as without the request.
pub async fn an_exchange_that_is_not_recorded_is_not_found(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(2).await;
    let elsewhere = chat.other().add(turn_of("elsewhere")).await;
    let window = chat.window(Load::new()).await;
    for id in [ExchangeId::generate(), elsewhere.exchange.id.clone()] {
        let asked = Load::new().exchange(id);
        assert_eq!(chat.load(asked.clone()).await, Loaded::Window(window.clone()));
        assert_eq!(chat.load(asked.known(window.known())).await, Loaded::Unchanged);
    }
}

/// A continuation is found by its id too, with the position it continues.
pub async fn a_recorded_continuation_is_found(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let call = chat.add(call_of("what is it?")).await;
    let result: Recorded = chat.add(result_for(call.seq)).await;
    let asked = Load::new().exchange(result.exchange.id.clone());
    assert_eq!(chat.load(asked).await, Loaded::AlreadyRecorded(result));
}
