//! Removal of the beginning of a log, in stores that can prune.

use tower_chat_history_core::{
    Append, CompactionVersion, Exchange, ExchangeId, Expect, Incarnation, Load, Loaded, Message, PruneTo, Recorded,
    Seq, StoreError,
};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::PRUNE;

/// Exchanges before the position are removed, the others stay where they are, and other handles see it.
pub async fn the_beginning_of_the_log_is_removed(fixture: &dyn Fixture) {
    for from in 1..4 {
        let prunable = Prunable::new(fixture).await;
        let chat = &prunable.chat;
        let mut log = chat.add_turns(4).await;
        let pruned = prunable.keep(PruneTo::From(Seq::new(from))).await;
        assert_eq!((pruned.removed, pruned.revision.first()), (from, Seq::new(from)));
        for chat in [chat, &chat.reopened(fixture).await] {
            let window = chat.window(Load::new()).await;
            assert_eq!((window.revision, window.exchanges.as_slice()), (pruned.revision, &log[from as usize..]));
            assert_eq!(window.log_bytes, bytes_of(&log[from as usize..]));
            assert_eq!(chat.log().await, log[from as usize..]);
            for read in 0..=from {
                let page = chat.store.read(&chat.id, Seq::new(read), 1).await.must("the log can be read", &CLAUSE);
                assert_eq!((page.exchanges.as_slice(), page.more), (&log[from as usize..=from as usize], from < 3));
            }
        }
        // The log continues at the same position as without the prune.
        log.push(chat.add(turn_of("next")).await);
        assert_eq!(log[4].seq, Seq::new(4));
        assert_eq!(chat.log().await, log[from as usize..]);
        assert_eq!(chat.window(limit(1, 1)).await.log_bytes, bytes_of(&log[from as usize..]));
    }
}

/// Turns are counted by the exchanges that open them.
pub async fn the_last_turns_are_kept(fixture: &dyn Fixture) {
    for (turns, begins) in [(4, 0), (3, 1), (2, 1 + 1), (1, 4)] {
        let prunable = Prunable::new(fixture).await;
        let chat = &prunable.chat;
        let mut log = chat.add_turns(2).await;
        let call = chat.add(call_of("what is it?")).await;
        log.extend([call.clone(), chat.add(result_for(call.seq)).await]);
        log.push(chat.add(turn_of("next")).await);
        let pruned = prunable.keep(PruneTo::LastTurns(turns)).await;
        assert_eq!((pruned.removed, pruned.revision.first()), (begins, Seq::new(begins)), "{turns}");
        assert_eq!(chat.log().await, log[begins as usize..]);
    }
}

/// Only whole turns that together have at most this many messages are kept.
pub async fn the_last_messages_are_kept(fixture: &dyn Fixture) {
    // Turns of 2, 4 (in two exchanges) and 2 messages.
    for (messages, begins) in [(8, 0), (7, 1), (6, 1), (5, 3), (2, 3)] {
        let prunable = Prunable::new(fixture).await;
        let chat = &prunable.chat;
        let mut log = chat.add_turns(1).await;
        let call = chat.add(call_of("what is it?")).await;
        log.extend([call.clone(), chat.add(result_for(call.seq)).await]);
        log.push(chat.add(turn_of("next")).await);
        let pruned = prunable.keep(PruneTo::LastMessages(messages)).await;
        assert_eq!((pruned.removed, pruned.revision.first()), (begins, Seq::new(begins)), "{messages}");
        assert_eq!(chat.log().await, log[begins as usize..]);
    }
    // An exchange without messages counts as one message.
    let prunable = Prunable::new(fixture).await;
    for _ in 0..5 {
        prunable.chat.add(Exchange::new(ExchangeId::generate(), [])).await;
    }
    assert_eq!(prunable.keep(PruneTo::LastMessages(2)).await.removed, 3);
}

/// No prune removes everything: the newest turn stays, whatever its size.
pub async fn the_newest_turn_stays(fixture: &dyn Fixture) {
    let nothing = [PruneTo::LastTurns(0), PruneTo::LastMessages(0), PruneTo::LastMessages(3)];
    let beyond = [2, 4, 5, 1 << 32, u64::MAX].map(|seq| PruneTo::From(Seq::new(seq)));
    for keep in nothing.into_iter().chain(beyond) {
        let prunable = Prunable::new(fixture).await;
        let chat = &prunable.chat;
        chat.add_turns(2).await;
        let call = chat.add(call_of("what is it?")).await;
        let turn = [call.clone(), chat.add(result_for(call.seq)).await];
        for removed in [2, 0] {
            let pruned = prunable.keep(keep).await;
            assert_eq!((pruned.removed, pruned.revision.first()), (removed, call.seq), "{keep:?}");
            assert_eq!(chat.log().await, turn);
        }
    }
}

