//! The list of all behaviors: as a macro, as named tests, and as values.

use std::{fmt, pin::Pin};

use super::{Capability, Fixture};

/// Passes the list of behaviors to another macro, after the macro's own arguments: the modules, the groups of tests in
/// each, and the behaviors of each group. The abilities that a group or a behavior needs follow its name.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_list {
    ([$($callback:tt)+] $($arguments:tt)*) => {
        $($callback)+! {
            $($arguments)*
            append {
                append [] {
                    the_first_append_creates_the_log
                    fitting_expectations_are_accepted
                    an_append_is_seen_by_other_handles
                    other_revisions_conflict
                    a_conflict_changes_nothing
                    another_incarnation_is_gone
                    a_continuation_keeps_what_it_answers
                    an_unknown_position_cannot_be_continued
                    an_absent_conversation_cannot_be_continued
                }
                idempotent [] {
                    a_repeat_stores_nothing
                    a_repeat_does_not_change_what_is_recorded
                    racing_repeats_store_once
                    ids_belong_to_their_conversation
                    similar_ids_are_different
                    a_repeat_is_recognized_in_a_long_log
                }
                first [] {
                    a_log_begins_where_its_first_append_says
                    an_existing_log_keeps_its_positions
                    expectations_hold_at_a_position
                    a_log_at_a_position_is_continued
                    a_log_begins_with_a_turn
                    loads_at_a_position_are_limited
                    a_log_at_a_position_is_compacted
                    racing_first_appends_leave_no_gap
                    a_log_at_a_position_is_truncated [Truncate]
                    a_log_at_a_position_is_pruned [Prune]
                }
            }
            race {
                race [] {
                    one_append_wins_a_revision
                    appends_to_any_revision_all_land
                    callers_that_retry_all_land
                    conversations_do_not_disturb_each_other
                    readers_see_states_that_existed
                    a_dropped_append_is_settled_by_a_repeat
                    a_dropped_append_stores_its_compaction_with_it
                    a_store_outlives_dropped_calls
                }
            }
            load {
                load [] {
                    a_missing_conversation_is_absent
                    a_window_has_the_size_of_the_whole_log
                    a_known_state_is_unchanged
                    a_compaction_changes_the_known_state
                    another_profile_is_not_known
                    a_state_that_never_existed_is_not_known
                    a_recorded_exchange_is_found_first
                    an_exchange_that_is_not_recorded_is_not_found
                    added_exchanges_extend_the_known_window
                    an_append_changes_the_known_state
                    nothing_is_added_to_a_state_that_the_log_never_had
                    added_exchanges_are_within_the_limit
                    added_media_are_within_their_limit
                    the_name_of_the_system_does_not_change
                }
                limit [] {
                    a_limit_brings_the_newest_turns
                    media_have_a_limit_of_their_own
                    six_photos_are_loaded_by_default
                    a_turn_is_not_split
                    the_newest_turn_comes_whole
                    a_late_continuation_does_not_start_a_window
                    a_window_begins_at_its_compaction
                    the_default_limit_holds
                    a_large_limit_is_not_a_small_one
                    tens_of_thousands_of_messages_are_counted
                    an_exchange_without_messages_counts_as_one
                    turns_of_empty_exchanges_are_not_split
                    empty_exchanges_have_positions_in_the_log
                }
            }
            read {
                read [] {
                    an_absent_log_is_an_absent_page
                    pages_are_in_order_and_bounded
                    reading_ignores_windows
                    the_last_exchanges_come_in_order
                    a_log_is_counted_without_reading_it
                    the_newest_turn_is_returned_alone
                    pages_back_make_the_whole_log
                    large_exchanges_come_in_one_page
                    appends_do_not_move_the_pages
                    a_page_of_a_deleted_log_is_gone
                    a_page_of_a_truncated_log_is_gone [Truncate]
                    pages_end_where_a_pruned_log_begins [Prune]
                }
            }
            compaction {
                compaction [] {
                    a_compaction_is_stored_and_replaced
                    a_compaction_comes_back_whole
                    a_large_summary_comes_back
                    a_compaction_does_not_change_the_log
                    a_stale_compaction_is_left_out
                    a_window_may_go_back
                    one_compaction_wins_a_version
                    a_compaction_needs_its_incarnation
                }
                profiles [] {
                    profiles_have_their_own_windows
                    versions_belong_to_their_profile
                    an_append_compacts_for_one_profile
                    similar_names_are_different_profiles
                    compactions_belong_to_their_conversation
                }
                nul [] {
                    a_summary_with_nul_is_stored_and_replaced
                    an_append_replaces_a_summary_with_nul
                    a_stale_compaction_is_left_out_for_a_summary_with_nul
                    a_truncation_spares_a_summary_with_nul [Truncate]
                    a_prune_removes_a_summary_with_nul [Prune]
                }
            }
            compact_with_append {
                compact_with_append [] {
                    both_are_stored
                    the_exchange_may_start_the_window
                    a_first_append_may_compact
                    a_stale_compaction_is_left_out
                    a_compaction_of_nothing_is_left_out
                    a_refused_append_does_not_compact
                    a_repeat_does_not_compact_again
                }
                kept [] {
                    an_equal_compaction_of_another_call_is_kept
                    an_equal_compaction_of_another_append_is_kept
                    one_of_equal_racing_compactions_is_stored
                }
            }
            deletion {
                deletion [] {
                    a_deleted_conversation_is_absent
                    a_recreated_conversation_starts_from_the_beginning
                    late_calls_do_not_reach_the_next_incarnation
                    a_late_truncation_does_not_reach_the_next_incarnation [Truncate]
                    a_late_prune_does_not_reach_the_next_incarnation [Prune]
                    deleting_during_appends_is_final
                    deleting_during_first_turns_leaves_whole_conversations
                }
                epochs [] {
                    a_first_turn_is_stored
                    a_deletion_refuses_first_turns
                    a_creation_is_not_a_deletion
                    first_turns_of_others_are_stored
                    a_repeat_is_still_a_repeat
                    a_repeat_of_a_deleted_first_turn_is_refused
                    a_later_load_has_a_newer_epoch
                    an_epoch_of_the_future_is_refused
                    a_deletion_during_first_turns_is_final
                }
            }
            isolation {
                isolation [] {
                    delimiters_make_other_ids
                    parts_split_differently_are_other_ids
                    similar_letters_make_other_ids
                    wildcards_are_ordinary_characters
                    the_longest_ids_stay_apart
                }
            }
            content {
                content [] {
                    texts_come_back_as_spelled
                    white_space_comes_back
                    unknown_fields_come_back
                    fields_of_providers_come_back
                    tool_calls_come_back
                    large_messages_come_back
                    every_field_comes_back
                    metadata_comes_back
                    time_is_kept_and_orders_nothing
                    encrypted_content_comes_back [Sealed]
                    a_limit_counts_encrypted_messages [Sealed]
                    a_limit_counts_encrypted_media [Sealed]
                    a_listing_counts_encrypted_messages [Erase, Sealed]
                }
                recalled [] {
                    recalled_messages_come_back
                    recalled_messages_do_not_count
                    an_erasure_removes_recalled_messages_that_cite_removed_exchanges [Prune]
                    an_erasure_removes_recalled_messages_that_cite_other_conversations [Prune]
                    a_prune_keeps_recalled_messages_until_derived_data_is_erased [Prune]
                }
                provenance [] {
                    a_provenance_comes_back
                    an_erasure_removes_provenances [Prune]
                }
                reopen [Durable] {
                    all_data_is_still_there
                    writing_continues
                    deletions_persist
                }
            }
            dialect {
                dialect [] {
                    elements_come_back
                    dialects_can_alternate
                    every_field_of_an_exchange_comes_back
                    a_truncation_leaves_the_others_unchanged [Truncate]
                    a_prune_leaves_elements_unchanged [Prune]
                    a_fork_has_the_same_elements [Fork]
                    a_deleted_conversation_can_return_in_another_dialect
                }
            }
            conversation {
                conversation [] {
                    messages_are_those_of_the_log
                    a_large_log_is_listed
                    an_import_keeps_turns
                    an_import_continues_the_log
                    instructions_are_not_imported
                    a_cleared_conversation_can_be_filled_again
                    a_conversation_is_truncated [Truncate]
                    the_last_exchange_is_taken [Truncate]
                    a_reply_is_generated_again [Truncate]
                    a_conversation_is_forked [Fork, Erase]
                    a_fork_of_nothing_creates_nothing [Fork]
                    a_conversation_keeps_its_end [Prune]
                    the_messages_are_the_remaining_ones [Prune]
                    a_pruned_log_is_imported_into [Prune]
                }
            }
            truncate {
                truncate [Truncate] {
                    the_end_of_the_log_is_removed
                    media_of_a_truncated_log_are_counted
                    only_the_seen_revision_is_truncated
                    position_0_removes_the_conversation
                    a_position_beyond_the_end_removes_nothing
                    removed_ids_are_free_again
                    a_truncation_within_a_turn_leaves_it_open
                    other_conversations_stay
                    an_append_in_flight_is_gone
                    one_truncation_wins
                    a_racing_append_lands_before_or_not_at_all
                    edits_and_appends_leave_no_gap
                    a_dropped_truncation_is_done_or_not
                    a_truncation_persists [Durable]
                    a_truncation_to_nothing_refuses_first_turns
                    a_truncation_to_something_refuses_no_first_turn
                    first_turns_of_others_are_stored
                    a_truncation_to_nothing_during_first_turns_is_final
                }
                truncate_compaction [Truncate] {
                    a_compaction_is_carried_over
                    derived_text_is_carried_over_or_not
                    a_compaction_of_what_was_removed_is_removed
                    a_stale_compaction_is_not_carried_over
                    other_profiles_are_removed
                    a_truncation_without_effect_changes_no_compaction
                    nothing_is_carried_over_without_a_log
                    a_compaction_in_flight_is_gone
                }
            }
            prune {
                prune [Prune] {
                    the_beginning_of_the_log_is_removed
                    media_of_a_pruned_log_are_counted
                    the_last_turns_are_kept
                    the_newest_turn_stays
                    a_position_within_a_turn_keeps_the_whole_turn
                    a_prune_that_removes_nothing_changes_nothing
                    a_known_state_is_not_known_any_more
                    turns_in_flight_land
                    a_removed_call_can_be_continued
                    only_its_incarnation_is_pruned
                    removed_ids_are_free_again
                    other_conversations_stay
                    a_pruned_log_is_truncated [Truncate]
                    prunes_and_appends_leave_no_gap
                    racing_prunes_remove_once
                    a_dropped_prune_is_done_or_not
                    a_prune_persists [Durable]
                    random_prunes_and_appends_match_a_list
                }
                prune_compaction [Prune] {
                    compactions_stay_as_they_are
                    a_window_starts_no_earlier_than_the_log
                    a_compaction_in_flight_is_stored
                    derived_data_is_erased_if_asked
                    a_compaction_without_summary_stays
                    derived_data_of_an_earlier_prune_is_erased
                    calls_in_flight_restore_nothing
                    a_whole_log_has_no_derived_data_to_erase
                }
            }
            fork {
                fork [Fork] {
                    the_exchanges_before_the_position_are_copied
                    a_position_beyond_the_end_copies_everything
                    media_of_a_copy_are_counted
                    a_fork_of_nothing_creates_nothing
                    a_fork_within_a_turn_leaves_it_open
                    positions_of_a_pruned_log_stay [Prune]
                    recalled_messages_of_others_are_not_copied [Prune]
                    encrypted_content_is_copied [Sealed]
                    the_compaction_is_the_first_one
                    existing_conversations_are_not_changed
                    only_its_incarnation_is_forked
                    a_changed_log_is_gone [Truncate, Prune]
                    a_copy_that_was_deleted_is_gone
                    an_erasure_refuses_copies_under_its_prefix [Erase]
                    a_repeat_finds_its_copy [ForkInOneStep]
                    one_of_several_forks_wins
                    a_racing_first_turn_wins_or_conflicts
                    racing_appends_are_copied_or_not
                    a_racing_deletion_leaves_all_or_nothing
                    readers_see_a_whole_copy [ForkInOneStep]
                    a_dropped_fork_is_done_or_not [ForkInOneStep]
                    a_large_log_is_copied
                    a_copy_persists [Durable]
                }
            }
            copy {
                copy [Fork] {
                    both_continue_independently
                    one_outlives_the_other
                    a_copy_is_forked
                    a_deleted_conversation_can_return_as_a_copy
                    loads_of_the_copy_are_limited
                    the_copy_is_truncated [Truncate]
                    the_copy_is_pruned [Prune]
                    the_copy_is_listed [Erase]
                    the_time_is_that_of_the_fork [Erase, ForkInOneStep]
                    the_copy_is_erased [Erase]
                }
            }
            listing {
                listing [Erase] {
                    conversations_are_listed
                    an_entry_describes_its_conversation
                    times_are_those_of_exchanges
                    an_entry_follows_a_truncation [Truncate]
                    an_entry_follows_a_prune [Prune]
                    entries_persist [Durable]
                    pages_are_in_the_order_of_ids
                    a_prefix_contains_whole_parts
                    a_forged_cursor_leaves_the_prefix_never
                    all_conversations_are_listed
                    hundreds_of_conversations_are_listed
                    a_listing_stays_right_between_changes
                    a_listing_stays_right_during_changes
                    labels_are_stored_and_replaced
                    stale_labels_are_not_stored
                    labels_need_their_incarnation
                    labels_of_others_are_not_seen
                    a_truncation_keeps_labels [Truncate]
                    a_prune_keeps_labels [Prune]
                    labels_do_not_change_the_log
                    one_setter_wins_a_version
                    dropped_labels_are_stored_or_not
                }
            }
            erase {
                erase [Erase] {
                    a_prefix_is_erased_and_nothing_else
                    pages_are_erased_in_order
                    a_cursor_spares_what_is_before_it
                    an_erasure_is_repeated
                    nothing_of_a_conversation_returns
                    calls_in_flight_are_gone
                    a_later_conversation_is_legal
                    a_scrub_leaves_conversations_in_place
                    erasures_persist [Durable]
                    first_turns_under_the_prefix_are_refused
                    all_first_turns_are_refused
                    a_bar_removes_nothing
                    each_of_several_bars_counts
                    everything_is_counted
                    truncated_exchanges_are_not_counted [Truncate]
                    pruned_exchanges_are_not_counted [Prune]
                    the_seen_revision_is_erased
                    another_revision_is_not_erased
                    a_pruned_revision_is_another_one [Prune]
                    first_turns_are_not_refused
                }
            }
            erase_race {
                erase_race [Erase] {
                    first_turns_from_before_leave_nothing
                    appends_to_incarnations_leave_nothing
                    later_conversations_are_whole
                    racing_erasures_count_once
                    a_dropped_erasure_is_repeated
                    a_racing_append_wins_or_is_gone
                    random_calls_match_a_map
                }
            }
        }
    };
}

