//! The list of all behaviors, and a function that runs them.

use super::{Fixture, behaviors};

/// Passes the list of behaviors to another macro, after the macro's own arguments. A group or a behavior may need an
/// optional ability of the store.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_list {
    ([$($callback:tt)+] $($arguments:tt)*) => {
        $($callback)+! {
            $($arguments)*
            append {
                the_first_append_creates_the_log
                fitting_expectations_are_accepted
                every_append_changes_the_revision
                many_appends_are_in_order
                an_append_is_seen_by_other_handles
                an_exchange_may_lack_a_reply
                conversations_count_separately
            }
            expect {
                absent_conflicts_with_an_existing_log
                a_stale_revision_conflicts
                a_revision_that_never_existed_conflicts
                a_conflict_changes_nothing
                a_revision_of_another_incarnation_is_gone
                another_incarnation_is_gone
                an_absent_conversation_is_gone
            }
            continues {
                a_continuation_keeps_what_it_answers
                an_unknown_position_cannot_be_continued
                an_absent_conversation_cannot_be_continued
                a_refused_continuation_can_be_repeated
            }
            idempotent {
                a_repeat_stores_nothing
                a_first_append_can_be_repeated
                a_repeat_does_not_change_what_is_recorded
                racing_repeats_store_once
                ids_belong_to_their_conversation
                similar_ids_are_different
                a_repeat_is_recognized_in_a_long_log
            }
            race {
                one_append_wins_a_revision
                one_first_turn_wins
                appends_to_any_revision_all_land
                appends_that_may_create_all_land
                callers_that_retry_all_land
                conversations_do_not_disturb_each_other
                readers_see_states_that_existed
            }
            cancel {
                a_dropped_append_is_settled_by_a_repeat
                a_dropped_first_append_is_settled_by_a_repeat
                a_dropped_append_stores_its_compaction_with_it
                a_store_outlives_dropped_calls
            }
            load {
                a_missing_conversation_is_absent
                the_window_is_the_whole_log_at_first
                a_known_state_is_unchanged
                an_append_changes_the_known_state
                a_compaction_changes_the_known_state
                another_profile_is_not_known
                a_state_that_never_existed_is_not_known
                a_recorded_exchange_is_found_first
                an_exchange_before_the_window_is_found
                an_exchange_that_is_not_recorded_is_not_found
                a_recorded_continuation_is_found
            }
            limit {
                a_message_limit_brings_the_newest_turns
                a_byte_limit_brings_the_newest_turns
                a_byte_limit_counts_bytes
                an_exact_fit_is_not_truncated
                a_turn_is_not_split
                the_newest_turn_comes_whole
                a_late_continuation_does_not_start_a_window
                a_window_begins_at_its_compaction
                the_smallest_window_is_the_newest_turn
                an_exchange_without_messages_counts_as_one
                the_default_limit_holds
                the_newest_turn_comes_whole_with_hundreds_of_exchanges
                a_large_limit_is_not_a_small_one
                tens_of_thousands_of_messages_are_counted
            }
            system {
                the_name_does_not_change
                the_name_is_the_same_through_all_handles
            }
            read {
                an_absent_log_is_an_absent_page
                pages_are_in_order_and_bounded
                pages_make_the_whole_log
                beyond_the_end_is_an_empty_page
                a_limit_of_zero_brings_the_revision
                reading_ignores_windows
            }
            compaction {
                a_compaction_is_stored_and_replaced
                a_compaction_comes_back_whole
                a_large_summary_comes_back
                the_replaced_cut_comes_back
                a_compaction_does_not_change_the_log
                a_stale_compaction_is_left_out
                positions_do_not_go_back
                a_window_starts_at_an_opening
                positions_lie_within_the_log
                a_summary_ends_before_the_window
                a_finished_summary_is_merged_onto_a_moved_window
                one_compaction_wins_a_version
                a_compaction_needs_its_incarnation
            }
            compact_with_append {
                both_are_stored
                the_exchange_may_start_the_window
                a_first_append_may_compact
                a_continuation_does_not_start_the_window
                an_illegal_compaction_stores_nothing
                an_illegal_compaction_creates_nothing
                a_stale_compaction_is_left_out
                a_compaction_of_nothing_is_left_out
                a_refused_append_does_not_compact
                a_repeat_does_not_compact_again
            }
            profiles {
                profiles_have_their_own_windows
                versions_belong_to_their_profile
                an_append_compacts_for_one_profile
                similar_names_are_different_profiles
                compactions_belong_to_their_conversation
            }
            deletion {
                a_deleted_conversation_is_absent
                deleting_twice_is_no_error
                deleting_spares_other_conversations
                calls_in_flight_are_refused
                a_recreated_conversation_starts_from_the_beginning
                an_ended_incarnation_is_not_known
                an_ended_incarnation_is_gone
                deleting_during_appends_is_final
                deleting_during_first_turns_leaves_whole_conversations
            }
            isolation {
                delimiters_make_other_ids
                parts_split_differently_are_other_ids
                unicode_forms_are_other_ids
                case_and_white_space_make_other_ids
                prefixes_are_other_ids
                wildcards_are_ordinary_characters
                the_longest_ids_stay_apart
                the_most_parts_stay_apart
            }
            content {
                unicode_comes_back
                nul_comes_back
                lone_surrogates_come_back
                escapes_come_back_as_spelled
                unknown_fields_come_back
                fields_of_providers_come_back
                key_order_comes_back
                numbers_come_back_as_spelled
                white_space_comes_back
                tool_calls_come_back
                deep_nesting_comes_back
                large_messages_come_back
                many_messages_come_back
            }
            metadata {
                every_field_comes_back
                absent_and_empty_are_different
                time_is_kept_and_orders_nothing
            }
            conversation {
                messages_are_those_of_the_log
                messages_of_a_large_log_are_listed
                an_import_keeps_turns
                an_import_continues_the_log
                instructions_are_not_imported
                a_cleared_conversation_can_be_filled_again
            }
            back {
                the_last_exchanges_come_in_order
                a_log_is_counted_without_reading_it
                the_newest_turn_is_returned_alone
                pages_back_make_the_whole_log
                large_exchanges_come_in_one_page
                an_absent_conversation_has_no_pages
                appends_do_not_move_the_pages
                a_page_of_a_deleted_log_is_gone
                a_revision_beyond_the_end_leads_back_to_the_log
                #[needs(truncate)]
                a_page_of_a_truncated_log_is_gone
                #[needs(prune)]
                pages_end_where_a_pruned_log_begins
            }
            #[needs(durable)]
            reopen {
                all_data_is_still_there
                writing_continues
                repeats_are_still_recognized
                deletions_persist
                messages_come_back_verbatim
            }
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
            empty {
                a_load_of_empty_exchanges_is_bounded
                empty_and_other_exchanges_add_up
                turns_of_empty_exchanges_are_not_split
                empty_exchanges_have_positions_in_the_log
            }
            nul {
                a_summary_with_nul_is_stored_and_replaced
                an_append_replaces_a_summary_with_nul
                a_stale_compaction_is_left_out_for_a_summary_with_nul
                #[needs(truncate)]
                a_truncation_spares_a_summary_with_nul
                #[needs(prune)]
                a_prune_removes_a_summary_with_nul
            }
            kept {
                an_equal_compaction_of_another_call_is_kept
                an_equal_compaction_of_another_append_is_kept
                one_of_equal_racing_compactions_is_stored
            }
            late {
                a_late_compaction_does_not_reach_the_next_incarnation
                a_late_append_does_not_reach_the_next_incarnation
                #[needs(truncate)]
                a_late_truncation_does_not_reach_the_next_incarnation
                #[needs(prune)]
                a_late_prune_does_not_reach_the_next_incarnation
            }
            recalled {
                recalled_messages_come_back
                large_recalled_messages_come_back
                a_repeat_does_not_change_recalled_messages
                recalled_messages_do_not_count
                recalled_messages_are_deleted
                #[needs(truncate)]
                a_truncation_removes_recalled_messages_with_their_exchange
                #[needs(prune)]
                an_erasure_removes_recalled_messages_that_cite_removed_exchanges
                #[needs(prune)]
                a_prune_keeps_recalled_messages_until_derived_data_is_erased
                #[needs(prune)]
                recalled_messages_are_forked
            }
            provenance {
                a_provenance_comes_back
                a_repeat_does_not_change_a_provenance
                provenances_are_deleted
                #[needs(truncate)]
                a_truncation_removes_provenances_with_their_exchange
                #[needs(prune)]
                an_erasure_removes_provenances
                provenances_are_forked
                #[needs(prune)]
                provenances_of_a_pruned_log_are_not_forked
            }
            dialect {
                elements_of_an_unknown_dialect_come_back
                recalled_elements_of_an_unknown_dialect_come_back
                dialects_can_alternate
            }
            elements {
                elements_of_providers_come_back
                bound_elements_stay_bound
                providers_can_alternate
            }
            dialect_changes {
                every_field_of_an_exchange_comes_back
                #[needs(truncate)]
                a_truncation_leaves_the_others_unchanged
                #[needs(prune)]
                a_prune_leaves_elements_unchanged
                a_fork_has_the_same_elements
                a_replaced_cut_comes_back_with_the_exchanges
                a_deleted_conversation_can_return_in_another_dialect
            }
            #[needs(attach)]
            attach {
                attachments_come_back
                large_and_many_attachments_come_back
                a_stored_attachment_stays
                attachments_are_removed_by_their_key
                a_refused_call_changes_nothing
                another_incarnation_is_gone
                a_limit_cuts_off_the_last_attachments
                attachments_of_other_conversations_are_not_seen
                the_log_is_not_changed
                a_deletion_removes_attachments
                #[needs(truncate)]
                a_truncation_removes_attachments_of_removed_exchanges
                #[needs(prune)]
                an_erasure_removes_attachments_of_removed_exchanges
                exchanges_are_picked
                #[needs(prune)]
                pruned_exchanges_are_not_picked
                a_dropped_call_is_done_or_not
                #[needs(durable)]
                attachments_persist
            }
            editing {
                #[needs(truncate)]
                a_conversation_is_truncated
                #[needs(truncate)]
                the_last_exchange_is_taken
                #[needs(truncate)]
                a_reply_is_generated_again
                a_fork_has_the_same_exchanges
                a_large_log_is_forked
                a_fork_of_nothing_creates_nothing
                a_fork_does_not_change_existing_conversations
            }
            first {
                a_log_begins_where_its_first_append_says
                an_existing_log_keeps_its_positions
                a_first_append_at_a_position_can_be_repeated
                expectations_hold_at_a_position
                a_log_at_a_position_is_continued
                loads_at_a_position_are_limited
                a_log_at_a_position_is_compacted
                a_new_log_begins_somewhere_else
                racing_first_appends_leave_no_gap
                #[needs(truncate)]
                a_log_at_a_position_is_truncated
                #[needs(prune)]
                a_log_at_a_position_is_pruned
            }
            epochs {
                a_first_turn_is_stored
                a_deletion_of_nothing_refuses_first_turns
                a_deletion_refuses_first_turns
                a_new_life_refuses_first_turns_from_before
                a_creation_is_not_a_deletion
                first_turns_of_others_are_stored
                a_repeat_is_still_a_repeat
                a_repeat_of_a_deleted_first_turn_is_refused
                an_append_without_an_epoch_is_not_refused
                a_later_load_has_a_newer_epoch
                an_epoch_of_the_future_is_refused
                a_deletion_during_first_turns_is_final
                #[needs(durable)]
                epochs_persist
            }
            #[needs(erase)]
            listing {
                conversations_are_listed
                an_entry_describes_its_conversation
                an_absent_conversation_has_no_entry
                times_are_those_of_exchanges
                an_entry_has_the_first_position
                #[needs(truncate)]
                an_entry_follows_a_truncation
                #[needs(prune)]
                an_entry_follows_a_prune
                an_entry_counts_bytes_of_messages
                #[needs(durable)]
                entries_persist
            }
            #[needs(erase)]
            listing_pages {
                pages_are_in_the_order_of_ids
                a_prefix_contains_whole_parts
                a_forged_cursor_leaves_the_prefix_never
                all_conversations_are_listed
                a_limit_of_zero_lists_nothing
                hundreds_of_conversations_are_listed
                a_listing_stays_right_between_changes
                a_listing_stays_right_during_changes
            }
            #[needs(erase)]
            labels {
                labels_are_stored_and_replaced
                stale_labels_are_not_stored
                labels_need_their_incarnation
                labels_come_back
                labels_of_others_are_not_seen
                a_deletion_removes_labels
                #[needs(truncate)]
                a_truncation_keeps_labels
                #[needs(prune)]
                a_prune_keeps_labels
                labels_do_not_change_the_log
                one_setter_wins_a_version
                dropped_labels_are_stored_or_not
            }
            #[needs(erase)]
            erase {
                a_prefix_is_erased_and_nothing_else
                pages_are_erased_in_order
                a_cursor_spares_what_is_before_it
                a_limit_of_zero_erases_nothing
                an_erasure_is_repeated
                nothing_of_a_conversation_returns
                calls_in_flight_are_gone
                a_later_conversation_is_legal
                a_scrub_leaves_conversations_in_place
                #[needs(durable)]
                erasures_persist
            }
            #[needs(erase)]
            erase_bar {
                first_turns_under_the_prefix_are_refused
                all_first_turns_are_refused
                later_first_turns_are_stored
                a_bar_removes_nothing
                each_of_several_bars_counts
                #[needs(durable)]
                bars_persist
            }
            #[needs(erase)]
            erase_count {
                nothing_is_counted_as_nothing
                everything_is_counted
                exchange_ids_are_counted_once
                deletions_leave_nothing
                #[needs(truncate)]
                truncated_exchanges_are_not_counted
                #[needs(prune)]
                pruned_exchanges_are_not_counted
                #[needs(attach)]
                attachments_are_counted_by_kind
            }
            #[needs(erase)]
            erase_if {
                the_seen_revision_is_erased
                another_revision_is_not_erased
                a_revision_includes_its_beginning
                #[needs(prune)]
                a_pruned_revision_is_another_one
                first_turns_are_not_refused
                a_racing_append_wins_or_is_gone
            }
            #[needs(erase)]
            erase_race {
                first_turns_from_before_leave_nothing
                appends_to_incarnations_leave_nothing
                later_conversations_are_whole
                racing_erasures_count_once
                a_dropped_erasure_is_repeated
            }
            #[needs(erase)]
            erase_model {
                random_calls_match_a_map
            }
        }
    };
}

/// Runs every behavior for which the fixture's store has the needed abilities, one after the other. Use it if named
/// tests are not possible. Returns the names of the behaviors that were skipped, because the store lacks a
/// [`Capability`](super::Capability) that they need.
pub async fn all(fixture: &dyn Fixture) -> Vec<&'static str> {
    let mut left_out = Vec::new();
    for behavior in behaviors() {
        if behavior.can_run(fixture).await {
            behavior.run(fixture).await;
        } else {
            left_out.push(behavior.name());
        }
    }
    left_out
}

#[cfg(test)]
mod tests {
    macro_rules! names {
        ($($(#[$group_needs:meta])? $group:ident { $($(#[$needs:meta])? $behavior:ident)+ })+) => {
            [$((include_str!(concat!(stringify!($group), ".rs")), &[$(stringify!($behavior)),+] as &[&str])),+]
        };
    }

    #[test]
    fn every_behavior_is_listed() {
        let groups = __conformance_list!([names]);
        for (source, listed) in groups {
            let written = source.lines().filter_map(|line| line.strip_prefix("pub async fn ")?.split('(').next());
            assert_eq!(written.collect::<Vec<_>>(), listed);
        }
    }
}