/// The remaining log begins with an exchange that opens a turn, even if another turn's late continuation follows.
pub async fn a_position_within_a_turn_keeps_the_whole_turn(fixture: &dyn Fixture) {
    for (from, begins) in [(1, 1), (2, 1), (3, 3), (4, 3), (5, 3)] {
        let prunable = Prunable::new(fixture).await;
        let chat = &prunable.chat;
        let mut log = chat.add_turns(1).await;
        let call = chat.add(call_of("what is it?")).await;
        let again = [Message::tool("call-1", "41"), call.exchange.messages[1].clone()];
        let again = Exchange::new(ExchangeId::generate(), again).continuing(call.seq);
        log.extend([call, chat.add(again).await]);
        log.push(chat.add(turn_of("meanwhile")).await);
        log.push(chat.add(result_for(Seq::new(2))).await);
        let pruned = prunable.keep(PruneTo::From(Seq::new(from))).await;
        assert_eq!((pruned.removed, pruned.revision.first()), (begins, Seq::new(begins)), "{from}");
        assert_eq!(chat.window(Load::new()).await.exchanges, log[begins as usize..]);
    }
}

/// If there is nothing to remove, the revision stays the same. That includes a repeated prune.
pub async fn a_prune_that_removes_nothing_changes_nothing(fixture: &dyn Fixture) {
    let prunable = Prunable::new(fixture).await;
    let chat = &prunable.chat;
    chat.add_turns(5).await;
    prunable.keep(PruneTo::LastTurns(3)).await;
    let before = chat.window(Load::new()).await;
    for keep in
        [PruneTo::LastTurns(3), PruneTo::LastTurns(usize::MAX), PruneTo::LastMessages(6), PruneTo::From(Seq::FIRST)]
    {
        let pruned = prunable.keep(keep).await;
        assert_eq!((pruned.revision, pruned.removed), (before.revision, 0), "{keep:?}");
    }
    assert_eq!(chat.load(Load::new().known(before.known())).await, Loaded::Unchanged);
}

/// A state that is known from before the prune does not match: the load returns the pruned log. The state of the pruned
/// log can then be known.
pub async fn a_known_state_is_not_known_any_more(fixture: &dyn Fixture) {
    let prunable = Prunable::new(fixture).await;
    let chat = &prunable.chat;
    let log = chat.add_turns(4).await;
    let mut known = vec![chat.window(Load::new()).await.known()];
    for from in 1..4 {
        let pruned = prunable.keep(PruneTo::From(Seq::new(from))).await;
        for known in &known {
            let window = chat.window(Load::new().known(known.clone())).await;
            assert_eq!((window.revision, window.exchanges.as_slice()), (pruned.revision, &log[from as usize..]));
        }
        known.push(chat.window(Load::new()).await.known());
        assert_eq!(chat.load(Load::new().known(known[from as usize].clone())).await, Loaded::Unchanged);
    }
}

/// An append that expects the revision from before the prune is stored, as long as nothing was appended. Otherwise it
/// conflicts as usual.
pub async fn turns_in_flight_land(fixture: &dyn Fixture) {
    let prunable = Prunable::new(fixture).await;
    let chat = &prunable.chat;
    chat.add_turns(4).await;
    let old = chat.revision().await;
    let pruned = prunable.keep(PruneTo::LastTurns(1)).await;
    assert_eq!(pruned.revision.incarnation(), old.incarnation());
    let landed = chat.append(Expect::Exactly(old), turn_of("in flight")).await.must("its end is the same", &CLAUSE);
    assert_eq!((landed.seq, landed.revision.first()), (Seq::new(4), Seq::new(3)));
    for stale in [old, pruned.revision] {
        assert_conflict(chat.append(Expect::Exactly(stale), turn_of("late")).await, landed.revision);
    }
    let any = Expect::AnyIn(old.incarnation());
    assert_eq!(chat.append(any, turn_of("any")).await.must("it is the incarnation", &CLAUSE).seq, Seq::new(5));
}

/// A continuation of a removed call is stored, because its reply has been paid for. A continuation of a call that
/// never existed is refused.
pub async fn a_removed_call_can_be_continued(fixture: &dyn Fixture) {
    let prunable = Prunable::new(fixture).await;
    let chat = &prunable.chat;
    let call = chat.add(call_of("what is it?")).await;
    let next = chat.add(turn_of("never mind")).await;
    prunable.keep(PruneTo::LastTurns(1)).await;
    let late = chat.add(result_for(call.seq)).await;
    assert_eq!(chat.window(Load::new()).await.exchanges, [next, late]);
    let unknown = chat.append(Expect::AnyOrCreate, result_for(Seq::new(3))).await;
    assert!(matches!(unknown, Err(StoreError::ContinuesUnknown { len: 3, .. })), "{unknown:?}");
}

/// An ended incarnation, an unknown one and an absent conversation are refused with `Gone`, and nothing is removed or
/// created.
pub async fn only_its_incarnation_is_pruned(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::PRUNE_ONCE;
    let prunable = Prunable::new(fixture).await;
    let chat = &prunable.chat;
    let keep = PruneTo::LastTurns(1);
    assert_gone(prunable.prune(Incarnation::random(), keep).await);
    chat.assert_absent().await;
    chat.add_turns(2).await;
    let dead = chat.incarnation().await;
    chat.delete().await;
    assert_gone(prunable.prune(dead, keep).await);
    chat.assert_absent().await;
    let log = chat.add_turns(3).await;
    for wrong in [dead, Incarnation::random()] {
        assert_gone(prunable.prune(wrong, keep).await);
    }
    assert_eq!(chat.log().await, log);
}