/// Creates a test for each behavior of the [conformance suite](crate::store), with the given attribute and fixture.
///
/// The fixture is an expression. Each test evaluates it again, within an async function, so it may `.await`, and it
/// may `return` to skip the test. The tests are in the module `store`. To test several stores in one file, put each
/// into its own module. The [suite's documentation](crate::store) has an example.
///
/// If the store lacks a [`Capability`](crate::store::Capability), list it after `without: [Durable, Truncate, Prune,
/// Fork, ForkInOneStep, Erase, Sealed]`. The tests that need it are then ignored. If it is not listed, they fail, so
/// that no test passes without testing anything.
#[macro_export]
macro_rules! conformance_tests {
    ($(#[$attribute:meta])+ $fixture:expr $(, without: [$($lacking:ident),* $(,)?])? $(,)?) => {
        mod store {
            use super::*;
            $crate::__conformance_list! {
                [$crate::__conformance_groups] [$(#[$attribute])+] [$fixture] [$($($lacking)*)?]
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_groups {
    (
        $attributes:tt $fixture:tt $lacking:tt
        $($module:ident { $($group:ident $needs:tt { $($behavior:ident $([$($also:ident),+])?)+ })+ })+
    ) => {
        $($(mod $group {
            use super::*;
            $($crate::__conformance_test! {
                $lacking $lacking $needs [$($($also)+)?] [$attributes $fixture $module $behavior]
            })+
        })+)+
    };
}

/// Creates a test that is ignored if the store lacks a needed ability. It compares each needed ability with each one
/// that the store lacks.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_test {
    (@ [$($ignored:tt)*] [[$(#[$attribute:meta])+] [$fixture:expr] $module:ident $behavior:ident]) => {
        $(#[$attribute])+
        $($ignored)*
        async fn $behavior() {
            let fixture = $fixture;
            $crate::store::$module::$behavior(&fixture).await;
        }
    };
    ($left:tt $lacking:tt [] [] $test:tt) => {
        $crate::__conformance_test! { @ [] $test }
    };
    ($left:tt $lacking:tt [] [$next:ident $($also:ident)*] $test:tt) => {
        $crate::__conformance_test! { $lacking $lacking [$next] [$($also)*] $test }
    };
    ([] $lacking:tt [$need:ident] $also:tt $test:tt) => {
        $crate::__conformance_test! { [] $lacking [] $also $test }
    };
    ([Durable $($left:ident)*] $lacking:tt [Durable] $also:tt $test:tt) => {
        $crate::__conformance_test! { @ [#[ignore = "the store is not durable"]] $test }
    };
    ([Truncate $($left:ident)*] $lacking:tt [Truncate] $also:tt $test:tt) => {
        $crate::__conformance_test! { @ [#[ignore = "the store cannot truncate"]] $test }
    };
    ([Prune $($left:ident)*] $lacking:tt [Prune] $also:tt $test:tt) => {
        $crate::__conformance_test! { @ [#[ignore = "the store cannot prune"]] $test }
    };
    ([Fork $($left:ident)*] $lacking:tt [Fork] $also:tt $test:tt) => {
        $crate::__conformance_test! { @ [#[ignore = "the store cannot fork"]] $test }
    };
    ([ForkInOneStep $($left:ident)*] $lacking:tt [ForkInOneStep] $also:tt $test:tt) => {
        $crate::__conformance_test! { @ [#[ignore = "the store does not fork in one step"]] $test }
    };
    ([Erase $($left:ident)*] $lacking:tt [Erase] $also:tt $test:tt) => {
        $crate::__conformance_test! { @ [#[ignore = "the store neither lists nor erases"]] $test }
    };
    ([Sealed $($left:ident)*] $lacking:tt [Sealed] $also:tt $test:tt) => {
        $crate::__conformance_test! { @ [#[ignore = "the store refuses encrypted exchanges"]] $test }
    };
    ([$other:ident $($left:ident)*] $lacking:tt $need:tt $also:tt $test:tt) => {
        $crate::__conformance_test! { [$($left)*] $lacking $need $also $test }
    };
}

/// One behavior of the [suite](super), as a value.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Behavior {
    /// The name after that of its group: `append::the_first_append_creates_the_log`.
    pub name: &'static str,
    /// The optional abilities that a store must have for this behavior.
    pub needs: &'static [Capability],
    run: for<'a> fn(&'a dyn Fixture) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
}

impl Behavior {
    /// Runs the behavior. The future panics if the store breaks the contract, or lacks an ability that the behavior
    /// needs.
    pub async fn run(&self, fixture: &dyn Fixture) {
        (self.run)(fixture).await;
    }
}

impl fmt::Debug for Behavior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Behavior").field(&self.name).finish()
    }
}

macro_rules! values {
    ($($module:ident { $($group:ident $needs:tt { $($behavior:ident $([$($also:ident),+])?)+ })+ })+) => {
        vec![$($($(Behavior {
            name: concat!(stringify!($group), "::", stringify!($behavior)),
            needs: needs!($needs $($($also)+)?),
            run: |fixture| Box::pin(super::$module::$behavior(fixture)),
        }),+),+),+]
    };
}

macro_rules! needs {
    ([$($need:ident)?] $($also:ident)*) => { &[$(Capability::$need,)? $(Capability::$also),*] };
}

/// Returns every behavior, for a harness that creates its tests at run time, for example because they depend on a
/// server that may not be installed.
#[must_use]
pub fn behaviors() -> Vec<Behavior> {
    crate::__conformance_list! { [values] }
}

/// Runs every behavior for which the fixture's store has the needed abilities, one after the other. Use it if named
/// tests are not possible. Returns the names of the behaviors that were skipped, because the store lacks a
/// [`Capability`] that they need.
pub async fn all(fixture: &dyn Fixture) -> Vec<&'static str> {
    let mut skipped = Vec::new();
    for behavior in behaviors() {
        let handle = fixture.open().await;
        let can_run = behavior.needs.iter().all(|needed| handle.has(*needed));
        drop(handle);
        if can_run {
            behavior.run(fixture).await;
        } else {
            skipped.push(behavior.name);
        }
    }
    skipped
}
