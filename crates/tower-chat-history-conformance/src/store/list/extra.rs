//! Behaviors of everything else that belongs to a log: records, edits and first positions.

/// Adds these behaviors to the list, and continues with the next part of it.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_extra {
    ($call:tt $($listed:tt)*) => {
        $crate::__conformance_manage! {
            $call
            $($listed)*
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
                an_erasure_removes_recalled_messages_that_cite_other_conversations
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
                provenances_of_a_pruned_log_are_forked
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
                a_log_begins_with_a_turn
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
        }
    };
}