/// A load that reaches the beginning of the remaining log is not truncated. A limit truncates it as usual.
pub async fn a_prune_does_not_truncate_loads(fixture: &dyn Fixture) {
    let prunable = Prunable::new(fixture).await;
    let chat = &prunable.chat;
    let log = chat.add_turns(6).await;
    prunable.keep(PruneTo::LastTurns(3)).await;
    for (messages, start, truncated) in [(100, 3, false), (6, 3, false), (5, 4, true), (1, 5, true)] {
        let window = chat.window(limit(messages, usize::MAX)).await;
        assert_eq!((window.exchanges.as_slice(), window.truncated), (&log[start..], truncated), "{messages}");
    }
}

/// Removed exchange ids are no longer recognized. The remaining ones are.
pub async fn removed_ids_are_free_again(fixture: &dyn Fixture) {
    let prunable = Prunable::new(fixture).await;
    let chat = &prunable.chat;
    let log = chat.add_turns(4).await;
    let revision = prunable.keep(PruneTo::LastTurns(2)).await.revision;
    for recorded in &log[2..] {
        let asked = Load::new().exchange(recorded.exchange.id.clone());
        assert_eq!(chat.load(asked).await, Loaded::AlreadyRecorded(recorded.clone()));
        let repeated = chat.append(Expect::Absent, (*recorded.exchange).clone()).await.must("it is recorded", &CLAUSE);
        assert_eq!((repeated.duplicate, repeated.seq, repeated.revision), (true, recorded.seq, revision));
    }
    for recorded in &log[..2] {
        window(chat.load(Load::new().exchange(recorded.exchange.id.clone())).await);
    }
    let again = chat.append(Expect::AnyOrCreate, (*log[0].exchange).clone()).await.must("its id is free", &CLAUSE);
    assert_eq!((again.duplicate, again.seq), (false, Seq::new(4)));
}

/// Only one conversation is pruned.
pub async fn other_conversations_stay(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::LOSSLESS;
    let prunable = Prunable::new(fixture).await;
    let others = [prunable.chat.other(), prunable.chat.other()];
    let exchanges = [turn_of("a"), turn_of("b"), turn_of("c")];
    let mut before = Vec::new();
    for chat in [&others[0], &prunable.chat, &others[1]] {
        for exchange in &exchanges {
            chat.add(exchange.clone()).await;
        }
        chat.cut(CompactionVersion::NONE, summary_to(1, "kept")).await;
        before.push((chat.window(Load::new()).await, chat.log().await));
    }
    prunable.keep(PruneTo::LastTurns(2)).await;
    prunable.forget(PruneTo::LastTurns(1)).await;
    for (chat, before) in others.iter().zip([&before[0], &before[2]]) {
        assert_eq!((&chat.window(Load::new()).await, &chat.log().await), (&before.0, &before.1));
        let repeated = chat.append(Expect::Absent, exchanges[0].clone()).await.must("it is recorded", &CLAUSE);
        assert!(repeated.duplicate, "{repeated:?}");
    }
}

/// Deleting a pruned conversation leaves nothing, and a new conversation begins at position 0.
pub async fn a_recreated_conversation_begins_at_position_0(fixture: &dyn Fixture) {
    let prunable = Prunable::new(fixture).await;
    let chat = &prunable.chat;
    chat.add_turns(3).await;
    prunable.keep(PruneTo::LastTurns(1)).await;
    chat.delete().await;
    chat.assert_absent().await;
    let append = Append::new(Expect::Absent, turn_of("again"));
    let appended = chat.store.append(&chat.id, append).await.must("nothing is there", &CLAUSE);
    assert_eq!((appended.seq, appended.revision.first()), (Seq::FIRST, Seq::FIRST));
    assert_eq!(chat.log().await.len(), 1);
}

/// If the store can do both, a pruned log can be truncated at its positions, also under a revision from before the
/// prune. A truncation up to its first position leaves nothing.
pub async fn a_pruned_log_is_truncated(fixture: &dyn Fixture) {
    for from in 0..6_u64 {
        let prunable = Prunable::new(fixture).await;
        let chat = &prunable.chat;
        let edit = Editable::at(fixture, chat.id.clone()).await;
        let mut log: Vec<Recorded> = chat.add_turns(5).await;
        let old = chat.revision().await;
        prunable.keep(PruneTo::From(Seq::new(2))).await;
        let truncated = edit.truncate(old, from).await.must("nothing was appended", &CLAUSE);
        assert_eq!(truncated.removed, 5 - from.clamp(2, 5));
        if from <= 2 {
            assert_eq!(truncated.revision, None);
            chat.assert_absent().await;
            continue;
        }
        let revision = chat.revision().await;
        assert_eq!((truncated.revision, revision.first()), (Some(revision), Seq::new(2)));
        log.truncate(usize::try_from(from).unwrap_or(usize::MAX));
        log.push(chat.add(turn_of("instead")).await);
        assert_eq!(chat.log().await, log[2..]);
    }
}
