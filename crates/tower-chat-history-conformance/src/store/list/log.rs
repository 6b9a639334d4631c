//! Behaviors of the log: appends, loads, compactions and deletions.

/// Adds these behaviors to the list, and continues with the next part of it.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_log {
    ($call:tt $($listed:tt)*) => {
        $crate::__conformance_edit! {
            $call
            $($listed)*
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
                a_window_has_the_size_of_the_whole_log
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
            added {
                added_exchanges_extend_the_known_window
                added_exchanges_come_with_all_their_parts
                only_a_load_that_allows_it_gets_added_exchanges
                nothing_is_added_to_a_state_that_the_log_never_had
                nothing_is_added_to_a_state_with_a_lost_exchange
                nothing_is_added_after_a_compaction
                added_exchanges_are_within_the_limit
                a_recorded_exchange_is_found_before_added_ones
                #[needs(truncate)]
                nothing_is_added_after_a_truncation
                #[needs(prune)]
                nothing_is_added_after_a_prune
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
            #[needs(sealed)]
            sealed {
                encrypted_content_comes_back
                a_limit_counts_encrypted_messages
                encrypted_content_without_messages_counts_as_one
                #[needs(erase)]
                a_listing_counts_encrypted_messages
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
        }
    };
}
