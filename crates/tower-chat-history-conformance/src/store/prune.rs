//! Removal of the beginning of a log, in stores that can prune, and what it does to compactions.

use std::sync::Arc;

use super::{
    load::{assert_media_are_counted, extended},
    support::*,
};

/// Returns a conversation with turns of 2, 4 and 2 messages. The second one has two exchanges.
async fn three_turns(fixture: &dyn Fixture) -> (Chat, Vec<Recorded>) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_all([turn_of("x"), call_of("what is it?"), result_for(Seq::new(1)), turn_of("next")]).await;
    (chat, log)
}

/// Prunes, and asserts that the log now begins there.
async fn assert_begins(chat: &Chat, keep: PruneTo, log: &[Recorded], begins: usize) {
    let pruned = chat.prune(keep).await;
    assert_eq!((pruned.removed, pruned.revision.first()), (begins as u64, Seq::new(begins as u64)), "{keep:?}");
    chat.assert_log(&log[begins..]).await;
}

/// The media that remain are counted, and those that follow.
pub async fn media_of_a_pruned_log_are_counted(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_all([2_000, 3_000, 4_000].map(photo_of)).await;
    chat.prune(PruneTo::From(Seq::new(1))).await;
    log.remove(0);
    log.push(chat.add(photo_of(5_000)).await);
    assert_media_are_counted(&chat, &log).await;
}

/// Exchanges before the position are removed, the others stay where they are, and other handles see it.
pub async fn the_beginning_of_the_log_is_removed(fixture: &dyn Fixture) {
    for from in 1..4_usize {
        let chat = Chat::new(fixture).await;
        let mut log = chat.add_turns(4).await;
        assert_begins(&chat, PruneTo::From(Seq::new(from as u64)), &log, from).await;
        let left = &log[from..];
        let revision = chat.revision().await;
        for chat in [&chat, &chat.reopened(fixture).await] {
            let window = chat.now().await;
            assert_eq!((window.revision, window.log_bytes), (revision, bytes_of(left)));
            chat.assert_log(left).await;
            for read in 0..=from as u64 {
                let page = chat.read(read, 1).await;
                assert_eq!((page.exchanges.as_slice(), page.more), (&left[..1], from < 3));
            }
        }

        // A load that reaches the beginning is not truncated. A limit truncates it as usual.
        for turns in 1..=left.len() {
            let window = chat.window(limit(turns * 2, MANY)).await;
            let at = left.len() - turns;
            assert_eq!((window.exchanges.as_slice(), window.truncated), (&left[at..], at > 0));
        }
        // The log continues at the same position as without the prune.
        log.push(chat.add(turn_of("next")).await);
        assert_eq!(log[4].seq, Seq::new(4));
        chat.assert_log(&log[from..]).await;
        assert_eq!(chat.window(limit(1, 1)).await.log_bytes, bytes_of(&log[from..]));
    }
}

/// The last turns are kept, which are counted by the exchanges that open them, or whole turns that together have at
/// most this many messages. An exchange without messages counts as one message.
pub async fn the_last_turns_are_kept(fixture: &dyn Fixture) {
    for (turns, begins) in [(4, 0), (3, 0), (2, 1), (1, 3)] {
        let (chat, log) = three_turns(fixture).await;
        assert_begins(&chat, PruneTo::LastTurns(turns), &log, begins).await;
    }
    for (messages, begins) in [(8, 0), (7, 1), (6, 1), (5, 3), (2, 3)] {
        let (chat, log) = three_turns(fixture).await;
        assert_begins(&chat, PruneTo::LastMessages(messages), &log, begins).await;
    }

    let chat = Chat::new(fixture).await;
    let log = chat.add_all((0..5).map(|_| exchange_of([]))).await;
    assert_begins(&chat, PruneTo::LastMessages(2), &log, 3).await;
}

