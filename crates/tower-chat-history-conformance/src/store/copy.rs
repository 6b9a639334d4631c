//! Copies of logs after their fork: they behave like every other conversation.

use std::sync::Arc;

use super::{fork::add_every_kind, support::*};

/// Appends this log to another conversation. A copy of the log must behave as this one does.
async fn appended(chat: &Chat, log: &[Recorded]) -> Chat {
    let twin = chat.other();
    let mut expect = Expect::Absent;
    for recorded in log {
        let append = Append::new(expect, Arc::clone(&recorded.exchange)).beginning_at(log[0].seq);
        expect = Expect::Exactly(twin.submit(append).await.unwrap().revision);
    }
    twin
}

/// Asserts that all loads of both conversations return the same.
async fn assert_same(copy: &Chat, twin: &Chat) {
    let log = copy.log().await;
    assert_eq!(log, twin.log().await);
    let bytes = bytes_of(&log[log.len() / 2..]) as usize;
    let mut limits = vec![limit(MANY, bytes), limit(MANY, bytes - 1), limit(MANY, MANY)];
    limits.extend((1..12).map(|messages| limit(messages, MANY)));
    for load in limits {
        let one = copy.window(load.clone()).await;
        let other = twin.window(load).await;
        assert_eq!((one.exchanges, one.truncated), (other.exchanges, other.truncated));
        assert_eq!((one.log_bytes, one.compaction), (other.log_bytes, other.compaction));
        assert_eq!(one.revision.first(), other.revision.first());
    }
}

/// Both conversations can be continued, and neither sees what is added to the other one.
pub async fn both_continue_independently(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(3).await;
    let copy = chat.fork(2).await;
    let mut copied = log[..2].to_vec();
    // An exchange that was not copied can be appended to the copy. The copied ones are recognized.
    copied.push(copy.add((*log[2].exchange).clone()).await);
    log.push(chat.add(turn_of("one way")).await);
    copied.push(copy.add(turn_of("another way")).await);
    for (chat, log) in [(&chat, &log), (&copy, &copied)] {
        chat.assert_log_everywhere(fixture, log).await;
        chat.assert_repeat(Expect::Absent, &log[1]).await;
        chat.assert_repeat(Expect::Absent, &log[3]).await;
    }

    copy.cut(NONE, window_from(1)).await;
    assert_eq!(chat.compaction().await, None);
    let now = copy.now().await;
    chat.assert_log(&log).await;
    copy.assert_unchanged(&now).await;
}

/// A deletion of one of the two does not change the other.
pub async fn one_outlives_the_other(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = add_every_kind(&chat).await;
    let one = chat.fork(5).await;
    let other = chat.fork(8).await;
    one.delete().await;
    one.assert_absent().await;
    chat.assert_log_everywhere(fixture, &log).await;
    chat.delete().await;
    chat.assert_absent().await;
    other.assert_log_everywhere(fixture, &log).await;
    other.add(turn_of("next")).await;
}

/// A copy can be copied.
pub async fn a_copy_is_forked(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(4).await;
    let copy = chat.fork(3).await;
    let mut expected = log[..3].to_vec();
    expected.push(copy.add(turn_of("another way")).await);
    let further = copy.fork(9).await;
    copy.delete().await;
    further.assert_log_everywhere(fixture, &expected).await;
    chat.assert_log(&log).await;
}

/// An id that was used before can be that of a copy.
pub async fn a_deleted_conversation_can_return_as_a_copy(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(2).await;
    let copy = chat.other();
    copy.add_turns(5).await;
    copy.cut(NONE, summary_to(3, "of the deleted one")).await;
    let ended = copy.incarnation().await;
    copy.delete().await;
    chat.fork_to(ForkTo::new(copy.id.clone(), Seq::new(2))).await.unwrap();
    copy.assert_log_everywhere(fixture, &log).await;
    assert_eq!(copy.compaction().await, None);
    assert_gone(copy.append(Expect::AnyIn(ended), turn_of("late")).await);
}

/// A load limit counts in the copy as in a log to which the same exchanges were appended, also after more of them, and
/// with a compaction.
pub async fn loads_of_the_copy_are_limited(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = add_every_kind(&chat).await;
    for at in 1..=log.len() {
        let copy = chat.fork(at as u64).await;
        let twin = appended(&chat, &log[..at]).await;
        assert_same(&copy, &twin).await;
        let next = call_of("next");
        for chat in [&copy, &twin] {
            chat.add(next.clone()).await;
        }
        assert_same(&copy, &twin).await;
    }

    let copy = chat.other();
    let cut = summary_to(3, "before");
    chat.fork_to(ForkTo::new(copy.id.clone(), Seq::new(8)).compact(Some(cut.clone()))).await.unwrap();
    let twin = appended(&chat, &log).await;
    twin.cut(NONE, cut).await;
    assert_same(&copy, &twin).await;
}

