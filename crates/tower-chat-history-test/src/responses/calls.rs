//! The rules of calls and outputs.

use super::{
    item::Item,
    refusal::{Reason, Refusal},
};

/// Checks that each call has one output of its kind after it.
pub(super) fn check(items: &[Item]) -> Result<(), Refusal> {
    let mut open = Vec::new();
    for (position, item) in items.iter().enumerate() {
        if let Some(call) = &item.calls {
            open.push((position, call));
        }
        if let Some(answered) = &item.answers {
            let Some(at) = open.iter().position(|(_, call)| *call == answered) else {
                return Err(Refusal::of_call(Reason::UnknownCall { position }, answered));
            };
            open.remove(at);
        }
    }
    match open.first() {
        Some((position, call)) => Err(Refusal::of_call(Reason::UnansweredCall { position: *position }, call)),
        None => Ok(()),
    }
}
