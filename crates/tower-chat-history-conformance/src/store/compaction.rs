//! Compactions stored by themselves. A store keeps their bytes, and looks at nothing but their version.

use super::support::*;

/// A compaction is returned with the version it was stored under, and each stored one has another version.
pub async fn a_compaction_is_stored_and_replaced(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(4).await;
    let mut versions = vec![NONE];
    for start in 1..4 {
        let replaces = versions[versions.len() - 1];
        let compaction = chat.cut(replaces, summary_to(start, &format!("until {start}"))).await;
        assert!(!versions.contains(&compaction.version), "the version {:?} a second time", compaction.version);
        versions.push(compaction.version);
        let window = chat.now().await;
        assert_eq!(window.compaction, Some(compaction));
        assert_eq!(window.exchanges, log[start as usize..]);
    }
}

/// The bytes of a compaction are returned unchanged, whatever they are. Empty derived text is not the same as none.
pub async fn a_compaction_comes_back_whole(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(6).await;
    let every: Vec<u8> = (0..=u8::MAX).collect();
    let mut replaces = NONE;
    for (state, derived) in [
        (every.clone(), Some(every)),
        (Vec::new(), None),
        (b"{}".to_vec(), Some(Vec::new())),
        (b"\0".to_vec(), Some("Gr\u{fc}\u{df}e \"quoted\" \\ \u{1f469}\r\n'; --".into())),
        (Vec::new(), None),
    ] {
        let contents = with!(window_from(3), state: state.into(), derived: derived.map(Into::into));
        let stored = chat.cut(replaces, contents).await;
        replaces = stored.version;
        for chat in [&chat, &chat.reopened(fixture).await] {
            assert_eq!(chat.compaction().await, Some(stored.clone()));
        }
    }
}

/// Large derived text is returned unchanged.
pub async fn a_large_summary_comes_back(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(2).await;
    let stored = chat.cut(NONE, summary_to(1, &"long ".repeat(200_000))).await;
    assert_eq!(chat.compaction().await, Some(stored));
}

/// A compaction changes neither the log nor its revision.
pub async fn a_compaction_does_not_change_the_log(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(4).await;
    let revision = chat.revision().await;
    let first = chat.cut(NONE, window_from(2)).await;
    chat.cut(first.version, summary_to(3, "before")).await;
    assert_eq!(chat.revision().await, revision);
    assert_eq!(chat.log().await, log);
    let next = chat.append(Expect::Exactly(revision), turn_of("next")).await;
    next.unwrap();
}

/// A compaction made from a version other than the stored one is skipped, and the stored one is returned.
pub async fn a_stale_compaction_is_left_out(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(5).await;
    let some = CompactionVersion::new(7);
    assert_eq!(chat.compact(some, summary_to(1, "x")).await.unwrap(), CompactOutcome::Kept(None));
    let first = chat.cut(NONE, summary_to(1, "first")).await;
    let second = chat.cut(first.version, summary_to(3, "second")).await;
    // All are skipped, wherever their windows would start: the caller could not know the stored compaction.
    for (replaces, start) in [(NONE, 4), (first.version, 4), (first.version, 2), (NONE, 1)] {
        let outcome = chat.compact(replaces, summary_to(start, "stale")).await.unwrap();
        assert_eq!(outcome, CompactOutcome::Kept(Some(second.clone())), "replaces {replaces:?}, window from {start}");
    }
    assert_eq!(chat.compaction().await, Some(second));
}

/// The store checks no rule of the writer: a window may start earlier than the one before it.
pub async fn a_window_may_go_back(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(4).await;
    let mut replaces = NONE;
    for start in [3, 1, 2, 0] {
        replaces = chat.cut(replaces, window_from(start)).await.version;
        assert_eq!(chat.now().await.exchanges, log[start as usize..]);
    }
}

/// Of several concurrent compactions that replace the same version, exactly one is stored. The other calls return the
/// stored compaction.
pub async fn one_compaction_wins_a_version(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let handles = chat.handles(fixture, 3).await;
    chat.add_turns(9).await;
    let mut replaces = NONE;
    for round in 0..3 {
        let contents = (0..6).map(|n| summary_to(2 * round + n % 2 + 1, &format!("{round}, {n}")));
        let racing = handles
            .iter()
            .cycle()
            .zip(contents)
            .map(|(chat, sent)| async move { (sent.clone(), chat.compact(replaces, sent).await.unwrap()) });
        let outcomes = join_all(racing).await;
        let stored = chat.compaction().await.unwrap();
        let winners = outcomes.iter().filter(|(_, outcome)| matches!(outcome, CompactOutcome::Stored(_)));
        let winners: Vec<Compaction> = winners.map(|(sent, _)| sent.stored_as(stored.version)).collect();
        assert_eq!(winners, std::slice::from_ref(&stored));
        for (sent, outcome) in &outcomes {
            let expected = if sent.stored_as(stored.version) == stored {
                CompactOutcome::Stored(stored.version)
            } else {
                CompactOutcome::Kept(Some(stored.clone()))
            };
            assert_eq!(*outcome, expected);
        }
        replaces = stored.version;
    }
}

/// A compaction for an ended incarnation, or for an absent conversation, stores nothing.
pub async fn a_compaction_needs_its_incarnation(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let dead = Incarnation::random();
    assert_gone(chat.compact_in(dead, window_from(0)).await);
    chat.assert_absent().await;
    chat.add_turns(2).await;
    assert_gone(chat.compact_in(dead, window_from(1)).await);
    assert_eq!(chat.compaction().await, None);
}
