//! The marks for the cache.

use serde_json::Value;

use super::Reason;

/// The largest number of marks in a request.
const MAX_MARKS: usize = 4;

/// A mark for the cache.
pub(super) struct Mark {
    /// The place of the marked block, such as `messages.0.content.1`.
    place: String,
    /// `true` if the block is to stay in the cache for an hour, and not for five minutes.
    is_long: bool,
}

/// Returns the marks of a request, in the order in which the API processes the blocks.
pub(super) fn of(tools: &Value, system: &Value, messages: &[Value]) -> Vec<Mark> {
    let mut marks = Vec::new();
    of_list("tools", tools, &mut marks);
    of_list("system", system, &mut marks);
    for (position, message) in messages.iter().enumerate() {
        of_list(&format!("messages.{position}.content"), &message["content"], &mut marks);
    }
    marks
}

/// Adds the marks of these blocks. Blocks in the content of a result count, too.
fn of_list(place: &str, list: &Value, marks: &mut Vec<Mark>) {
    for (position, entry) in list.as_array().into_iter().flatten().enumerate() {
        marks.extend(own(entry, || format!("{place}.{position}")));
        for (inner, block) in entry["content"].as_array().into_iter().flatten().enumerate() {
            marks.extend(own(block, || format!("{place}.{position}.content.{inner}")));
        }
    }
}

fn own(entry: &Value, place: impl Fn() -> String) -> Option<Mark> {
    let mark = &entry["cache_control"];
    (!mark.is_null()).then(|| Mark { place: place(), is_long: mark["ttl"] == "1h" })
}

/// Checks the number of marks and their order. `automatic` is the mark of the request itself.
pub(super) fn check(marks: &[Mark], automatic: bool) -> Result<(), Reason> {
    let found = marks.len() + usize::from(automatic);
    if found > MAX_MARKS {
        return Err(Reason::CacheMarks { found });
    }
    let late = marks.iter().skip_while(|mark| mark.is_long).find(|mark| mark.is_long);
    late.map_or(Ok(()), |mark| Err(Reason::CacheOrder { place: mark.place.clone() }))
}
