//! Copies of logs, in stores that can fork: what is copied, and when a fork is refused.

use super::{
    content::{made_after, recalling, recalling_other},
    load::assert_media_are_counted,
    support::*,
};

/// Appends exchanges of every kind, which are all copied.
pub(super) async fn add_every_kind(chat: &Chat) -> Vec<Recorded> {
    let continuation = with!(
        result_for(Seq::FIRST),
        at: Timestamp::from_unix_millis(1),
        tokens: Some(TokenCounts { counter: "c".into(), counts: vec![1, 2] }),
        model: Some("m".into()),
        finish_reason: Some("stop".into()),
        usage: Some(Usage::new(3, 4)),
        incomplete: true,
        metadata: Some(Metadata::new(r#"{ "a": 1 }"#).unwrap()),
    );
    let exchanges = [
        call_of("what is it?"),
        turn_of("between"),
        continuation,
        made_after("with a provenance"),
        exchange_of([]),
        recalling("cites", &[0, 1]),
        turn_of(&"long ".repeat(1_000)),
        recalling("cites nothing", &[]),
    ];
    chat.add_all(exchanges).await
}

/// The copy has the same exchanges, with all their fields and at their positions, through any handle and by their ids.
/// It is in another incarnation. The log does not change.
pub async fn the_exchanges_before_the_position_are_copied(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = add_every_kind(&chat).await;
    let before = chat.now().await;
    for at in 1..=log.len() {
        let copy = chat.fork(at as u64).await;
        copy.assert_log_everywhere(fixture, &log[..at]).await;
        let revision = copy.revision().await;
        assert_eq!((revision.first(), revision.len()), (Seq::FIRST, at as u64));
        assert_ne!(revision.incarnation(), before.revision.incarnation());
    }
    chat.assert_log_everywhere(fixture, &log).await;
    chat.assert_unchanged(&before).await;
}

/// A position after the end copies the whole log.
pub async fn a_position_beyond_the_end_copies_everything(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(3).await;
    // The same holds for the largest positions, even if a narrower integer would cut them off.
    for at in [3, 4, 1 << 31, 1 << 32, (1 << 32) + 1, u64::MAX] {
        chat.fork(at).await.assert_log(&log).await;
    }
}

/// The media of a copy are counted, and those that follow.
pub async fn media_of_a_copy_are_counted(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_all([2_000, 3_000, 4_000].map(photo_of)).await;
    for before in [2, 3] {
        let copy = chat.fork(before).await;
        log.truncate(before as usize);
        log.push(copy.add(photo_of(5_000)).await);
        assert_media_are_counted(&copy, &log).await;
        log = chat.log().await;
    }
}

/// If there is no exchange before the position, nothing is copied and no conversation is created.
pub async fn a_fork_of_nothing_creates_nothing(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(2).await;
    let copy = chat.other();
    let to = ForkTo::new(copy.id.clone(), Seq::FIRST).labels(titled("nothing")).compact(Some(window_from(0)));
    assert_eq!(chat.fork_to(to).await.unwrap(), Forked::new(None));
    copy.assert_absent().await;
    copy.append(Expect::Absent, turn_of("first")).await.unwrap();
}

/// A position within a turn leaves the copy's turn open. It can be continued, but not at an exchange that was not
/// copied.
pub async fn a_fork_within_a_turn_leaves_it_open(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_call(1).await;
    let copy = chat.fork(1).await;
    let revision = copy.revision().await;
    assert_unknown(copy.append(Expect::Exactly(revision), result_for(Seq::new(1))).await, 1, 1);
    log[1] = copy.add(result_for(Seq::FIRST)).await;
    assert_eq!(log[1].seq, Seq::new(1));
    copy.assert_log(&log).await;
}

/// The copy of a pruned log begins where that log begins. Its exchanges keep their positions, also a late continuation
/// of a pruned call. Nothing is copied if the position is at the beginning or before it.
pub async fn positions_of_a_pruned_log_stay(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_all([call_of("a call that is pruned"), turn_of("x"), call_of("a call")]).await;
    log.extend(chat.add_all([result_for(Seq::new(2)), result_for(Seq::FIRST)]).await);
    chat.prune(PruneTo::From(Seq::new(1))).await;
    for at in [0, 1] {
        let copy = chat.other();
        assert_eq!(chat.fork_to(ForkTo::new(copy.id.clone(), Seq::new(at))).await.unwrap(), Forked::new(None));
        copy.assert_absent().await;
    }
    for at in 2..=5 {
        let copy = chat.fork(at).await;
        let mut log = log[1..at as usize].to_vec();
        copy.assert_log_everywhere(fixture, &log).await;
        let revision = copy.revision().await;
        assert_eq!((revision.first(), revision.next()), (Seq::new(1), Seq::new(at)));

        log.push(copy.add(turn_of("next")).await);
        copy.assert_log(&log).await;
    }
}

/// Recalled messages that cite a pruned exchange or another conversation are not copied. Their exchanges are.
pub async fn recalled_messages_of_others_are_not_copied(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(3).await;
    let recalled = [
        recalling("cites", &[2]),
        recalling("cites a pruned one", &[1, 2]),
        recalling_other("cites another", &[2]),
        recalling("cites nothing", &[]),
    ];
    log.extend(chat.add_all(recalled).await);
    let whole = chat.fork(9).await;
    chat.prune(PruneTo::From(Seq::new(2))).await;
    let pruned = chat.fork(9).await;
    chat.assert_log(&log[2..]).await;

    log[5] = changed(&log[5], |exchange| exchange.recalled = None);
    whole.assert_log_everywhere(fixture, &log).await;
    log[4] = changed(&log[4], |exchange| exchange.recalled = None);
    pruned.assert_log_everywhere(fixture, &log[2..]).await;
}

/// Encrypted content is copied unchanged.
pub async fn encrypted_content_is_copied(fixture: &dyn Fixture) {
    let chat = Chat::sealed(fixture).await;
    let sealed = recalling("encrypted", &[0]).sealed_as("AQID/+=-_. ä \u{0} \"\\".repeat(64)).unwrap();
    let log = chat.add_all([sealed, turn_of("not encrypted")]).await;
    chat.fork(2).await.assert_log_everywhere(fixture, &log).await;
}

/// The given compaction is stored as the first one of its profile. Compactions of the log are not copied.
pub async fn the_compaction_is_the_first_one(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(4).await;
    let small = profile("small");
    let of_log = chat.cut(NONE, summary_to(1, "of the log")).await;
    let copied = with!(summary_to(2, "of the copy \u{0} ä"), profile: small.clone(), replaces: NONE.next().next());
    for compact in [None, Some(copied.clone())] {
        let copy = chat.other();
        let to = ForkTo::new(copy.id.clone(), Seq::new(3)).compact(compact.clone());
        chat.fork_to(to).await.unwrap();
        for copy in [&copy, &copy.reopened(fixture).await] {
            assert_eq!(copy.compaction().await, None);
            assert_eq!(
                copy.compaction_of(&small).await,
                compact.as_ref().map(|compact| compact.stored_as(NONE.next()))
            );
            assert_eq!(copy.log().await, log[..3]);
        }
    }
    assert_eq!((chat.compaction().await, chat.compaction_of(&small).await), (Some(of_log), None));

    // It is replaced as usual.
    let copy = chat.other();
    chat.fork_to(ForkTo::new(copy.id.clone(), Seq::new(3)).compact(Some(copied.clone()))).await.unwrap();
    let kept = copy.compact_as(&small, NONE, window_from(1)).await.unwrap();
    assert_eq!(kept, CompactOutcome::Kept(Some(copied.stored_as(NONE.next()))));
    let next = copy.compact_as(&small, NONE.next(), window_from(1)).await.unwrap();
    assert_eq!(next, CompactOutcome::Stored(NONE.next().next()));
}

/// A copy into an existing conversation is refused, also into the log itself and into an earlier copy, whatever else
/// would refuse it. The existing conversation does not change.
pub async fn existing_conversations_are_not_changed(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let epoch = chat.epoch().await;
    chat.add_turns(3).await;
    let other = chat.other();
    other.add_turns(1).await;
    let earlier = chat.fork(1).await;
    for existing in [&other, &earlier, &chat] {
        let before = existing.now().await;
        for at in [0, 2, 9] {
            for incarnation in [chat.incarnation().await, Incarnation::random()] {
                let to = ForkTo::new(existing.id.clone(), Seq::new(at)).labels(titled("x")).since(Some(epoch));
                assert_conflict(chat.fork_in(incarnation, to).await, before.revision);
            }
        }
        existing.assert_unchanged(&before).await;
        assert_eq!(existing.now().await, before);
    }
}

/// Only the given incarnation is copied: not one that has ended, one that never was, or a conversation that does not
/// exist. No conversation is created.
pub async fn only_its_incarnation_is_forked(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let copy = chat.other();
    assert_gone(chat.fork_in(Incarnation::random(), ForkTo::new(copy.id.clone(), Seq::new(1))).await);
    chat.add_turns(2).await;
    let ended = chat.incarnation().await;
    chat.delete().await;
    assert_gone(chat.fork_in(ended, ForkTo::new(copy.id.clone(), Seq::new(1))).await);

    chat.add_turns(2).await;
    for wrong in [ended, Incarnation::random()] {
        assert_gone(chat.fork_in(wrong, ForkTo::new(copy.id.clone(), Seq::new(1))).await);
        // The incarnation counts, even if there is nothing to copy.
        assert_gone(chat.fork_in(wrong, ForkTo::new(copy.id.clone(), Seq::FIRST)).await);
    }
    copy.assert_absent().await;
}

/// A log that was truncated, or pruned with its derived data, is in another incarnation.
pub async fn a_changed_log_is_gone(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let copy = chat.other();
    chat.add_turns(4).await;
    let mut ended = vec![chat.incarnation().await];
    chat.shorten_to(3).await;
    ended.push(chat.incarnation().await);
    chat.forget(PruneTo::LastTurns(2)).await;
    for incarnation in ended {
        assert_gone(chat.fork_in(incarnation, ForkTo::new(copy.id.clone(), Seq::new(9))).await);
    }
    copy.assert_absent().await;
    assert_eq!(chat.fork(9).await.log().await.len(), 2);
}

/// A copy is refused if it was deleted since the epoch, also if it was never there, or if it is created again. A later
/// epoch allows it.
pub async fn a_copy_that_was_deleted_is_gone(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(2).await;
    let copy = chat.other();
    let epoch = copy.epoch().await;
    for turns in [0, 1] {
        let other = copy.reopened(fixture).await;
        other.add_turns(turns).await;
        other.delete().await;
        assert_gone(chat.fork_to(ForkTo::new(copy.id.clone(), Seq::new(2)).since(Some(epoch))).await);
        copy.assert_absent().await;
    }
    let future = Epoch::new(epoch.get() + 1_000_000_000);
    assert_gone(chat.fork_to(ForkTo::new(copy.id.clone(), Seq::new(2)).since(Some(future))).await);
    copy.assert_absent().await;

    must_land(async || {
        let epoch = copy.epoch().await;
        landed(chat.fork_to(ForkTo::new(copy.id.clone(), Seq::new(2)).since(Some(epoch))).await)
    })
    .await;
    copy.assert_log(&log).await;
}

/// An erasure of a prefix refuses copies under it, also if the log is not under it. Other copies are made.
pub async fn an_erasure_refuses_copies_under_its_prefix(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["other"]);
    chat.add_turns(2).await;
    let under = [owned.chat(&["acme"]), owned.chat(&["acme", "a"])];
    let epoch = under[0].epoch().await;
    owned.bar(&owned.under(&["acme"])).await;
    for copy in &under {
        assert_gone(chat.fork_to(ForkTo::new(copy.id.clone(), Seq::new(1)).since(Some(epoch))).await);
        copy.assert_absent().await;
    }
    must_land(async || {
        let outside = owned.chat(&["acme-2"]);
        let to = ForkTo::new(outside.id.clone(), Seq::new(1)).since(Some(outside.epoch().await));
        landed(chat.fork_to(to).await)
    })
    .await;
}

/// A repeated call with the same incarnation finds the copy that an earlier one has made, whatever happened to both
/// conversations since. A call with another incarnation conflicts.
pub async fn a_repeat_finds_its_copy(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(3).await;
    let incarnation = chat.incarnation().await;
    let copy = chat.other();
    let to = ForkTo::new(copy.id.clone(), Seq::new(2)).compact(Some(window_from(1)));
    let revision = Revision::new(to.incarnation, 2);
    for chat in [&chat, &chat.reopened(fixture).await] {
        assert_eq!(chat.fork_in(incarnation, to.clone()).await.unwrap(), Forked::new(Some(revision)));
        assert_eq!(copy.revision().await, revision);
    }

    let added = copy.add(turn_of("next")).await;
    chat.delete().await;
    let repeated = chat.fork_in(incarnation, to.clone()).await.unwrap();
    assert_eq!(repeated, Forked::new(Some(copy.revision().await)));
    assert_eq!(repeated.copied, 3);
    let another = with!(to, incarnation: Incarnation::random());
    assert_conflict(chat.fork_in(incarnation, another).await, copy.revision().await);
    assert_eq!(copy.log().await, [&log[..2], &[added]].concat());
}

/// Of several forks into one conversation, exactly one succeeds, and the copy is its own.
pub async fn one_of_several_forks_wins(fixture: &dyn Fixture) {
    for _ in 0..5 {
        let chat = Chat::new(fixture).await;
        let log = chat.add_turns(6).await;
        let copy = chat.other();
        let handles = chat.handles(fixture, 3).await;
        let racing = handles
            .iter()
            .cycle()
            .zip(1..6)
            .map(|(chat, before)| chat.fork_to(ForkTo::new(copy.id.clone(), Seq::new(before))));
        let mut won = Vec::new();
        for (before, result) in (1..).zip(join_all(racing).await) {
            match result {
                Ok(forked) => won.push((before, forked)),
                refused => assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}"),
            }
        }
        assert_eq!(won.len(), 1, "{won:?}");
        let (before, forked) = won[0];
        assert_eq!(forked, Forked::new(Some(copy.revision().await)));
        copy.assert_log(&log[..before]).await;
    }
}

