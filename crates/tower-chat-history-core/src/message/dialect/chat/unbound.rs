//! Replies without what is bound to a prompt or an origin.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::value::{RawValue, to_raw_value};

use super::reasoning::{BLOCKS, MAX_DEPTH, SIGNATURES, SIGNED, bound_of_calls, bound_of_list, bound_of_object, object};
use crate::{json, message::Message};

type Fields<'a> = BTreeMap<String, Cow<'a, RawValue>>;

/// Returns the message without signed and encrypted reasoning, or `None` if nothing is left.
///
/// A list with a signed element goes as a whole, because providers refuse a part of it. `reasoning` repeats the texts
/// of `reasoning_details` and goes with it: a gateway that makes unsigned thinking of it would cause a refusal.
/// `reasoning_content` always stays: DeepSeek and Moonshot require it, and it is never signed.
pub(super) fn unbound(message: &Message) -> Option<String> {
    let mut fields: Fields<'_> =
        message.fields().ok()?.into_iter().map(|(name, value)| (name, Cow::Borrowed(value))).collect();
    if fields.get("reasoning_details").is_some_and(|list| bound_of_list(list).can_be_removed()) {
        fields.remove("reasoning_details");
        fields.remove("reasoning");
    }
    remove_signed(&mut fields, 0)?;
    if let Some(calls) = fields.get("tool_calls").filter(|calls| bound_of_calls(calls).can_be_removed()) {
        let calls = calls_without_signatures(calls)?;
        fields.insert("tool_calls".to_owned(), Cow::Owned(calls));
    }
    let message = Message::from_serialize(&fields).ok()?;
    (!message.is_blank_reply()).then(|| message.json().to_owned())
}

/// Returns a list of calls without their signatures. Entries that are not objects stay as they are.
fn calls_without_signatures(calls: &RawValue) -> Option<Box<RawValue>> {
    let calls = json::raw_entries(calls.get()).unwrap_or_default();
    let calls: Option<Vec<Cow<'_, RawValue>>> = calls.into_iter().map(|call| without_signatures(call, 0)).collect();
    to_raw_value(&calls?).ok()
}

/// Returns an object without its signatures. Another value, and an object without signatures, stay as they are.
fn without_signatures(json: &RawValue, depth: usize) -> Option<Cow<'_, RawValue>> {
    if !bound_of_object(json).can_be_removed() {
        return Some(Cow::Borrowed(json));
    }
    let mut fields = object(json).into_iter().map(|(name, value)| (name, Cow::Borrowed(value))).collect();
    remove_signed(&mut fields, depth)?;
    to_raw_value(&fields).ok().map(Cow::Owned)
}

/// Removes the signatures and signed lists from the fields of an object and of the objects in it. An object that then
/// has no fields is removed, too.
fn remove_signed(fields: &mut Fields<'_>, depth: usize) -> Option<()> {
    fields.retain(|name, value| {
        let is_signed_list = BLOCKS.contains(&&**name) && bound_of_list(value).can_be_removed();
        !(is_signed_list || SIGNATURES.contains(&&**name))
    });
    if depth >= MAX_DEPTH {
        return Some(());
    }
    for name in SIGNED {
        let Some(value) = fields.get(name) else { continue };
        let Cow::Owned(less) = without_signatures(value, depth + 1)? else { continue };
        if object(&less).is_empty() {
            fields.remove(name);
        } else {
            fields.insert(name.to_owned(), Cow::Owned(less));
        }
    }
    Some(())
}