/// No prune removes everything: the newest turn stays, whatever its size.
pub async fn the_newest_turn_stays(fixture: &dyn Fixture) {
    let nothing = [PruneTo::LastTurns(0), PruneTo::LastMessages(0), PruneTo::LastMessages(3)];
    let beyond = [2, 4, 5, 1 << 32, u64::MAX].map(|seq| PruneTo::From(Seq::new(seq)));
    for keep in nothing.into_iter().chain(beyond) {
        let chat = Chat::new(fixture).await;
        chat.add_turns(2).await;
        let turn = chat.add_call(1).await;
        for removed in [2, 0] {
            let pruned = chat.prune(keep).await;
            assert_eq!((pruned.removed, pruned.revision.first()), (removed, turn[0].seq), "{keep:?}");
            assert_eq!(chat.log().await, turn);
        }
    }
}

/// The remaining log begins with an exchange that opens a turn, even if another turn's late continuation follows.
pub async fn a_position_within_a_turn_keeps_the_whole_turn(fixture: &dyn Fixture) {
    for (from, begins) in [(1, 1), (2, 1), (3, 3), (4, 3), (5, 3)] {
        let chat = Chat::new(fixture).await;
        let call = call_of("what is it?");
        let again = exchange_of([Message::tool("call-1", "41"), call.messages[1].clone()]).continuing(Seq::new(1));
        let exchanges = [turn_of("x"), call, again, turn_of("meanwhile"), result_for(Seq::new(2))];
        let log = chat.add_all(exchanges).await;
        assert_begins(&chat, PruneTo::From(Seq::new(from)), &log, begins).await;
    }
}

/// If there is nothing to remove, the revision stays the same. That includes a repeated prune.
pub async fn a_prune_that_removes_nothing_changes_nothing(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(5).await;
    chat.prune(PruneTo::LastTurns(3)).await;
    let before = chat.now().await;
    for keep in [PruneTo::LastTurns(3), PruneTo::LastTurns(MANY), PruneTo::LastMessages(6), PruneTo::From(Seq::FIRST)] {
        assert_eq!(chat.prune(keep).await, Pruned::new(before.revision, 0), "{keep:?}");
    }
    chat.assert_unchanged(&before).await;
}

/// A state that is known from before the prune does not match: the load returns the pruned log, and adds nothing to the
/// known one. The state of the pruned log can then be known.
pub async fn a_known_state_is_not_known_any_more(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(4).await;
    let mut known = vec![chat.now().await];
    for from in 1..4 {
        let pruned = chat.prune(PruneTo::From(Seq::new(from))).await;
        let now = chat.now().await;
        assert_eq!((now.revision, now.exchanges.as_slice()), (pruned.revision, &log[from as usize..]));
        chat.assert_unchanged(&now).await;
        for known in &known {
            assert_eq!(chat.window(Load::new().known(known.known())).await, now);
        }

        log.extend(chat.add_turns(1).await);
        for known in &known {
            let window = chat.window(Load::new().known(known.known()).or_added()).await;
            assert_eq!(window.exchanges, log[from as usize..]);
        }
        assert_eq!(extended(&chat, &now).await, chat.now().await);
        known.push(now);
    }
}

/// An append that expects the revision from before the prune is stored, as long as nothing was appended. Otherwise it
/// conflicts as usual.
pub async fn turns_in_flight_land(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(4).await;
    let old = chat.revision().await;
    let pruned = chat.prune(PruneTo::LastTurns(1)).await;
    assert_eq!(pruned.revision.incarnation(), old.incarnation());
    let landed = chat.append(Expect::Exactly(old), turn_of("in flight")).await.unwrap();
    assert_eq!((landed.seq, landed.revision.first()), (Seq::new(4), Seq::new(3)));
    for stale in [old, pruned.revision] {
        assert_conflict(chat.append(Expect::Exactly(stale), turn_of("late")).await, landed.revision);
    }
    let any = chat.append(Expect::AnyIn(old.incarnation()), turn_of("any")).await.unwrap();
    assert_eq!(any.seq, Seq::new(5));
}