/// Of a fork and a first turn of the same conversation, one is stored, and the other one conflicts.
pub async fn a_racing_first_turn_wins_or_conflicts(fixture: &dyn Fixture) {
    for wait in 0..8_usize {
        let chat = Chat::new(fixture).await;
        let log = chat.add_turns(3).await;
        let copy = chat.other();
        let other = copy.reopened(fixture).await;
        let first = turn_of("first");
        let forking = async {
            pause(wait.saturating_sub(4)).await;
            chat.fork_to(ForkTo::new(copy.id.clone(), Seq::new(3))).await
        };
        let appending = async {
            pause(4_usize.saturating_sub(wait)).await;
            other.append(Expect::Absent, first.clone()).await
        };
        match join(forking, appending).await {
            (Ok(forked), refused) => {
                assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}");
                assert_eq!(forked.copied, 3);
                copy.assert_log(&log).await;
            }
            (refused, appended) => {
                assert_conflict(refused, appended.unwrap().revision);
                copy.assert_log(&[Recorded::new(Seq::FIRST, first)]).await;
            }
        }
    }
}

/// Whatever is appended in the meantime: the copy is a beginning of the log, with all that was there before the fork.
pub async fn racing_appends_are_copied_or_not(fixture: &dyn Fixture) {
    for wait in 0..8_usize {
        let chat = Chat::new(fixture).await;
        let other = chat.reopened(fixture).await;
        chat.add_turns(3).await;
        let copy = chat.other();
        let forking = async {
            pause(wait).await;
            chat.fork_to(ForkTo::new(copy.id.clone(), Seq::new(u64::MAX))).await.unwrap()
        };
        let (forked, _) = join(forking, other.add_turns(4)).await;
        assert_eq!(forked, Forked::new(Some(copy.revision().await)));
        let log = chat.log().await;
        let copied = copy.log().await;
        assert!(copied.len() >= 3 && log.starts_with(&copied), "{copied:?}");
        copy.assert_log(&copied).await;
    }
}

