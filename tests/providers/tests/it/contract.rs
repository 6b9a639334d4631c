//! The signing provider's dialect keeps the contract of dialects, and the suite finds dialects that do not.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use test_providers::signing::SigningDialect;
use tower_chat_history_conformance::{
    dialect::{Samples, changed::*, reading::*, written::*},
    dialect_tests,
};
use tower_chat_history_core::{
    CallId, Closes, Dialect, Digest, Index, Message, MessageError, Origin, Part, PartKinds, Role,
};

mod kept {
    use super::*;

    dialect_tests! { samples(&SigningDialect) }
}

fn samples(dialect: &'static dyn Dialect) -> Samples {
    Samples::new(dialect)
    .element(r#"{"from":"system","text":"Be brief."}"#)
    .element(r#"{"from":"user","text":"What is new?","mark":1.50}"#)
    .element(r#"{"from":"user","results":[{"to":"x","kind":"f","text":"1"}]}"#)
    .element(r#"{"from":"user","results":[{"to":"x","kind":"f","text":"1"},{"to":"x","kind":"g","text":"2"},{"to":"x","kind":"f","text":"3"}],"text":"And now?"}"#)
    .element(r#"{"from":"user","results":[],"text":"Hi"}"#)
    .element(r#"{"from":"model","text":"Nothing."}"#)
    .element(r#"{"from":"model","call":{"id":"x","kind":"f","name":"look","input":"?"}}"#)
    .element(r#"{"from":"model","call":{"id":"x","kind":"g","name":"look","input":"?"}}"#)
    .element(r#"{"from":"model","thinking":"Hm","signature":"00"}"#)
    .element(r#"{"from":"model","thinking":"Hm","signature":"00","text":"Yes."}"#)
    .element(r#"{"from":"model","plan":"a","next":true}"#)
    .element(r#"{"from":"model","sealed":"a","by":"acme"}"#)
    .element(r#"{"from":"model","sealed":"a","by":"acme","compacts":true}"#)
    .element(r#"{"from":"model","thinking":"Hm","signature":"00","sealed":"a","by":"acme","compacts":true}"#)
    .unknown(r#"{"from":"?","level":1.50}"#)
}

/// A fault of a dialect.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    EmptyName,
    UnknownIsRefused,
    UnknownIsUser,
    SaysNothing,
    UserCalls,
    ResultsClose,
    EscapesAreRefused,
    DepthIsRefused,
    IndexChanges,
    PartsLackCalls,
    IndexHasMedia,
    ComposesNothing,
    ComposesForUser,
    AbandonsAnotherCall,
    AbandonedChanges,
    AnswersNothing,
    AnswersAll,
    ClearsAll,
    ClearsNothing,
    KeepsBound,
    UnboundIsNothing,
    UnboundForgets,
    SendsEmpty,
    SendsOther,
    DigestIsConstant,
    DigestChanges,
    ReadsNothing,
}

/// The signing dialect with a fault.
#[derive(Debug)]
struct Faulty {
    fault: Fault,
    calls: AtomicUsize,
}

impl Faulty {
    fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    /// Returns another number in each call.
    fn count(&self) -> usize {
        self.calls.fetch_add(1, Relaxed)
    }
}

impl Dialect for Faulty {
    fn name(&self) -> &'static str {
        if self.is(Fault::EmptyName) { "" } else { SigningDialect.name() }
    }

    fn index(&self, json: &str) -> Result<Index, MessageError> {
        let mut index = SigningDialect.index(json)?;
        let is_refused = match self.fault {
            Fault::UnknownIsRefused => matches!(index.role, Role::Other(_)),
            Fault::EscapesAreRefused => json.contains("\\u0"),
            Fault::DepthIsRefused => json.contains("[[["),
            _ => false,
        };
        if is_refused {
            return Err(MessageError::new("refused"));
        }
        match self.fault {
            Fault::UnknownIsUser if matches!(index.role, Role::Other(_)) => index.role = Role::User,
            Fault::SaysNothing => index.is_blank = true,
            Fault::UserCalls if index.role == Role::Assistant => index.role = Role::User,
            Fault::ResultsClose => index.closes = Closes::Always,
            Fault::IndexChanges => index.is_rewritten = self.count().is_power_of_two(),
            Fault::IndexHasMedia => {
                let mut kinds = PartKinds::default();
                kinds.has_media = true;
                index.part_kinds = Some(kinds);
            }
            _ => {}
        }
        Ok(index)
    }

    fn parts<'m>(&self, message: &'m Message, visit: &mut dyn FnMut(Part<'m>)) {
        SigningDialect.parts(message, &mut |part| {
            if !(self.is(Fault::PartsLackCalls) && matches!(part, Part::Call(_))) {
                visit(part);
            }
        });
    }

    fn compose(&self, role: &Role, text: &str) -> String {
        match self.fault {
            Fault::ComposesNothing => SigningDialect.compose(role, ""),
            Fault::ComposesForUser => SigningDialect.compose(&Role::User, text),
            _ => SigningDialect.compose(role, text),
        }
    }

    fn abandoned(&self, call: &CallId) -> String {
        match self.fault {
            Fault::AbandonsAnotherCall => SigningDialect.abandoned(&CallId::new(call.space(), "other")),
            Fault::AbandonedChanges => SigningDialect::results([(call, &*self.count().to_string())], None),
            _ => SigningDialect.abandoned(call),
        }
    }

    fn cleared(&self, message: &Message, clears: &dyn Fn(&CallId) -> bool, placeholder: &str) -> Option<String> {
        match self.fault {
            Fault::ClearsAll => SigningDialect.cleared(message, &|_| true, placeholder),
            Fault::ClearsNothing => None,
            _ => SigningDialect.cleared(message, clears, placeholder),
        }
    }

    fn answering(&self, message: &Message, kept: &[CallId]) -> Option<String> {
        match self.fault {
            Fault::AnswersNothing => None,
            Fault::AnswersAll => Some(message.json().to_owned()),
            _ => SigningDialect.answering(message, kept),
        }
    }

    fn unbound(&self, message: &Message) -> Option<String> {
        match self.fault {
            Fault::KeepsBound => Some(message.json().to_owned()),
            Fault::UnboundIsNothing => None,
            _ => SigningDialect.unbound(message),
        }
    }

    fn unbound_from_prompt(&self, message: &Message) -> Option<String> {
        match self.fault {
            Fault::UnboundForgets => SigningDialect.unbound(message),
            _ => SigningDialect.unbound_from_prompt(message),
        }
    }

    fn sendable(&self, message: &Message) -> String {
        match self.fault {
            Fault::SendsEmpty => message.json().to_owned(),
            Fault::SendsOther => SigningDialect.compose(message.role(), "other"),
            _ => SigningDialect.sendable(message),
        }
    }

    fn digest(&self, json: &str) -> Digest {
        match self.fault {
            Fault::DigestIsConstant => Digest::default(),
            Fault::DigestChanges => Digest::of(&self.count().to_le_bytes()),
            _ => SigningDialect.digest(json),
        }
    }

    fn reads(&self, made_by: &Origin, reader: &Origin) -> bool {
        !self.is(Fault::ReadsNothing) && SigningDialect.reads(made_by, reader)
    }
}

#[test]
fn dialects_with_a_fault_are_found() {
    let table: [(Fault, fn(&Samples)); 27] = [
        (Fault::EmptyName, the_name_is_legal_and_constant),
        (Fault::UnknownIsRefused, elements_of_unknown_kinds_are_read),
        (Fault::UnknownIsUser, elements_of_unknown_kinds_are_read),
        (Fault::SaysNothing, an_element_that_says_nothing_has_nothing_to_say),
        (Fault::UserCalls, the_index_is_that_of_one_role),
        (Fault::ResultsClose, the_index_is_that_of_one_role),
        (Fault::EscapesAreRefused, the_index_does_not_depend_on_the_spelling),
        (Fault::DepthIsRefused, the_index_does_not_depend_on_the_depth),
        (Fault::IndexChanges, the_index_is_that_of_one_role),
        (Fault::PartsLackCalls, parts_have_the_calls_and_results_of_the_index),
        (Fault::IndexHasMedia, part_kinds_of_the_index_are_those_of_the_parts),
        (Fault::ComposesNothing, composed_texts_are_read_back),
        (Fault::ComposesForUser, composed_texts_are_read_back),
        (Fault::AbandonsAnotherCall, abandoned_calls_get_a_constant_result),
        (Fault::AbandonedChanges, abandoned_calls_get_a_constant_result),
        (Fault::AnswersNothing, answering_keeps_the_given_results),
        (Fault::AnswersAll, answering_keeps_the_given_results),
        (Fault::ClearsAll, cleared_results_have_the_placeholder),
        (Fault::ClearsNothing, cleared_results_have_the_placeholder),
        (Fault::KeepsBound, unbound_elements_keep_calls_results_and_texts),
        (Fault::UnboundIsNothing, unbound_elements_keep_calls_results_and_texts),
        (Fault::UnboundForgets, elements_unbound_from_their_prompt_keep_what_is_bound_to_their_origin),
        (Fault::SendsEmpty, sendable_elements_are_not_rewritten_again),
        (Fault::SendsOther, sendable_elements_are_not_rewritten_again),
        (Fault::DigestIsConstant, digests_are_constant_and_tell_texts_apart),
        (Fault::DigestChanges, digests_are_constant_and_tell_texts_apart),
        (Fault::ReadsNothing, an_origin_reads_its_own_reasoning),
    ];
    for (fault, rule) in table {
        let dialect: &'static Faulty = Box::leak(Box::new(Faulty { fault, calls: AtomicUsize::new(0) }));
        let samples = samples(dialect);
        assert!(catch_unwind(AssertUnwindSafe(|| rule(&samples))).is_err(), "the rule did not find {fault:?}");
    }
}

#[test]
#[should_panic(expected = "the samples lack")]
fn samples_without_results_are_refused() {
    the_samples_have_every_role(&Samples::new(&SigningDialect).element(r#"{"from":"user","text":"Hi"}"#));
}