/// A continuation of a removed call is stored, because its reply has been paid for. A continuation of a call that
/// never existed is refused.
pub async fn a_removed_call_can_be_continued(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_all([call_of("what is it?"), turn_of("never mind")]).await;
    chat.prune(PruneTo::LastTurns(1)).await;
    log.push(chat.add(result_for(Seq::FIRST)).await);
    assert_eq!(chat.now().await.exchanges, log[1..]);
    assert_unknown(chat.append(Expect::AnyOrCreate, result_for(Seq::new(3))).await, 3, 3);
}

/// An ended incarnation, an unknown one and an absent conversation are refused with `Gone`, and nothing is removed or
/// created. After a deletion of a pruned log, a new one begins at position 0.
pub async fn only_its_incarnation_is_pruned(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let keep = PruneTo::LastTurns(1);
    assert_gone(chat.prune_in(Incarnation::random(), keep).await);
    chat.assert_absent().await;
    chat.add_turns(3).await;
    chat.prune(keep).await;
    let ended = chat.incarnation().await;
    chat.delete().await;
    assert_gone(chat.prune_in(ended, keep).await);
    chat.assert_absent().await;

    let appended = chat.append(Expect::Absent, turn_of("again")).await.unwrap();
    assert_eq!((appended.seq, appended.revision.first()), (Seq::FIRST, Seq::FIRST));
    chat.add_turns(2).await;
    for wrong in [ended, Incarnation::random()] {
        assert_gone(chat.prune_in(wrong, keep).await);
    }
    assert_eq!(chat.log().await.len(), 3);
}

/// Removed exchange ids are no longer recognized. The remaining ones are.
pub async fn removed_ids_are_free_again(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(4).await;
    chat.prune(PruneTo::LastTurns(2)).await;
    for recorded in &log[2..] {
        chat.assert_recorded(recorded).await;
        chat.assert_repeat(Expect::Absent, recorded).await;
    }
    for recorded in &log[..2] {
        chat.window(Load::new().exchange(recorded.exchange.id.clone())).await;
    }
    assert_eq!(chat.add((*log[0].exchange).clone()).await.seq, Seq::new(4));
}

/// Only one conversation is pruned.
pub async fn other_conversations_stay(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let others = [chat.other(), chat.other()];
    let exchanges = [turn_of("a"), turn_of("b"), turn_of("c")];
    for chat in [&others[0], &chat, &others[1]] {
        chat.add_all(exchanges.clone()).await;
        chat.cut(NONE, summary_to(1, "kept")).await;
    }
    let mut before = Vec::new();
    for other in &others {
        before.push((other.now().await, other.log().await));
    }
    chat.prune(PruneTo::LastTurns(2)).await;
    chat.forget(PruneTo::LastTurns(1)).await;
    for (other, before) in others.iter().zip(&before) {
        assert_eq!((other.now().await, other.log().await), *before);
        other.assert_repeat(Expect::Absent, &before.1[0]).await;
    }
}

/// If the store can do both, a pruned log can be truncated at its positions, also under a revision from before the
/// prune. A truncation up to its first position leaves nothing.
pub async fn a_pruned_log_is_truncated(fixture: &dyn Fixture) {
    for from in 0..6 {
        let chat = Chat::new(fixture).await;
        let mut log = chat.add_turns(5).await;
        let old = chat.revision().await;
        chat.prune(PruneTo::From(Seq::new(2))).await;
        let truncated = chat.reopened(fixture).await.truncate(old, from).await.unwrap();
        assert_eq!(truncated.removed, 5 - from.clamp(2, 5));
        if from <= 2 {
            assert_eq!(truncated.revision, None);
            chat.assert_absent().await;
            continue;
        }

        let revision = chat.revision().await;
        assert_eq!((truncated.revision, revision.first()), (Some(revision), Seq::new(2)));
        log.truncate(from as usize);
        log.push(chat.add(turn_of("instead")).await);
        assert_eq!(chat.log().await, log[2..]);
    }
}

