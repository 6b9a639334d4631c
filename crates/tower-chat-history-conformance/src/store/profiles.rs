//! Profiles: separate compactions of one log.

use super::support::*;

/// Each profile has its own compaction and window over the same log.
pub async fn profiles_have_their_own_windows(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(5).await;
    let (small, large) = (profile("small"), profile("large"));
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
    let (long, longest) = ("p".repeat(Profile::MAX_LEN - 1), "p".repeat(Profile::MAX_LEN));
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
