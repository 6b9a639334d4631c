//! Behaviors of truncations and prunes.

/// Adds these behaviors to the list, and continues with the next part of it.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_edit {
    ($call:tt $($listed:tt)*) => {
        $crate::__conformance_extra! {
            $call
            $($listed)*
            #[needs(truncate)]
            truncate {
                the_end_of_the_log_is_removed
                the_rest_is_in_a_new_incarnation
                the_log_continues_where_it_was_truncated
                only_the_seen_revision_is_truncated
                a_repeat_removes_nothing_twice
                an_absent_log_is_gone
                position_0_removes_the_conversation
                a_position_beyond_the_end_removes_nothing
                removed_ids_are_free_again
                a_truncation_within_a_turn_leaves_it_open
                other_conversations_stay
            }
            #[needs(truncate)]
            truncate_to_nothing {
                a_truncation_to_nothing_refuses_first_turns
                a_new_log_refuses_first_turns_from_before
                a_load_after_it_has_a_newer_epoch
                a_truncation_to_something_refuses_no_first_turn
                a_refused_truncation_refuses_no_first_turn
                first_turns_of_others_are_stored
                a_truncation_to_nothing_during_first_turns_is_final
                #[needs(durable)]
                truncations_to_nothing_persist
            }
            #[needs(truncate)]
            truncate_compaction {
                a_compaction_of_what_stays_is_kept
                a_compaction_of_what_was_removed_is_removed
                positions_are_lowered_to_the_end
                encrypted_elements_stay_left_out
                profiles_are_treated_separately
                a_compaction_in_flight_is_gone
                the_replaced_cut_is_truncated_too
                a_replaced_cut_returns_with_the_log_before_it
            }
            #[needs(truncate)]
            truncate_race {
                an_append_in_flight_is_gone
                one_truncation_wins
                a_racing_append_lands_before_or_not_at_all
                edits_and_appends_leave_no_gap
                a_dropped_truncation_is_done_or_not
                #[needs(durable)]
                a_truncation_persists
            }
            #[needs(prune)]
            prune {
                the_beginning_of_the_log_is_removed
                the_last_turns_are_kept
                the_last_messages_are_kept
                the_newest_turn_stays
                a_position_within_a_turn_keeps_the_whole_turn
                a_prune_that_removes_nothing_changes_nothing
                a_known_state_is_not_known_any_more
                turns_in_flight_land
                a_removed_call_can_be_continued
                only_its_incarnation_is_pruned
                a_prune_does_not_truncate_loads
                removed_ids_are_free_again
                other_conversations_stay
                a_recreated_conversation_begins_at_position_0
                #[needs(truncate)]
                a_pruned_log_is_truncated
            }
            #[needs(prune)]
            prune_compaction {
                compactions_stay_as_they_are
                a_window_starts_no_earlier_than_the_log
                a_compaction_in_flight_is_stored
                derived_data_is_erased_if_asked
                encrypted_elements_stay_left_out_of_a_pruned_log
                a_compaction_without_summary_stays
                derived_data_of_an_earlier_prune_is_erased
                calls_in_flight_restore_nothing
                a_whole_log_has_no_derived_data_to_erase
            }
            #[needs(prune)]
            prune_race {
                prunes_and_appends_leave_no_gap
                racing_prunes_remove_once
                a_dropped_prune_is_done_or_not
                #[needs(durable)]
                a_prune_persists
            }
            #[needs(prune)]
            prune_model {
                random_prunes_and_appends_match_a_list
            }
            #[needs(prune)]
            retain {
                a_conversation_keeps_its_last_turns
                a_conversation_keeps_its_last_messages
                the_messages_are_the_remaining_ones
                a_pruned_log_is_forked
                a_pruned_log_is_imported_into
            }
        }
    };
}