/// Concurrent prunes and appends lose nothing that is to be kept, and readers see logs without gaps.
pub async fn prunes_and_appends_leave_no_gap(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let other = chat.reopened(fixture).await;
    chat.add_turns(2).await;
    let incarnation = other.incarnation().await;
    let pruning = async {
        for _ in 0..8 {
            chat.prune_in(incarnation, PruneTo::LastTurns(2)).await.unwrap();
            pause(1).await;
        }
    };
    let appending = join_all(["a", "b", "c"].map(async |text| {
        for _ in 0..4 {
            other.append(Expect::AnyIn(incarnation), turn_of(text)).await.unwrap();
            pause(1).await;
        }
    }));
    let reading = async {
        for _ in 0..12 {
            let window = other.now().await;
            let first = window.revision.first().get();
            let positions = window.exchanges.iter().map(|recorded| recorded.seq.get());
            assert!(positions.eq(first..first + window.exchanges.len() as u64), "a log with a gap: {window:?}");
            assert!(window.exchanges.len() >= 2, "less than two turns: {window:?}");
            pause(1).await;
        }
    };
    join(join(pruning, appending), reading).await;

    let log = chat.log().await;
    assert_eq!(log.last().map(|last| last.seq), Some(Seq::new(13)));
    chat.assert_log(&log).await;
}

/// Each of several concurrent prunes removes only what is left to remove.
pub async fn racing_prunes_remove_once(fixture: &dyn Fixture) {
    for _ in 0..5 {
        let chat = Chat::new(fixture).await;
        let log = chat.add_turns(8).await;
        let incarnation = chat.incarnation().await;
        let handles = chat.handles(fixture, 3).await;
        let racing =
            handles.iter().cycle().zip(1..7).map(|(chat, turns)| chat.prune_in(incarnation, PruneTo::LastTurns(turns)));
        let mut removed = 0;
        for pruned in join_all(racing).await {
            removed += pruned.unwrap().removed;
        }
        assert_eq!(removed, 7);
        assert_eq!(chat.log().await, log[7..]);
    }
}

/// A prune whose future is dropped is done or not done.
pub async fn a_dropped_prune_is_done_or_not(fixture: &dyn Fixture) {
    for polls in 0..4 {
        let chat = Chat::new(fixture).await;
        let log = chat.add_turns(3).await;
        abandon(chat.prune_in(chat.incarnation().await, PruneTo::LastTurns(1)), polls).await;
        let again = chat.prune(PruneTo::LastTurns(1)).await;
        assert!([0, 2].contains(&again.removed), "{again:?}");
        assert_eq!(chat.log().await, log[2..]);
    }
}

/// In a durable store, a prune survives a reopening: the log, its revision and its compactions are the same.
pub async fn a_prune_persists(fixture: &dyn Fixture) {
    let chat = Chat::durable(fixture).await;
    let log = chat.add_turns(5).await;
    let old = chat.revision().await;
    chat.cut(NONE, summary_to(1, "kept")).await;
    chat.prune(PruneTo::LastTurns(2)).await;
    let before = chat.now().await;

    let chat = chat.after_restart(fixture).await;
    assert_eq!(chat.now().await, before);
    assert_eq!(chat.log().await, log[3..]);
    let landed = chat.append(Expect::Exactly(old), turn_of("in flight")).await.unwrap();
    assert_eq!(landed.seq, Seq::new(5));
}

fn messages_of(log: &[Recorded]) -> usize {
    log.iter().map(|recorded| recorded.exchange.messages.len()).sum()
}

