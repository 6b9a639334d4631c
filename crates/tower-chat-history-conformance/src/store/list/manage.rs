//! Behaviors of listings, labels and erasures.

/// Adds these behaviors to the list, and continues with the next part of it.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_manage {
    ($call:tt $($listed:tt)*) => {
        $crate::__conformance_call! {
            $call
            $($listed)*
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
                a_limit_of_zero_lists_one
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
                a_limit_of_zero_erases_one
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