/// If the log is deleted in the meantime, there is a whole copy, or the fork is refused and there is none.
pub async fn a_racing_deletion_leaves_all_or_nothing(fixture: &dyn Fixture) {
    for wait in 0..8_usize {
        let chat = Chat::new(fixture).await;
        let other = chat.reopened(fixture).await;
        let log = chat.add_turns(3).await;
        let incarnation = chat.incarnation().await;
        let copy = chat.other();
        let forking = async {
            pause(wait.saturating_sub(4)).await;
            chat.fork_in(incarnation, ForkTo::new(copy.id.clone(), Seq::new(3))).await
        };
        let deleting = async {
            pause(4_usize.saturating_sub(wait)).await;
            other.delete().await;
        };
        match join(forking, deleting).await.0 {
            Ok(_) => copy.assert_log(&log).await,
            refused => {
                assert_gone(refused);
                copy.assert_absent().await;
            }
        }
        chat.assert_absent().await;
    }
}

/// Readers see the whole copy with its compaction, or nothing of it.
pub async fn readers_see_a_whole_copy(fixture: &dyn Fixture) {
    for _ in 0..4 {
        let chat = Chat::new(fixture).await;
        let log = chat.add_turns(8).await;
        let copy = chat.other();
        let other = copy.reopened(fixture).await;
        let forking = async {
            pause(4).await;
            chat.fork_to(ForkTo::new(copy.id.clone(), Seq::new(8)).compact(Some(window_from(0)))).await.unwrap()
        };
        let reading = async {
            for _ in 0..12 {
                if let Loaded::Window(window) = other.load(Load::new()).await {
                    assert_eq!(window.exchanges, log);
                    assert_eq!(window.compaction, Some(window_from(0).stored_as(NONE.next())));
                }
                pause(1).await;
            }
        };
        join(forking, reading).await;
    }
}