/// A copy is truncated as every log is.
pub async fn the_copy_is_truncated(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = add_every_kind(&chat).await;
    for len in 1..7 {
        let copy = chat.fork(7).await;
        let twin = appended(&chat, &log[..7]).await;
        for chat in [&copy, &twin] {
            let truncated = chat.truncate(chat.revision().await, len).await.unwrap();
            assert_eq!(truncated.removed, 7 - len);
        }
        assert_same(&copy, &twin).await;
    }
    let copy = chat.fork(3).await;
    copy.shorten_to(0).await;
    copy.assert_absent().await;
    chat.assert_log(&log).await;
}

/// A copy is pruned as every log is, also with its derived data.
pub async fn the_copy_is_pruned(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = add_every_kind(&chat).await;
    for keep in [PruneTo::From(Seq::new(3)), PruneTo::LastTurns(3), PruneTo::LastMessages(5), PruneTo::LastTurns(1)] {
        let copy = chat.fork(8).await;
        let twin = appended(&chat, &log).await;
        assert_eq!(copy.prune(keep).await.removed, twin.prune(keep).await.removed, "{keep:?}");
        assert_same(&copy, &twin).await;
        for chat in [&copy, &twin] {
            chat.forget(keep).await;
        }
        assert_same(&copy, &twin).await;
    }
    chat.assert_log(&log).await;
}

/// An entry of a copy has its revision and its size, and the labels that it was given, which are replaced as usual.
pub async fn the_copy_is_listed(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme", "a"]);
    let log = add_every_kind(&chat).await;
    let of_log = labels([("title", "of the log"), ("pinned", "")]);
    owned.label(&chat, LabelsVersion::NONE, &of_log).await;
    let given = labels([("title", "ä \u{0} \"\\"), (Labels::FORKED_FROM, "a%2Fb/c@7")]);
    let mut version = LabelsVersion::NONE;
    for (end, labels) in [("b", Labels::default()), ("c", given.clone())] {
        if !labels.is_empty() {
            version = version.next();
        }
        let copy = owned.chat(&["acme", end]);
        chat.fork_to(ForkTo::new(copy.id.clone(), Seq::new(5)).labels(labels.clone())).await.unwrap();
        let entry = owned.entry(&copy).await;
        assert_eq!((entry.revision, entry.bytes), (copy.revision().await, bytes_of(&log[..5])));
        assert_eq!((&entry.labels, entry.labels_version), (&labels, version));
        assert_eq!(owned.label(&copy, version, &titled("another")).await, version.next());
    }
    let entry = owned.entry(&chat).await;
    assert_eq!((entry.labels, entry.bytes), (of_log, bytes_of(&log)));
    let ids = ["a", "b", "c"].map(|end| owned.chat(&["acme", end]).id);
    assert_eq!(owned.ids().await, ids);
}

/// A copy is created and updated at the time of the fork, whatever the times of its exchanges are. Later exchanges
/// update it.
pub async fn the_time_is_that_of_the_fork(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme", "a"]);
    chat.add_all([9_000, 1_000].map(turn_at)).await;
    for forked in [5_000, 0, 1_700_000_000_999] {
        let copy = chat.other();
        let at = Timestamp::from_unix_millis(forked);
        chat.fork_to(with!(ForkTo::new(copy.id.clone(), Seq::new(2)), at: at)).await.unwrap();
        for (added, updated) in [(None, forked), (Some(forked + 7), forked + 7), (Some(1), forked + 7)] {
            if let Some(added) = added {
                copy.add(turn_at(added)).await;
            }
            let entry = owned.describe(&copy).await.unwrap();
            assert_eq!((entry.created_at, entry.updated_at.as_unix_millis()), (at, updated));
        }
    }
}

/// Everything of a copy is counted and erased, and nothing of the log.
pub async fn the_copy_is_erased(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["other"]);
    let log = add_every_kind(&chat).await;
    let under = owned.under(&["acme"]);
    let copies = [owned.chat(&["acme", "a"]), owned.chat(&["acme", "b"]), owned.chat(&["acme", "c"])];
    for copy in &copies {
        let to = ForkTo::new(copy.id.clone(), Seq::new(7));
        chat.fork_to(to.labels(titled("x")).compact(Some(summary_to(1, "secret")))).await.unwrap();
    }
    let each = with!(numbers_of(&[&log[..7]]), compactions: 1, summaries: 1, labels: 1);
    assert_eq!(owned.erase_if(&copies[0], chat.revision().await).await, None);
    assert_eq!(owned.erase_if(&copies[0], copies[0].revision().await).await, Some(each));
    let mut both = each;
    both += each;
    assert_eq!(owned.count(&under).await, both);
    assert_eq!(owned.erase(&under, 1).await, both);
    owned.assert_nothing(&under).await;
    for copy in &copies {
        copy.assert_absent().await;
    }
    chat.assert_log_everywhere(fixture, &log).await;

    // An erasure of the log leaves the copies.
    let copy = owned.chat(&["acme", "d"]);
    chat.fork_to(ForkTo::new(copy.id.clone(), Seq::new(7))).await.unwrap();
    owned.erase(&owned.under(&["other"]), 10).await;
    copy.assert_log_everywhere(fixture, &log[..7]).await;
}
