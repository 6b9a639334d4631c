//! Erasure of all conversations under a prefix, and of one at an exact revision.

use super::{deletion::assert_later, support::*};

/// Asserts that the conversations under the prefix are absent, and that the others have these logs.
async fn assert_erased(chats: &[Chat], logs: &[Vec<Recorded>], under: &Prefix) {
    for (chat, log) in chats.iter().zip(logs) {
        if under.contains(&chat.id) {
            chat.assert_absent().await;
        } else {
            assert_eq!(chat.log().await, *log, "of {}, after the erasure of {under}", chat.id);
        }
    }
}

async fn logs(chats: &[Chat]) -> Vec<Vec<Recorded>> {
    join_all(chats.iter().map(Chat::log)).await
}

/// All conversations under the prefix are erased, and no others, whatever the size of the pages. A limit of 0 counts as
/// 1.
pub async fn a_prefix_is_erased_and_nothing_else(fixture: &dyn Fixture) {
    for parts in [&["acme"] as &[&str], &["acme", "a"], &["acme/a"], &["acme-2"], &["acme", "none"]] {
        for limit in [0, 1, 2, 100, MANY] {
            let owned = Owned::new(fixture).await;
            let under = owned.under(parts);
            let chats = owned.colliding().await;
            let logs = logs(&chats).await;
            owned.bar(&under).await;
            owned.erase(&under, limit).await;
            assert_erased(&chats, &logs, &under).await;

            let mut left = ids_in(&owned.under(&[]), &chats);
            left.retain(|id| !under.contains(id));
            for owned in [&owned, &owned.reopened(fixture).await] {
                owned.assert_nothing(&under).await;
                assert_eq!(owned.ids().await, left);
            }
        }
    }
}

/// A page erases the first conversations of a listing, and the next page continues at its cursor. A store that consists
/// of several stores may also have erased some after the cursor.
pub async fn pages_are_erased_in_order(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let under = owned.under(&[]);
    let mut left = ids_in(&under, &owned.colliding().await);
    let mut after = None;
    loop {
        let page = owned.store().erase(&under, after.as_ref(), 4).await.unwrap();
        let erased = page.removed.total().conversations as usize;
        let stores = page.removed.iter().count();
        assert!(erased <= 4.max(stores), "{erased} conversations");
        let listed = owned.ids().await;
        assert_eq!(left.len() - listed.len(), erased, "the number of erased conversations");
        if stores == 1 {
            assert_eq!(listed, left[erased..]);
        }

        left = listed;
        after = further(after.as_ref(), page.next);
        let Some(after) = &after else { break };
        assert!(left.iter().all(|id| id.as_str() > after.last().as_str()), "{left:?} after {after:?}");
    }
    assert_eq!(left, []);
}

/// An erasure from a cursor on spares what is before it.
pub async fn a_cursor_spares_what_is_before_it(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let under = owned.under(&["acme"]);
    let chats = owned.colliding().await;
    let cursor = Cursor::after(owned.chat(&["acme", "a"]).id);
    for _ in 0..chats.len() {
        owned.store().erase(&under, Some(&cursor), 1).await.unwrap();
    }
    let mut left = ids_in(&owned.under(&[]), &chats);
    left.retain(|id| !under.contains(id) || id.as_str() <= cursor.last().as_str());
    assert_eq!(owned.ids().await, left);
}

/// An erasure that stopped after some pages is repeated from the beginning. So is one that found nothing.
pub async fn an_erasure_is_repeated(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let under = owned.under(&["acme"]);
    let chats = owned.colliding().await;
    let logs = logs(&chats).await;
    let mut removed = Removed::default();
    for _ in 0..2 {
        removed += owned.store().erase(&under, None, 1).await.unwrap().removed.total();
    }
    removed += owned.reopened(fixture).await.erase(&under, 2).await;
    let inside = chats.iter().zip(&logs).filter(|(chat, _)| under.contains(&chat.id));
    assert_eq!(removed, numbers_of(&inside.map(|(_, log)| log).collect::<Vec<_>>()));
    assert_eq!(owned.erase(&under, 2).await, Removed::default());
    assert_erased(&chats, &logs, &under).await;
}

/// A conversation is erased whole: its log, compactions, exchange ids and labels.
pub async fn nothing_of_a_conversation_returns(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme", "a"]);
    let old = chat.add_turns(4).await;
    chat.cut(NONE, summary_to(2, "a secret")).await;
    owned.label(&chat, LabelsVersion::NONE, &titled("a secret")).await;
    let ended = chat.incarnation().await;
    owned.erase(&owned.under(&["acme"]), 10).await;
    chat.assert_absent().await;

    let log = [chat.add((*old[0].exchange).clone()).await];
    chat.assert_log(&log).await;
    assert_eq!(chat.compaction().await, None);
    assert_ne!(chat.incarnation().await, ended);
    let entry = owned.entry(&chat).await;
    assert_eq!((entry.labels, entry.labels_version), (Labels::default(), LabelsVersion::NONE));
}

