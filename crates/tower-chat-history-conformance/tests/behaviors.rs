//! The list of the behaviors of the conformance suite. It is not a unit test, because the unit tests would then be
//! compiled with all behaviors.

use std::collections::BTreeSet;

use tower_chat_history_conformance::store::{Behavior, Capability, behaviors};

#[test]
fn names_are_unique() {
    let names: BTreeSet<_> = behaviors().iter().map(Behavior::name).collect();
    assert_eq!(names.len(), behaviors().len());
    assert!(names.contains("append::the_first_append_creates_the_log"));
}

#[test]
fn behaviors_say_what_they_need() {
    let behaviors = behaviors();
    let needs = |name| behaviors.iter().find(|behavior| behavior.name() == name).map(Behavior::needs);
    assert_eq!(needs("append::the_first_append_creates_the_log"), Some(&[] as &[_]));
    assert_eq!(needs("editing::the_last_exchange_is_taken"), Some(&[Capability::Truncate] as &[_]));
    let both: &[_] = &[Capability::Prune, Capability::Truncate];
    assert_eq!(needs("prune::a_pruned_log_is_truncated"), Some(both));
    let both: &[_] = &[Capability::Sealed, Capability::Erase];
    assert_eq!(needs("sealed::a_listing_counts_encrypted_messages"), Some(both));
}
