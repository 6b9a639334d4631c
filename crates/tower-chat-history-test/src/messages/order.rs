//! Rules of the order of roles.

use super::{
    Reason,
    request::{Group, Placed, Speaker},
};

/// Checks the order of messages.
pub(super) fn check(groups: &[Group<'_>]) -> Result<(), Reason> {
    let Some(first) = groups.first() else { return Err(Reason::NoMessages) };
    let restarts = first.blocks.first().is_some_and(|block| block.kind() == "compaction");
    if first.speaker == Speaker::Assistant && !restarts {
        return Err(Reason::FirstMessage);
    }
    for (at, group) in groups.iter().enumerate().filter(|(_, group)| group.speaker == Speaker::System) {
        // A message with nothing but settings is accepted everywhere.
        let before = at.checked_sub(1).map(|before| groups[before].speaker);
        let after = groups.get(at + 1).map(|after| after.speaker);
        let is_placed = before == Some(Speaker::User) && matches!(after, None | Some(Speaker::Assistant));
        if !group.blocks.is_empty() && !is_placed {
            return Err(Reason::SystemMessage { message: group.first });
        }
    }
    Ok(())
}

/// Checks that the model is not to continue a reply that it did not pause.
pub(super) fn check_end(groups: &[Group<'_>], is_paused: impl Fn(&[Placed<'_>]) -> bool) -> Result<(), Reason> {
    let last = groups.last().filter(|last| last.speaker == Speaker::Assistant);
    match last {
        Some(last) if !is_paused(&last.blocks) => Err(Reason::Prefill),
        _ => Ok(()),
    }
}