/// Returns the number of exchanges that a prune removes from the log.
fn removed_by(log: &[Recorded], keep: PruneTo) -> usize {
    let openings: Vec<usize> = (0..log.len()).filter(|at| log[*at].exchange.opens_turn()).collect();
    let newest = openings[openings.len() - 1];
    match keep {
        PruneTo::From(from) => openings.into_iter().rfind(|at| log[*at].seq <= from).unwrap_or(0),
        PruneTo::LastTurns(turns) => openings[openings.len().saturating_sub(turns.max(1))],
        PruneTo::LastMessages(most) => {
            openings.into_iter().find(|at| messages_of(&log[*at..]) <= most).unwrap_or(newest)
        }
        other => panic!("this suite does not know {other:?}"),
    }
}

/// After any sequence of appends and prunes, the log equals a list.
pub async fn random_prunes_and_appends_match_a_list(fixture: &dyn Fixture) {
    for seed in 1..=8 {
        let chat = Chat::new(fixture).await;
        let mut numbers = Numbers::new(seed);
        let mut log = chat.add_turns(1).await;
        for _ in 0..40 {
            let before = chat.revision().await;
            let next = before.next().get();
            let keep = match numbers.below(8) {
                0 => PruneTo::From(Seq::new(numbers.below(next + 2))),
                1 => PruneTo::LastTurns(numbers.below(6) as usize),
                2 => PruneTo::LastMessages(numbers.below(14) as usize),
                kind => {
                    log.push(match kind {
                        // The continued exchange may be any, even a removed one.
                        3 => chat.add(result_for(Seq::new(numbers.below(next)))).await,
                        4 => chat.add(call_of("what is it?")).await,
                        _ => chat.add(turn_of("next")).await,
                    });
                    continue;
                }
            };
            let removed = removed_by(&log, keep);
            log.drain(..removed);
            let revision = Revision::new(before.incarnation(), before.version()).beginning_at(log[0].seq);
            assert_eq!(chat.prune(keep).await, Pruned::new(revision, removed as u64), "{keep:?}");
            chat.assert_log(&log).await;
        }
        assert_eq!(chat.log().await, log);
    }
}

// The effect of a prune on compactions.

/// Every profile's compaction stays, with its version and its summary.
pub async fn compactions_stay_as_they_are(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(6).await;
    let small = profile("small");
    let cut = chat.cut(NONE, summary_to(5, "of all but the last")).await;
    stored(chat.compact_as(&small, NONE, summary_to(1, "of the first")).await.ok());
    chat.prune(PruneTo::LastTurns(3)).await;
    let window = chat.now().await;
    assert_eq!((window.compaction.as_ref(), window.exchanges.as_slice()), (Some(&cut), &log[5..]));
    let kept = summary_to(1, "of the first").stored_as(NONE.next());
    assert_eq!(chat.compaction_of(&small).await, Some(kept));
}

/// A window that would start at a removed exchange starts where the log begins, and can be moved forward.
pub async fn a_window_starts_no_earlier_than_the_log(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(6).await;
    let before = chat.cut(NONE, summary_to(2, "of the first two")).await;
    chat.prune(PruneTo::LastTurns(2)).await;
    let window = chat.now().await;
    assert_eq!((window.compaction.as_ref(), window.exchanges.as_slice()), (Some(&before), &log[4..]));
    assert!(!window.truncated, "a truncated window");
    chat.cut(before.version, summary_to(5, "of more")).await;
    assert_eq!(chat.now().await.exchanges, log[5..]);
}

/// A compaction made from the log before the prune is stored, by itself and with an append.
pub async fn a_compaction_in_flight_is_stored(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(5).await;
    let old = chat.revision().await;
    chat.prune(PruneTo::LastTurns(1)).await;
    let by_itself = chat.cut(NONE, summary_to(1, "of the first")).await;
    let compact = compact(by_itself.version, summary_to(2, "of the first two"));
    let append = Append::new(Expect::Exactly(old), turn_of("in flight")).compact(compact);
    let exchange = Arc::clone(&append.exchange);
    let appended = chat.submit(append).await.unwrap();
    assert_eq!(appended.compaction, Some(CompactOutcome::Stored(by_itself.version.next())));
    log.push(Recorded::new(appended.seq, exchange));
    assert_eq!(chat.now().await.exchanges, log[4..]);
}

