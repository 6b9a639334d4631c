//! The list of all rules, and a named test for each.

/// Passes the list of rules to another macro, after the macro's own arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! __dialect_list {
    ([$($callback:tt)+] $($arguments:tt)*) => {
        $($callback)+! {
            $($arguments)*
            reading {
                the_name_is_legal_and_constant
                the_samples_have_every_role
                elements_of_unknown_kinds_are_read
                the_index_is_that_of_one_role
                the_index_does_not_depend_on_the_spelling
                the_index_does_not_depend_on_the_depth
                parts_are_constant
                parts_have_the_calls_and_results_of_the_index
                part_kinds_of_the_index_are_those_of_the_parts
                an_element_that_says_nothing_has_nothing_to_say
            }
            written {
                composed_texts_are_read_back
                abandoned_calls_get_a_constant_result
            }
            changed {
                answering_keeps_the_given_results
                cleared_results_have_the_placeholder
                unbound_elements_keep_calls_results_and_texts
                elements_unbound_from_their_prompt_keep_what_is_bound_to_their_origin
                settled_elements_have_the_given_calls_and_results_of_the_server
                sendable_elements_are_not_rewritten_again
                digests_are_constant_and_tell_texts_apart
                an_origin_reads_its_own_reasoning
            }
            translated {
                statements_have_the_calls_and_results_of_the_index
                every_element_can_be_said_in_the_built_in_dialects
                conversations_of_other_dialects_can_be_said
            }
        }
    };
}

/// Creates a test for each rule of the contract of dialects.
///
/// The argument is an expression that returns [`Samples`](crate::dialect::Samples). Each test evaluates it again. To
/// test several dialects in one file, put each into its own module. The [suite's documentation](crate::dialect) has an
/// example.
#[macro_export]
macro_rules! dialect_tests {
    ($samples:expr $(,)?) => {
        $crate::__dialect_list! { [$crate::__dialect_groups] [$samples] }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __dialect_groups {
    ($samples:tt $($group:ident $rules:tt)+) => {
        $(mod $group {
            use super::*;
            $crate::__dialect_group! { $samples $group $rules }
        })+
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __dialect_group {
    ([$samples:expr] $group:ident { $($rule:ident)+ }) => {
        $(#[test]
        fn $rule() {
            $crate::dialect::$group::$rule(&$samples);
        })+
    };
}
