//! Rules of the order of roles, and of calls and their results.

use std::collections::HashSet;

use super::{
    Reason,
    request::{BlockAt, Group, Speaker},
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
pub(super) fn check_end(groups: &[Group<'_>], is_paused: impl Fn(&[BlockAt<'_>]) -> bool) -> Result<(), Reason> {
    let last = groups.last().filter(|last| last.speaker == Speaker::Assistant);
    match last {
        Some(last) if !is_paused(&last.blocks) => Err(Reason::Prefill),
        _ => Ok(()),
    }
}

/// Checks that each call has its result, and each result its call.
pub(super) fn check_calls(groups: &[Group<'_>]) -> Result<(), Reason> {
    // Settings may stand everywhere, and mean nothing here.
    let groups: Vec<&Group<'_>> = groups.iter().filter(|group| !group.blocks.is_empty()).collect();
    let mut seen = HashSet::new();
    let mut asked: Vec<&str> = Vec::new();

    for (at, group) in groups.iter().enumerate() {
        match group.speaker {
            Speaker::User => check_results(group, &std::mem::take(&mut asked))?,
            Speaker::System => {}
            Speaker::Assistant => {
                asked = calls(group, &mut seen)?;
                let next = groups.get(at + 1).filter(|next| next.speaker == Speaker::User);
                check_answered(group, &asked, next.copied())?;
            }
        }
    }
    check_server_tools(&groups)
}

fn calls<'a>(group: &Group<'a>, seen: &mut HashSet<&'a str>) -> Result<Vec<&'a str>, Reason> {
    let mut asked = Vec::new();
    for call in group.blocks.iter().filter(|block| block.kind() == "tool_use") {
        let id = call.text("id");
        if !seen.insert(id) {
            return Err(Reason::RepeatedCall { message: call.message, block: call.block });
        }
        asked.push(id);
    }
    Ok(asked)
}

/// Checks that the next message of the user begins with the results of all calls.
fn check_answered(group: &Group<'_>, asked: &[&str], next: Option<&Group<'_>>) -> Result<(), Reason> {
    let first = next.into_iter().flat_map(|next| &next.blocks).take_while(|block| block.kind() == "tool_result");
    let answered: HashSet<&str> = first.map(|result| result.text("tool_use_id")).collect();
    let ids: Vec<String> = asked.iter().filter(|id| !answered.contains(**id)).map(|id| (*id).to_owned()).collect();
    let message = group.blocks.last().map_or(group.first, |block| block.message);
    if ids.is_empty() { Ok(()) } else { Err(Reason::UnansweredCalls { message, ids }) }
}

fn check_results(group: &Group<'_>, asked: &[&str]) -> Result<(), Reason> {
    let mut answered = HashSet::new();
    for result in group.blocks.iter().filter(|block| block.kind() == "tool_result") {
        let BlockAt { message, block, .. } = *result;
        let id = result.text("tool_use_id");
        if !asked.contains(&id) {
            return Err(Reason::UnexpectedResult { message, block, id: id.to_owned() });
        }
        if !answered.insert(id) {
            return Err(Reason::RepeatedResult { message, block, id: id.to_owned() });
        }
    }
    Ok(())
}

/// Checks the calls that the provider executes itself. Their results are in the same turn of the model: the replies
/// between which there are only results of the program. The last turn may wait for them.
fn check_server_tools(groups: &[&Group<'_>]) -> Result<(), Reason> {
    let mut open: Vec<(&str, usize)> = Vec::new();
    for group in groups {
        if group.speaker != Speaker::Assistant {
            let continues = group.speaker == Speaker::User && group.blocks.iter().all(|it| it.kind() == "tool_result");
            match open.first() {
                Some((id, message)) if !continues => {
                    return Err(Reason::UnansweredServerCall { message: *message, id: (*id).to_owned() });
                }
                _ => {}
            }
            continue;
        }

        for placed in &group.blocks {
            let kind = placed.kind();
            if kind == "server_tool_use" || kind == "mcp_tool_use" {
                open.push((placed.text("id"), placed.message));
            } else if kind.ends_with("_tool_result") {
                let id = placed.text("tool_use_id");
                match open.iter().position(|(asked, _)| *asked == id) {
                    Some(at) => drop(open.remove(at)),
                    None => {
                        let BlockAt { message, block, .. } = *placed;
                        return Err(Reason::UnexpectedServerResult { message, block, id: id.to_owned() });
                    }
                }
            }
        }
    }
    Ok(())
}