/// If derived data is erased, every profile's compaction loses its derived text. It keeps its state, and its window is
/// the remaining log.
pub async fn derived_data_is_erased_if_asked(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(6).await;
    let small = profile("small");
    let first = chat.cut(NONE, summary_to(5, "describes removed exchanges")).await;
    let second = summary_to(1, "this as well").stored_as(NONE.next());
    stored(chat.compact_as(&small, NONE, summary_to(1, "this as well")).await.ok());
    let old = chat.revision().await;
    let pruned = chat.forget(PruneTo::LastTurns(3)).await;
    let begins = pruned.revision.first();
    assert_eq!((pruned.removed, begins), (3, Seq::new(3)));
    assert_ne!(pruned.revision.incarnation(), old.incarnation());
    for chat in [&chat, &chat.reopened(fixture).await] {
        let window = chat.now().await;
        assert_eq!(window.revision, pruned.revision);
        assert_eq!(window.compaction, Some(first.without_derived(begins)));
        assert_eq!(window.exchanges, log[3..]);
        assert_eq!(chat.compaction_of(&small).await, Some(second.without_derived(begins)));
        assert_eq!(chat.log().await, log[3..]);
    }
    // The log continues, and can be summarized again.
    assert_eq!(chat.add(turn_of("next")).await.seq, Seq::new(6));
    chat.cut(first.version.next(), summary_to(4, "of what is there")).await;
}

/// A compaction without derived text describes nothing, so it stays, under another version.
pub async fn a_compaction_without_summary_stays(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(6).await;
    let before = chat.cut(NONE, window_from(5)).await;
    let pruned = chat.forget(PruneTo::LastTurns(3)).await;
    let window = chat.now().await;
    let after = before.without_derived(pruned.revision.first());
    assert_eq!(after.window_start, Seq::new(5));
    assert_eq!((window.compaction, window.exchanges.as_slice()), (Some(after), &log[5..]));
}

/// Derived data of an earlier prune can be erased later, even though there is nothing more to remove.
pub async fn derived_data_of_an_earlier_prune_is_erased(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(4).await;
    let stored = chat.cut(NONE, summary_to(2, "describes removed exchanges")).await;
    let before = chat.prune(PruneTo::LastTurns(2)).await.revision;
    let pruned = chat.forget(PruneTo::LastTurns(2)).await;
    assert_eq!((pruned.removed, pruned.revision.first()), (0, Seq::new(2)));
    assert_ne!(pruned.revision.incarnation(), before.incarnation());
    let window = chat.now().await;
    let after = stored.without_derived(Seq::new(2));
    assert_eq!((window.compaction, window.exchanges.as_slice()), (Some(after), &log[2..]));
}

/// Replies and summaries made from removed exchanges are refused, as after a deletion. So is a repeat of the prune.
pub async fn calls_in_flight_restore_nothing(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(4).await;
    let old = chat.revision().await;
    chat.forget(PruneTo::LastTurns(2)).await;
    let in_flight = compact(NONE, summary_to(3, "tells of it"));
    assert_gone(chat.compact_in(old.incarnation(), in_flight).await);
    for expect in [Expect::Exactly(old), Expect::AnyIn(old.incarnation())] {
        assert_gone(chat.append(expect, turn_of("tells of it")).await);
    }
    assert_gone(chat.prune_in(old.incarnation(), PruneTo::LastTurns(1)).await);
    assert_eq!(chat.log().await.len(), 2);
}

/// If nothing was ever removed, there is no derived data to erase: the log and its compactions stay as they are.
pub async fn a_whole_log_has_no_derived_data_to_erase(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(3).await;
    chat.cut(NONE, summary_to(2, "of what is there")).await;
    let before = chat.now().await;
    let pruned = chat.forget(PruneTo::LastTurns(3)).await;
    assert_eq!((pruned.removed, pruned.revision), (0, before.revision));
    assert_eq!(chat.now().await, before);
}