/// Calls that name an incarnation are refused after the erasure.
pub async fn calls_in_flight_are_gone(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme", "a"]);
    chat.add_turns(2).await;
    let ended = chat.revision().await;
    let incarnation = ended.incarnation();
    owned.erase(&owned.under(&["acme"]), 10).await;
    for is_there in [false, true] {
        if is_there {
            chat.add_turns(1).await;
        }
        assert_gone(chat.append(Expect::AnyIn(incarnation), turn_of("late")).await);
        assert_gone(chat.append(Expect::Exactly(ended), turn_of("late")).await);
        assert_gone(chat.compact_in(incarnation, compact(NONE, window_from(1))).await);
        assert_gone(owned.store().set_labels(&chat.id, incarnation, LabelsVersion::NONE, titled("late")).await);
        assert_eq!(chat.log().await.len(), usize::from(is_there));
    }
}

/// A conversation that is created after the erasure is a new one, and a new erasure erases it. First turns that begin
/// later are stored, and so are appends that name no epoch.
pub async fn a_later_conversation_is_legal(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let under = owned.under(&["acme"]);
    let [chat, other, third] = ["a", "b", "c"].map(|end| owned.chat(&["acme", end]));
    chat.add_turns(2).await;
    for _ in 0..2 {
        owned.bar(&under).await;
        owned.erase(&under, 10).await;
        let log = [chat.add(turn_of("anew")).await];
        assert_eq!((log[0].seq, chat.log().await.as_slice()), (Seq::FIRST, log.as_slice()));

        owned.bar(&under).await;
        must_land(async || landed(other.append_since(other.epoch().await, Expect::Absent, turn_of("x")).await)).await;
        third.append(Expect::Absent, turn_of("x")).await.unwrap();
        assert_eq!(owned.ids().await.len(), 3);
    }
    owned.erase(&under, 10).await;
    owned.assert_nothing(&under).await;
}

/// After a scrub, everything that was not erased is still there.
pub async fn a_scrub_leaves_conversations_in_place(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let under = owned.under(&["acme"]);
    let chats = owned.colliding().await;
    let logs = logs(&chats).await;
    owned.erase(&under, 10).await;
    let scrubbed = owned.store().scrub().await.unwrap();
    assert!(scrubbed.done.iter().chain(&scrubbed.left).all(|text| !text.is_empty()), "{scrubbed:?}");
    assert_erased(&chats, &logs, &under).await;
    chats[0].add_turns(1).await;
}

/// Erased conversations are not there after the storage is opened again, and a recorded erasure is remembered.
pub async fn erasures_persist(fixture: &dyn Fixture) {
    Chat::durable(fixture).await;
    let owned = Owned::new(fixture).await;
    let under = owned.under(&["acme"]);
    let all = owned.under(&[]);
    let chat = owned.chat(&["acme", "b"]);
    let epoch = chat.epoch().await;
    drop(owned.colliding().await);
    owned.bar(&under).await;
    owned.erase(&under, 3).await;
    let left = owned.list(&all, 100).await;
    drop(owned);

    let chat = chat.after_restart(fixture).await;
    let owned = Owned::new(fixture).await;
    owned.assert_nothing(&under).await;
    assert_eq!(owned.list(&all, 100).await, left);
    assert_gone(chat.append_since(epoch, Expect::Absent, turn_of("late")).await);
    assert_later(&chat, epoch).await;
}

/// Returns a conversation for each of the colliding ids, none of which exists, and its epoch.
async fn absent(owned: &Owned) -> Vec<(Chat, Epoch)> {
    let chats: Vec<Chat> = COLLIDING.iter().map(|parts| owned.chat(parts)).collect();
    let epochs = join_all(chats.iter().map(Chat::epoch)).await;
    chats.into_iter().zip(epochs).collect()
}

