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

// Profiles: separate compactions of one log.

/// Each profile has its own compaction and window over the same log.
pub async fn profiles_have_their_own_windows(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(5).await;
    let small = profile("small");
    let large = profile("large");
    chat.compact_as(&small, NONE, summary_to(4, "for the small one")).await.unwrap();
    chat.compact_as(&large, NONE, summary_to(1, "for the large one")).await.unwrap();
    for (profile, start) in [(small, 4), (large, 1), (Profile::default(), 0)] {
        let window = chat.window(Load::new().profile(profile)).await;
        assert_eq!(window.compaction.is_some(), start > 0);
        assert_eq!(window.exchanges, log[start..]);
    }
}

/// A version of one profile does not match another one's: a compaction that would replace it is skipped.
pub async fn versions_belong_to_their_profile(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(4).await;
    let default = chat.cut(NONE, summary_to(1, "first")).await;
    let small = profile("small");
    let outcome = chat.compact_as(&small, default.version, summary_to(2, "x")).await.unwrap();
    assert_eq!(outcome, CompactOutcome::Kept(None));
    assert_eq!(chat.compaction_of(&small).await, None);
    let outcome = chat.compact_as(&small, NONE, summary_to(2, "x")).await.unwrap();
    stored(Some(outcome));
    assert_eq!(chat.compaction().await, Some(default));
}

/// An append stores a compaction only for the profile that it names.
pub async fn an_append_compacts_for_one_profile(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(2).await;
    let small = profile("small");
    let compact = with!(window_from(1), profile: small.clone());
    let append = Append::new(Expect::AnyOrCreate, turn_of("x")).compact(compact);
    let appended = chat.submit(append).await.unwrap();
    stored(appended.compaction);
    assert_eq!(chat.now().await.exchanges[..2], log);
    assert_eq!(chat.window(Load::new().profile(small)).await.exchanges[..1], log[1..]);
}

/// Names are compared byte by byte: case, prefixes, delimiters and wildcards make different profiles.
pub async fn similar_names_are_different_profiles(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(2).await;
    let long = "p".repeat(Profile::MAX_LEN - 1);
    let longest = "p".repeat(Profile::MAX_LEN);
    let names =
        ["default", "Default", "defaul", "default:", "d%", "d_", "d*", "a'b", "a\"b", "a\\b", "a/b", "../a", "{}"];
    let profiles: Vec<Profile> = names.into_iter().chain([long.as_str(), &longest]).map(profile).collect();
    for profile in &profiles {
        assert_eq!(chat.compaction_of(profile).await, None, "{profile} has the compaction of a similar name");
        chat.compact_as(profile, NONE, summary_to(1, profile.as_str())).await.unwrap();
    }
    for profile in &profiles {
        let summary = chat.compaction_of(profile).await.and_then(|compaction| compaction.derived);
        assert_eq!(summary.as_deref(), Some(profile.as_str().as_bytes()));
    }
}

/// A profile's compactions belong to their conversation.
pub async fn compactions_belong_to_their_conversation(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let other = chat.other();
    chat.add_turns(2).await;
    let log = other.add_turns(2).await;
    chat.cut(NONE, summary_to(1, "of one")).await;
    let window = other.window(Load::new()).await;
    assert_eq!((window.compaction, window.exchanges), (None, log));
}

// Compactions with U+0000 in their texts, which some databases cannot store or cannot parse in JSON.

/// Returns a compaction with U+0000 in its state and in its derived text.
fn cut_with_nul(seq: u64) -> Compact {
    with!(summary_to(seq, "\0They sent \0 to each other.\0"), state: b"mo\0del"[..].into())
}

/// A summary with U+0000 is returned unchanged, and can be replaced.
pub async fn a_summary_with_nul_is_stored_and_replaced(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(4).await;
    let first = chat.cut(NONE, cut_with_nul(1)).await;
    assert_eq!(chat.compaction().await, Some(first.clone()));
    let second = chat.cut(first.version, cut_with_nul(2)).await;
    let third = chat.cut(second.version, summary_to(3, "plain")).await;
    assert_eq!(chat.compaction().await, Some(third));
    assert_eq!(chat.log().await, log);
}

/// An append replaces a compaction whose summary has U+0000.
pub async fn an_append_replaces_a_summary_with_nul(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(3).await;
    let first = chat.cut(NONE, cut_with_nul(1)).await;
    let with_nul = chat.append_with(turn_of("with NUL"), first.version, cut_with_nul(2)).await;
    let second = stored(with_nul.unwrap().compaction);
    let plain = chat.append_with(turn_of("plain"), second, summary_to(3, "plain")).await;
    let third = stored(plain.unwrap().compaction);
    let compaction = chat.compaction().await.unwrap();
    assert_eq!(compaction, summary_to(3, "plain").stored_as(third));
    assert_eq!(chat.log().await.len(), 5);
}

/// An append with a stale compaction is stored, and the remaining summary with U+0000 is returned.
pub async fn a_stale_compaction_is_left_out_for_a_summary_with_nul(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(3).await;
    let stays = chat.cut(NONE, cut_with_nul(2)).await;
    for replaces in [NONE, CompactionVersion::new(77)] {
        let exchange = turn_of("stale");
        let compact = compact(replaces, cut_with_nul(1));
        let append = Append::new(Expect::AnyOrCreate, exchange.clone()).compact(compact);
        let appended = chat.submit(append).await.unwrap();
        assert_eq!(appended.compaction, Some(CompactOutcome::Kept(Some(stays.clone()))), "replaces {replaces:?}");
        log.push(Recorded::new(appended.seq, exchange));
        let outcome = chat.compact(replaces, cut_with_nul(3)).await.unwrap();
        assert_eq!(outcome, CompactOutcome::Kept(Some(stays.clone())), "replaces {replaces:?}");
    }
    log.push(chat.add(turn_of("without a compaction")).await);
    assert_eq!(chat.log().await, log);
}

/// A truncation carries a summary with U+0000 over like any other.
pub async fn a_truncation_spares_a_summary_with_nul(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(4).await;
    let first = chat.cut(NONE, cut_with_nul(1)).await;
    chat.shorten_with(3, compact(first.version, cut_with_nul(1))).await;
    let stays = chat.compaction().await.unwrap();
    assert_eq!(stays, cut_with_nul(1).stored_as(first.version.next()));
    chat.cut(stays.version, cut_with_nul(2)).await;
}

/// A prune that erases derived data removes a summary with U+0000 like any other.
pub async fn a_prune_removes_a_summary_with_nul(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(4).await;
    let before = chat.cut(NONE, cut_with_nul(1)).await;
    let pruned = chat.forget(PruneTo::LastTurns(2)).await;
    assert_eq!(chat.compaction().await, Some(before.without_derived(pruned.revision.first())));
}
