//! The effect of a prune on compactions.

use std::sync::Arc;

use super::support::*;

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