/// First turns under the prefix are refused, through any handle, and others are not.
pub async fn first_turns_under_the_prefix_are_refused(fixture: &dyn Fixture) {
    for parts in [&["acme"] as &[&str], &["acme", "a"], &["acme/a"], &["acm"], &["none"]] {
        must_land(async || {
            let owned = Owned::new(fixture).await;
            let under = owned.under(parts);
            let chats = absent(&owned).await;
            owned.reopened(fixture).await.bar(&under).await;
            for (chat, epoch) in &chats {
                let expect = FIRST_TURN[chat.id.as_str().len() % 2];
                let appended = chat.append_since(*epoch, expect, turn_of("first")).await;
                if under.contains(&chat.id) {
                    assert_gone(appended);
                    chat.assert_absent().await;
                } else {
                    landed(appended)?;
                }
            }
            Some(())
        })
        .await;
    }
}

/// First turns of all conversations are refused if all are erased.
pub async fn all_first_turns_are_refused(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chats = absent(&owned).await;
    owned.bar(&Prefix::all()).await;
    for (chat, epoch) in &chats {
        assert_gone(chat.append_since(*epoch, Expect::AnyOrCreate, turn_of("late")).await);
        chat.assert_absent().await;
    }
    assert_later(&chats[0].0, chats[0].1).await;
}

/// To record an erasure removes nothing, and calls that name an incarnation go on.
pub async fn a_bar_removes_nothing(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let under = owned.under(&["acme"]);
    let chats = owned.colliding().await;
    let before = (owned.list(&owned.under(&[]), 100).await, owned.count(&under).await);
    owned.bar(&under).await;
    assert_eq!((owned.list(&owned.under(&[]), 100).await, owned.count(&under).await), before);
    for chat in &chats {
        chat.append(Expect::Exactly(chat.revision().await), turn_of("next")).await.unwrap();
    }
}

/// The newest erasure counts, whichever prefix it has.
pub async fn each_of_several_bars_counts(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme", "a", "deep"]);
    let prefixes: [&[&str]; 3] = [&["acme", "a"], &["acme", "a", "deep"], &["acme"]];
    let mut epochs = Vec::new();
    for under in prefixes.into_iter().chain(prefixes) {
        epochs.push(chat.epoch().await);
        owned.bar(&owned.under(under)).await;
        owned.bar(&owned.under(&["other"])).await;
        for epoch in &epochs {
            assert_gone(chat.append_since(*epoch, Expect::Absent, turn_of("late")).await);
        }
    }
    chat.assert_absent().await;
}

/// Asserts that these are the numbers under `acme`, first as they are stored and then as they are erased.
async fn assert_numbers(owned: &Owned, expected: &Removed) {
    let under = owned.under(&["acme"]);
    for _ in 0..2 {
        assert_eq!(owned.count(&under).await, *expected);
    }
    assert_eq!(owned.erase(&under, 1).await, *expected);
    owned.assert_nothing(&under).await;
}

/// Exchanges and their bytes are counted, and so are compactions of all profiles, summaries and labels. Nothing outside
/// of the prefix is counted.
pub async fn everything_is_counted(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    for outside in [&["acme-2"] as &[&str], &["acm"], &["acme/a"]] {
        let chat = owned.chat(outside);
        chat.add_turns(2).await;
        chat.cut(NONE, summary_to(1, "of another")).await;
        owned.label(&chat, LabelsVersion::NONE, &titled("another")).await;
    }
    assert!(owned.count(&owned.under(&["acme"])).await.is_nothing());
    assert_numbers(&owned, &Removed::default()).await;

    let chats = [owned.chat(&["acme"]), owned.chat(&["acme", "a"]), owned.chat(&["acme", "b"])];
    let logs = [chats[0].add_turns(1).await, chats[1].add_turns(3).await, chats[2].add_turns(120).await];
    let version = chats[1].cut(NONE, summary_to(1, "a summary")).await.version;
    chats[1].cut(version, summary_to(2, "a later summary")).await;
    let small = chats[1].compact_as(&profile("small"), NONE, window_from(1)).await;
    stored(Some(small.unwrap()));
    chats[2].cut(NONE, summary_to(100, "a summary")).await;
    for chat in &chats[1..] {
        owned.label(chat, LabelsVersion::NONE, &labels([("title", "x"), ("pinned", "")])).await;
    }
    // Repeated and refused appends count nothing, and neither does a deleted conversation.
    for expect in FIRST_TURN {
        chats[0].assert_repeat(expect, &logs[0][0]).await;
    }
    assert_conflict(chats[0].append(Expect::Absent, turn_of("x")).await, chats[0].revision().await);
    let deleted = owned.chat(&["acme", "c"]);
    deleted.add_turns(3).await;
    deleted.cut(NONE, summary_to(1, "a summary")).await;
    owned.label(&deleted, LabelsVersion::NONE, &titled("x")).await;
    deleted.delete().await;
    assert_numbers(&owned, &with!(numbers_of(&logs), compactions: 3, summaries: 2, labels: 2)).await;
}

