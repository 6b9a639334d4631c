//! Listings, in stores that list and erase: their entries, their pages, and labels.

use super::support::*;

const UNLABELED: LabelsVersion = LabelsVersion::NONE;

/// Asserts the times of a conversation's entry.
async fn assert_times(owned: &Owned, chat: &Chat, created: u64, updated: u64) {
    let entry = owned.entry(chat).await;
    assert_eq!((entry.created_at.as_unix_millis(), entry.updated_at.as_unix_millis()), (created, updated));
}

/// A conversation is listed and described from its first append on, and not after its deletion.
pub async fn conversations_are_listed(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let other = owned.reopened(fixture).await;
    let chats = [owned.chat(&["acme", "a"]), other.chat(&["acme", "b"])];
    let ids = chats.each_ref().map(|chat| chat.id.clone());
    assert_eq!(owned.ids().await, []);
    for (at, chat) in chats.iter().enumerate() {
        assert_eq!(owned.describe(chat).await, None);
        chat.add_turns(2).await;
        for owned in [&owned, &other] {
            assert_eq!(owned.ids().await, ids[..=at]);
        }
    }
    for absent in [&["acme"] as &[&str], &["acme", "a", "b"], &["acme", "A"], &["acme/a"]] {
        assert_eq!(owned.describe(&owned.chat(absent)).await, None);
    }
    for (at, chat) in chats.iter().enumerate() {
        chat.delete().await;
        assert_eq!(owned.describe(chat).await, None);
        for owned in [&owned, &other] {
            assert_eq!(owned.ids().await, ids[at + 1..]);
        }
    }
}

