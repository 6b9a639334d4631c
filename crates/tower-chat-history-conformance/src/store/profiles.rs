//! Profiles: separate compactions of one log.

use tower_chat_history_core::{Append, Compact, CompactOutcome, CompactionVersion, Cut, Expect, Load, Profile, Seq};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::PROFILES;

const NONE: CompactionVersion = CompactionVersion::NONE;

/// Each profile has its own compaction and window over the same log.
pub async fn profiles_have_their_own_windows(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(5).await;
    let (small, large) = (profile("small"), profile("large"));
    chat.compact_as(&small, NONE, summary_to(4, "for the small one")).await.must("the cut is legal", &CLAUSE);
    chat.compact_as(&large, NONE, summary_to(1, "for the large one"))
        .await
        .must("it goes back in another profile", &CLAUSE);
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
    let outcome =
        chat.compact_as(&small, default.version, summary_to(2, "x")).await.must("stale is not illegal", &CLAUSE);
    assert_eq!(outcome, CompactOutcome::Kept(None));
    assert_eq!(chat.compaction(&small).await, None);
    let outcome = chat.compact_as(&small, NONE, summary_to(2, "x")).await.must("the cut is legal", &CLAUSE);
    stored(Some(outcome));
    assert_eq!(chat.compaction(&Profile::default()).await, Some(default));
}

/// An append stores a compaction only for the profile that it names.
pub async fn an_append_compacts_for_one_profile(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(2).await;
    let small = profile("small");
    let compact = Compact::new(small.clone(), NONE, Cut::window_from(Seq::new(1)));
    let append = Append::new(Expect::AnyOrCreate, turn_of("x")).compact(compact);
    let appended = chat.store.append(&chat.id, append).await.must("the cut is legal", &CLAUSE);
    stored(appended.compaction);
    assert_eq!(chat.window(Load::new()).await.exchanges[..2], log);
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
        assert_eq!(chat.compaction(profile).await, None, "{profile} has the compaction of a similar name");
        chat.compact_as(profile, NONE, summary_to(1, profile.as_str())).await.must("the cut is legal", &CLAUSE);
    }
    for profile in &profiles {
        let summary = chat.compaction(profile).await.and_then(|compaction| compaction.cut.summary);
        assert_eq!(summary.must("it was stored", &CLAUSE).text, profile.as_str());
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