/// A fork whose future is dropped is done or not done. A repeat finds the copy, or makes it.
pub async fn a_dropped_fork_is_done_or_not(fixture: &dyn Fixture) {
    for polls in 0..4 {
        let chat = Chat::new(fixture).await;
        let log = chat.add_turns(3).await;
        let copy = chat.other();
        let to = ForkTo::new(copy.id.clone(), Seq::new(2)).compact(Some(window_from(1)));
        abandon(chat.fork_to(to.clone()), polls).await;
        let repeated = chat.fork_to(to.clone()).await.unwrap();
        assert_eq!(repeated, Forked::new(Some(Revision::new(to.incarnation, 2))));
        assert_eq!(copy.log().await, log[..2]);
        assert_eq!(copy.compaction().await, Some(window_from(1).stored_as(NONE.next())));
    }
}

/// A log that is larger than a page of the store is copied as a whole.
pub async fn a_large_log_is_copied(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(300).await;
    log.extend(chat.add_all((0..8).map(large)).await);
    for at in [299, 307, 308] {
        chat.fork(at as u64).await.assert_log(&log[..at]).await;
    }
}

/// In a durable store, a copy survives a reopening: the log, its revision and its compaction are the same.
pub async fn a_copy_persists(fixture: &dyn Fixture) {
    let chat = Chat::durable(fixture).await;
    let log = add_every_kind(&chat).await;
    let copy = chat.other();
    let to = ForkTo::new(copy.id.clone(), Seq::new(7)).compact(Some(summary_to(1, "of the copy")));
    chat.fork_to(to).await.unwrap();
    let before = copy.now().await;
    drop(chat);

    let copy = copy.after_restart(fixture).await;
    copy.assert_unchanged(&before).await;
    assert_eq!(copy.now().await, before);
    assert_eq!(copy.log().await, log[..7]);
    assert_eq!(copy.add(turn_of("next")).await.seq, Seq::new(7));
}