/// Truncated exchanges are not counted, and neither are the compactions that were removed with them.
pub async fn truncated_exchanges_are_not_counted(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme", "a"]);
    let log = chat.add_turns(5).await;
    chat.cut(NONE, summary_to(4, "of what is removed")).await;
    owned.label(&chat, LabelsVersion::NONE, &titled("x")).await;
    chat.reopened(fixture).await.shorten_to(2).await;
    assert_numbers(&owned, &with!(numbers_of(&[&log[..2]]), labels: 1)).await;
}

/// Pruned exchanges are not counted.
pub async fn pruned_exchanges_are_not_counted(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let mut logs = Vec::new();
    for (end, first) in [("a", 2), ("b", 3)] {
        let chat = owned.chat(&["acme", end]);
        let log = chat.add_turns(5).await;
        chat.cut(NONE, summary_to(1, "of what is removed")).await;
        let other = chat.reopened(fixture).await;
        other.prune(PruneTo::From(Seq::new(first))).await;
        if first == 3 {
            other.forget(PruneTo::From(Seq::new(first))).await;
        }
        logs.push(log[first as usize..].to_vec());
    }
    assert_numbers(&owned, &with!(numbers_of(&logs), compactions: 2, summaries: 1)).await;
}

/// A conversation at the revision is erased whole, and no other.
pub async fn the_seen_revision_is_erased(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let others = owned.colliding().await.len() - 1;
    let chat = owned.chat(&["acme"]);
    chat.add_turns(2).await;
    chat.cut(NONE, summary_to(1, "a secret")).await;
    owned.label(&chat, LabelsVersion::NONE, &titled("x")).await;
    let expected = with!(numbers_of(&[chat.log().await]), compactions: 1, summaries: 1, labels: 1);
    let revision = chat.revision().await;
    assert_eq!(owned.reopened(fixture).await.erase_if(&chat, revision).await, Some(expected));

    chat.assert_absent().await;
    assert_eq!(owned.describe(&chat).await, None);
    assert_eq!(owned.ids().await.len(), others);
    assert_eq!(owned.erase_if(&chat, revision).await, None);
}

/// A conversation at another revision stays: it has grown, it is shorter, it begins elsewhere, or it is another
/// incarnation.
pub async fn another_revision_is_not_erased(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme", "a"]);
    let append = Append::new(Expect::Absent, turn_of("x")).beginning_at(Seq::new(5));
    let old = chat.submit(append).await.unwrap().revision;
    assert_eq!(owned.erase_if(&owned.chat(&["acme", "b"]), old).await, None);
    chat.add_turns(1).await;
    let log = chat.log().await;
    let now = chat.revision().await;
    for other in [
        old,
        Revision::new(now.incarnation(), now.version()),
        Revision::new(now.incarnation(), now.version() + 1).beginning_at(Seq::new(5)),
        Revision::new(Incarnation::random(), now.version()).beginning_at(Seq::new(5)),
        now.beginning_at(Seq::new(6)),
    ] {
        assert_eq!(owned.erase_if(&chat, other).await, None);
        assert_eq!(chat.log().await, log);
    }
    assert_eq!(owned.erase_if(&chat, now).await, Some(numbers_of(&[log])));

    chat.add_turns(2).await;
    assert_eq!(owned.erase_if(&chat, now).await, None);
    assert_eq!(chat.log().await.len(), 2);
}

/// A log that was pruned in the meantime is at another revision.
pub async fn a_pruned_revision_is_another_one(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme"]);
    let log = chat.add_turns(3).await;
    let before = chat.revision().await;
    let pruned = chat.reopened(fixture).await.prune(PruneTo::LastTurns(2)).await;
    assert_eq!(owned.erase_if(&chat, before).await, None);
    assert_eq!(chat.log().await, log[1..]);
    assert_eq!(owned.erase_if(&chat, pruned.revision).await, Some(numbers_of(&[&log[1..]])));
    chat.assert_absent().await;
}

/// First turns that began before the erasure of one revision are stored. Calls that name the incarnation are refused.
pub async fn first_turns_are_not_refused(fixture: &dyn Fixture) {
    must_land(async || {
        let owned = Owned::new(fixture).await;
        let chat = owned.chat(&["acme"]);
        let epoch = chat.epoch().await;
        chat.add_turns(1).await;
        let revision = chat.revision().await;
        owned.erase_if(&chat, revision).await.unwrap();
        assert_gone(chat.append(Expect::AnyIn(revision.incarnation()), turn_of("late")).await);
        landed(chat.append_since(epoch, Expect::Absent, turn_of("anew")).await)
    })
    .await;
}