/// An entry says what the conversation has, and is the same in a listing and alone. Its size counts bytes of message
/// JSON: of recalled messages, none, and of exchanges without messages, none.
pub async fn an_entry_describes_its_conversation(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme"]);
    let mut log = Vec::new();
    for (exchange, at, updated) in [
        (turn_of("x"), 5_000, 5_000),
        (exchange_of([]), 9_000, 9_000),
        (exchange_of([message(r#"{ "role" : "user", "content":"é\u0000 \ud83d\ude00" }"#)]), 7_000, 9_000),
        (turn_of(&"x".repeat(100_000)), 7_000, 9_000),
        (with!(turn_of("y"), model: Some("a-model".into())), 7_000, 9_000),
        (super::content::recalling("z", &[0]), 7_000, 9_000),
    ] {
        log.push(chat.add(with!(exchange, at: Timestamp::from_unix_millis(at))).await);
        let [created, updated] = [5_000, updated].map(Timestamp::from_unix_millis);
        let expected = Listed::new(chat.id.clone(), chat.revision().await, created, updated, bytes_of(&log));
        assert_eq!(owned.entry(&chat).await, expected);
    }
    // A compaction is not in the entry.
    let before = owned.entry(&chat).await;
    assert_eq!(before.labels_version, UNLABELED);
    chat.cut(NONE, summary_to(1, "a summary")).await;
    assert_eq!(owned.entry(&chat).await, before);

    // A log that begins at a position has an entry with its revision.
    chat.delete().await;
    let append = Append::new(Expect::Absent, turn_of("first")).beginning_at(Seq::new(9));
    let appended = chat.submit(append).await.unwrap();
    let entry = owned.entry(&chat).await;
    assert_eq!((entry.revision, entry.revision.len()), (appended.revision, 1));
}

/// The first exchange sets the creation, and the latest time of all exchanges is the update, in any order of times.
pub async fn times_are_those_of_exchanges(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme"]);
    let now = 1_700_000_000_999;
    for (created, then, updated) in [(now, 5, now), (5, now, now), (0, 0, 0), (now, now + 1, now + 1)] {
        chat.add(turn_at(created)).await;
        assert_times(&owned, &chat, created, created).await;
        let second = chat.add(turn_at(then)).await;
        assert_times(&owned, &chat, created, updated).await;

        // Nothing is stored by a repeat, even with another time.
        let later = Timestamp::from_unix_millis(now + 100);
        chat.assert_repeat(Expect::AnyOrCreate, &changed(&second, |exchange| exchange.at = later)).await;
        assert_times(&owned, &chat, created, updated).await;
        chat.delete().await;
    }
}

/// Truncation changes the revision and the size, not the times.
pub async fn an_entry_follows_a_truncation(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme", "a"]);
    let log = chat.add_all([4_000, 5_000, 9_000, 7_000].map(turn_at)).await;
    let other = chat.reopened(fixture).await;
    for len in [3, 2, 1] {
        other.shorten_to(len).await;
        let entry = owned.entry(&chat).await;
        assert_eq!((entry.revision, entry.bytes), (chat.revision().await, bytes_of(&log[..len as usize])));
        assert_times(&owned, &chat, 4_000, 9_000).await;
    }
    for (at, updated) in [(100, 9_000), (9_001, 9_001)] {
        chat.add(turn_at(at)).await;
        assert_times(&owned, &chat, 4_000, updated).await;
    }

    other.shorten_to(0).await;
    assert_eq!(owned.describe(&chat).await, None);
    assert_eq!(owned.ids().await, []);
    chat.add(turn_at(1)).await;
    assert_times(&owned, &chat, 1, 1).await;
}

/// Pruning changes the revision and the size, not the times.
pub async fn an_entry_follows_a_prune(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme", "a"]);
    let mut log = chat.add_all([4_000, 9_000, 5_000, 7_000].map(turn_at)).await;
    let other = chat.reopened(fixture).await;
    for first in 1..4 {
        let keep = PruneTo::From(Seq::new(first));
        let pruned = if first == 2 { other.forget(keep).await } else { other.prune(keep).await };
        let entry = owned.entry(&chat).await;
        assert_eq!((entry.revision, entry.bytes), (pruned.revision, bytes_of(&log[first as usize..])));
        assert_times(&owned, &chat, 4_000, 9_000).await;
    }
    log.push(chat.add(turn_at(9_500)).await);
    assert_times(&owned, &chat, 4_000, 9_500).await;
    assert_eq!(owned.entry(&chat).await.bytes, bytes_of(&log[3..]));
}

/// Entries and their times are still there after the storage is opened again.
pub async fn entries_persist(fixture: &dyn Fixture) {
    Chat::durable(fixture).await;
    let owned = Owned::new(fixture).await;
    let under = owned.under(&["acme"]);
    for end in ["a", "b"] {
        let chat = owned.chat(&["acme", end]);
        chat.add(turn_at(5_000)).await;
        owned.label(&chat, UNLABELED, &titled("kept")).await;
    }
    let before = owned.list(&under, 10).await;
    assert_eq!(before.len(), 2);
    drop(owned);
    assert_eq!(Owned::new(fixture).await.list(&under, 10).await, before);
}

/// Conversations are in the order of the bytes of their ids, whatever the size of the pages. A limit of 0 counts as 1,
/// so that a caller who follows the cursors finds everything.
pub async fn pages_are_in_the_order_of_ids(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let under = owned.under(&[]);
    let expected = ids_in(&under, &owned.colliding().await);
    for limit in (0..=expected.len() + 1).chain([1_000_000, MANY]) {
        assert_eq!(owned.ids_under(&under, limit).await, expected, "{limit} a page");
    }
}

/// A prefix contains whole parts only, and the conversation whose id has exactly its parts.
pub async fn a_prefix_contains_whole_parts(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chats = owned.colliding().await;
    let prefixes: [&[&str]; 7] =
        [&["acme"], &["acme", "a"], &["acme/a"], &["acm"], &["ac"], &["acme0"], &["acme", "a", "x"]];
    for parts in prefixes {
        let under = owned.under(parts);
        for limit in [0, 1, 2, 3, 100] {
            assert_eq!(owned.ids_under(&under, limit).await, ids_in(&under, &chats), "{under}, {limit} a page");
        }
    }
}

/// A listing continues after any cursor, also one that no listing returned. It contains nothing outside of its prefix.
pub async fn a_forged_cursor_leaves_the_prefix_never(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chats = owned.colliding().await;
    let absent: [&[&str]; 4] = [&["acme", "a", "a"], &["acme", "zzz"], &["acme", "%2F"], &["z"]];
    let mut cursors = ids_in(&owned.under(&[]), &chats);
    cursors.extend(absent.map(|parts| owned.chat(parts).id));
    cursors.extend(["!", "~", "conformance"].map(|part| ConversationId::new([part]).unwrap()));
    for parts in [&["acme"] as &[&str], &["acme", "a"], &[]] {
        let under = owned.under(parts);
        for cursor in &cursors {
            let mut expected = ids_in(&under, &chats);
            expected.retain(|id| id.as_str() > cursor.as_str());
            for limit in [1, 4, 100] {
                let listed = owned.list_after(&under, Some(Cursor::after(cursor.clone())), limit).await;
                let ids: Vec<_> = listed.into_iter().map(|entry| entry.id).collect();
                assert_eq!(ids, expected, "under {under} after {cursor}, {limit} a page");
            }
        }
    }
}

/// The prefix of all conversations contains all conversations. Others may use the same storage.
pub async fn all_conversations_are_listed(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let own = owned.under(&[]);
    let expected = ids_in(&own, &owned.colliding().await);
    let end = owned.chat(&["~"]).id;
    for limit in [1, 5] {
        let mut found = Vec::new();
        let mut after = Some(Cursor::after(owned.chat(&["!"]).id));
        while let Some(cursor) = after {
            let page = owned.store().list(&Prefix::all(), Some(&cursor), limit).await.unwrap();
            after = further(Some(&cursor), page.next).filter(|next| next.last().as_str() < end.as_str());
            found.extend(page.conversations.into_iter().map(|entry| entry.id).filter(|id| own.contains(id)));
        }
        assert_eq!(found, expected, "{limit} a page");
    }
    let first = owned.store().list(&Prefix::all(), None, 1).await.unwrap();
    assert!(first.conversations.len() <= 1 && first.next.is_some(), "{first:?}");
}

/// Large listings are complete.
pub async fn hundreds_of_conversations_are_listed(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let mut expected = Vec::new();
    for n in 0..250 {
        let chat = owned.chat(&["acme", &format!("{}", n * 7919 % 250)]);
        chat.append(Expect::Absent, turn_of("x")).await.unwrap();
        expected.push(chat.id);
    }
    expected.sort_by(|one, other| one.as_str().cmp(other.as_str()));
    for limit in [99, 100, 101, 1000] {
        assert_eq!(owned.ids_under(&owned.under(&["acme"]), limit).await, expected, "{limit} a page");
    }
}

fn numbered(owned: &Owned, kind: &str, n: usize) -> Chat {
    owned.chat(&["acme", &format!("{n:02}-{kind}")])
}

/// Changes by others between two pages, before and after the cursor, neither hide nor repeat a
/// conversation.
pub async fn a_listing_stays_right_between_changes(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let under = owned.under(&["acme"]);
    for limit in [1, 2, 3, 7] {
        let stable: Vec<Chat> = (0..12).map(|n| numbered(&owned, "stable", n)).collect();
        for (n, chat) in stable.iter().enumerate() {
            chat.add_turns(1).await;
            numbered(&owned, "deleted", n).add_turns(1).await;
        }
        let mut listed: Vec<ConversationId> = Vec::new();
        let mut after = None;
        for step in 0.. {
            let page = owned.store().list(&under, after.as_ref(), limit).await.unwrap();
            listed.extend(page.conversations.into_iter().map(|entry| entry.id));
            after = further(after.as_ref(), page.next);
            if after.is_none() {
                break;
            }

            // The changes are at the beginning, at the end, and at the cursor itself.
            for n in [step % 12, 11 - step % 12] {
                stable[n].add_turns(1).await;
                numbered(&owned, "created", n).add_turns(1).await;
                numbered(&owned, "deleted", n).delete().await;
            }
            if let Some(last) = listed.last().filter(|last| !last.as_str().contains("stable")) {
                owned.store().delete(last).await.unwrap();
            }
        }
        assert!(listed.is_sorted_by(|one, other| one.as_str() < other.as_str()), "{listed:?}");
        listed.retain(|id| id.as_str().contains("stable"));
        assert_eq!(listed, ids_in(&under, &stable), "{limit} a page");
        owned.erase(&under, 100).await;
    }
}

/// The same holds for changes at the same time as a page. Each entry is a state that the conversation had.
pub async fn a_listing_stays_right_during_changes(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let other = owned.reopened(fixture).await;
    let under = owned.under(&["acme"]);
    let stable: Vec<Chat> = (0..6).map(|n| other.chat(&["acme", &format!("{n}-stable")])).collect();
    for chat in &stable {
        chat.add_turns(1).await;
    }
    let changing = async {
        for n in 0..24 {
            let changed = other.chat(&["acme", &format!("{}-changed", n % 6)]);
            match changed.append(Expect::Absent, turn_of("x")).await {
                Ok(_) => {}
                Err(StoreError::Conflict { .. }) => changed.delete().await,
                Err(error) => panic!("{error:?}"),
            }
            stable[n % 6].add_turns(1).await;
            pause(1).await;
        }
    };
    let listing = async {
        for limit in (1..=4).cycle().take(12) {
            let mut found = 0;
            for entry in owned.list(&under, limit).await {
                let is_stable = entry.id.as_str().ends_with("stable");
                found += usize::from(is_stable);
                let exchange = turn_of(if is_stable { "turn 0" } else { "x" });
                assert_eq!(entry.bytes, entry.revision.len() * exchange.bytes() as u64, "{entry:?}");
            }
            assert_eq!(found, 6, "{limit} a page");
            pause(1).await;
        }
    };
    join(changing, listing).await;
}

/// Asserts the labels of a conversation and their version, through two handles.
async fn assert_labels(fixture: &dyn Fixture, chat: &Chat, owned: &Owned, labels: &Labels, version: LabelsVersion) {
    for owned in [owned, &owned.reopened(fixture).await] {
        let entry = owned.entry(chat).await;
        assert_eq!((&entry.labels, entry.labels_version), (labels, version));
    }
}

/// Labels are listed, and each change replaces all of them. Names and values are returned byte for byte, up to the
/// largest ones.
pub async fn labels_are_stored_and_replaced(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme"]);
    chat.add_turns(1).await;
    let many: Vec<(String, String)> = (0..16).map(|n| (format!("name-{n:02}"), "\u{0}".repeat(57))).collect();
    let all = [
        labels([("title", "Nemo"), ("pinned", "")]),
        titled("Dory"),
        Labels::default(),
        labels([("pinned", "yes")]),
        labels([("pinned", "yes")]),
        labels([("title", "\u{0}"), ("\u{0}", "x\u{0}y"), ("empty", "")]),
        labels([("\"quoted\"", "'it''s' \\\" $1 {} [] , : %s %00"), ("\\u0000", "\\u0000"), (" ", "\n\t\r ")]),
        labels([("é", "e\u{301}"), ("e\u{301}", "é"), ("😀", "\u{10ffff}\u{fffd}\u{200b}")]),
        labels([("Title", "a"), ("title", "b")]),
        titled(&"é".repeat(509)),
        Labels::new(many).unwrap(),
    ];
    let mut version = UNLABELED;
    for labels in all {
        let stored = owned.label(&chat, version, &labels).await;
        assert!(stored > version, "{stored:?} after {version:?}");
        version = stored;
        assert_labels(fixture, &chat, &owned, &labels, version).await;
        chat.add_turns(1).await;
        assert_labels(fixture, &chat, &owned, &labels, version).await;
    }
}

/// Labels that replace another version than the stored one are not stored, and the answer has the stored ones.
pub async fn stale_labels_are_not_stored(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme"]);
    chat.add_turns(1).await;
    let incarnation = chat.incarnation().await;
    let nothing = LabelsOutcome::Kept(Labels::default(), UNLABELED);
    let outcome = owned.set_title(&chat, incarnation, LabelsVersion::new(7), "new").await.unwrap();
    assert_eq!(outcome, nothing);

    let first = owned.label(&chat, UNLABELED, &titled("first")).await;
    let second = owned.label(&chat, first, &titled("second")).await;
    let kept = LabelsOutcome::Kept(titled("second"), second);
    for stale in [UNLABELED, first, second.next()] {
        let outcome = owned.set_title(&chat, incarnation, stale, "new").await.unwrap();
        assert_eq!(outcome, kept, "instead of {stale:?}");
    }
    // Equal labels of another call are no repeat.
    assert_eq!(owned.set_title(&chat, incarnation, first, "second").await.unwrap(), kept);
    assert_labels(fixture, &chat, &owned, &titled("second"), second).await;
}

/// Labels of another incarnation, or of no conversation, are refused. A deletion removes labels: a conversation that is
/// created again has none.
pub async fn labels_need_their_incarnation(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme"]);
    let never = Incarnation::random();
    assert_gone(owned.set_title(&chat, never, UNLABELED, "late").await);
    for title in ["first", "second"] {
        chat.add_turns(1).await;
        assert_labels(fixture, &chat, &owned, &Labels::default(), UNLABELED).await;
        owned.label(&chat, UNLABELED, &titled(title)).await;
        assert_gone(owned.set_title(&chat, never, UNLABELED, "late").await);

        let ended = chat.incarnation().await;
        chat.delete().await;
        assert_eq!(owned.describe(&chat).await, None);
        assert_gone(owned.set_title(&chat, ended, UNLABELED, "late").await);
        chat.assert_absent().await;
        chat.add_turns(1).await;
        assert_gone(owned.set_title(&chat, ended, UNLABELED, "late").await);
        assert_labels(fixture, &chat, &owned, &Labels::default(), UNLABELED).await;
        chat.delete().await;
    }
}

/// Labels belong to one conversation.
pub async fn labels_of_others_are_not_seen(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chats = owned.colliding().await;
    for chat in &chats {
        owned.label(chat, UNLABELED, &titled(chat.id.as_str())).await;
    }
    chats[3].delete().await;
    for entry in owned.list(&owned.under(&[]), 100).await {
        assert_eq!(entry.labels.get("title"), Some(entry.id.as_str()));
    }
}

/// Asserts that labels of before are kept in a new incarnation, and can be replaced there.
async fn assert_kept(fixture: &dyn Fixture, chat: &Chat, owned: &Owned, ended: Incarnation, version: LabelsVersion) {
    assert_labels(fixture, chat, owned, &titled("kept"), version).await;
    assert_gone(owned.store().set_labels(&chat.id, ended, version, Labels::default()).await);
    let next = owned.label(chat, version, &titled("next")).await;
    assert_labels(fixture, chat, owned, &titled("next"), next).await;
}

/// A truncation keeps labels, unless it removes the conversation.
pub async fn a_truncation_keeps_labels(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme"]);
    chat.add_turns(3).await;
    let ended = chat.incarnation().await;
    let version = owned.label(&chat, UNLABELED, &titled("kept")).await;
    let other = chat.reopened(fixture).await;
    other.shorten_to(2).await;
    assert_kept(fixture, &chat, &owned, ended, version).await;

    other.shorten_to(0).await;
    chat.add_turns(1).await;
    assert_labels(fixture, &chat, &owned, &Labels::default(), UNLABELED).await;
}

/// A prune keeps labels, also if it erases derived data.
pub async fn a_prune_keeps_labels(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme"]);
    chat.add_turns(4).await;
    let ended = chat.incarnation().await;
    let version = owned.label(&chat, UNLABELED, &titled("kept")).await;
    let other = chat.reopened(fixture).await;
    other.prune(PruneTo::LastTurns(3)).await;
    assert_labels(fixture, &chat, &owned, &titled("kept"), version).await;
    other.forget(PruneTo::From(Seq::new(2))).await;
    assert_kept(fixture, &chat, &owned, ended, version).await;
}

/// Labels change neither the log nor what a caller knows, nor the times.
pub async fn labels_do_not_change_the_log(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme"]);
    let log = chat.add_turns(2).await;
    let window = chat.now().await;
    let entry = owned.entry(&chat).await;
    let version = owned.label(&chat, UNLABELED, &titled("x")).await;
    chat.assert_unchanged(&window).await;
    assert_eq!((chat.log().await, chat.revision().await), (log, window.revision));
    assert_eq!(owned.entry(&chat).await, entry.labels(titled("x"), version));
}

/// Of several calls that replace the same version, exactly one is stored.
pub async fn one_setter_wins_a_version(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let others = [owned.reopened(fixture).await, owned.reopened(fixture).await, owned.reopened(fixture).await];
    let chat = owned.chat(&["acme"]);
    chat.add_turns(1).await;
    let incarnation = chat.incarnation().await;
    let mut version = UNLABELED;
    for _ in 0..5 {
        let titles: Vec<Labels> = (0..8).map(|n: usize| titled(&n.to_string())).collect();
        let setting = others.iter().cycle().zip(&titles);
        let setting =
            setting.map(|(owned, labels)| owned.store().set_labels(&chat.id, incarnation, version, labels.clone()));
        let mut stored = Vec::new();
        let mut kept = Vec::new();
        for (labels, outcome) in titles.iter().zip(join_all(setting).await) {
            match outcome.unwrap() {
                LabelsOutcome::Stored(version) => stored.push((labels.clone(), version)),
                LabelsOutcome::Kept(labels, version) => kept.push((labels, version)),
            }
        }
        assert_eq!(stored.len(), 1, "{stored:?}");
        assert!(kept.iter().all(|kept| *kept == stored[0]), "{kept:?} instead of {stored:?}");
        version = stored[0].1;
        assert_labels(fixture, &chat, &owned, &stored[0].0, version).await;
    }
}

/// A dropped call was done, or it was not.
pub async fn dropped_labels_are_stored_or_not(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    for polls in [0, 1, 2, 3, 10, 100] {
        let chat = owned.chat(&["acme", &polls.to_string()]);
        chat.add_turns(1).await;
        let incarnation = chat.incarnation().await;
        abandon(owned.set_title(&chat, incarnation, UNLABELED, "dropped"), polls).await;
        // The next call tells which.
        let (title, version) = match owned.set_title(&chat, incarnation, UNLABELED, "next").await.unwrap() {
            LabelsOutcome::Stored(version) => ("next", version),
            LabelsOutcome::Kept(labels, version) => {
                assert_eq!(labels, titled("dropped"));
                ("dropped", version)
            }
        };
        assert_labels(fixture, &chat, &owned, &titled(title), version).await;
    }
}
