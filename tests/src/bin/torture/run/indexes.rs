//! Checks of the indexes for recall: a search returns what it returns over a fresh index of the same log.

use std::sync::Arc;

use test_providers::signing::SigningDialect;
use tower_chat_history::{
    BoxError, ConversationId, HistoryStore, HistoryStoreExt as _, MemoryStore, Message,
    recall::StoredIndex,
    store::{Append, Attach, Expect, Recorded, Revision},
};
use tower_chat_history_recall::{Ask, Found, Searched};

use super::verify;
use crate::{
    exchange::{Conversation, conversation_id, is_signed},
    index::{INDEXES, index},
};

/// The number of questions about each index.
const QUESTIONS: usize = 2;
/// The allowance of a search, in bytes.
const ALLOWANCE: u64 = 4_000;

/// Checks the indexes of all conversations, as the killed workers left them and after they are completed.
pub(super) async fn check(store: &Arc<dyn Attach>, conversations: Conversation, found: &mut verify::Found) {
    for conversation in 0..conversations {
        for number in 0..INDEXES {
            match one(store, conversation, number, found).await {
                Ok(()) => {}
                Err(error) => {
                    found.violations.push(format!("c{conversation}: the index {number} cannot be checked: {error}"));
                }
            }
        }
    }
}

async fn one(
    store: &Arc<dyn Attach>,
    conversation: Conversation,
    number: usize,
    found: &mut verify::Found,
) -> Result<(), BoxError> {
    let id = conversation_id(conversation)?;
    let log = store.conversation(&id).exchanges().await?;
    let Some(revision) = store.conversation(&id).revision().await? else { return Ok(()) };
    // A copy of the log, whose index is made without interruption.
    let copy = MemoryStore::new();
    for recorded in &log {
        if is_signed(conversation) {
            recorded.exchange.read_in(&SigningDialect)?;
        }
        copy.append(&id, Append::new(Expect::AnyOrCreate, (*recorded.exchange).clone())).await?;
    }
    let copied = copy.conversation(&id).revision().await?.ok_or("the copy is not there")?;
    let copy: Arc<dyn Attach> = Arc::new(copy);
    let fresh = index(&copy, number);
    let all = complete(&fresh, &id, copied).await?;
    let stored = index(store, number).scan_limit(usize::MAX);
    let mut wrong = Vec::new();
    for (state, count) in [("as it was left", 1), ("when it is complete", QUESTIONS)] {
        for question in questions(&log).take(count) {
            let expected = search(&fresh, &id, copied, question).await?;
            if search(&stored, &id, revision, question).await? != expected {
                wrong.push(format!("c{conversation}: the index {number} finds something else {state}"));
            }
            found.searches += u64::from(expected.is_some_and(|found| found.recalled.is_some()));
        }
        if state == "as it was left" {
            let left = complete(&stored, &id, revision).await?;
            found.blocks += u64::from(all.saturating_sub(left));
        }
    }
    if complete(&index(store, number), &id, revision).await? > 0 {
        wrong.push(format!("c{conversation}: the index {number} is not complete"));
    }
    found.violations.append(&mut wrong);
    Ok(())
}

/// Makes all steps of an index. Returns the number of blocks that were made.
async fn complete(index: &StoredIndex, id: &ConversationId, revision: Revision) -> Result<u32, BoxError> {
    let mut blocks = 0;
    loop {
        let step = index.index(id, revision, revision.next()).await?;
        blocks += step.blocks;
        if !step.more {
            return Ok(blocks);
        }
    }
}

/// Returns inputs that are spread over the log, as questions.
fn questions(log: &[Recorded]) -> impl Iterator<Item = &Message> {
    let every = (log.len() / QUESTIONS).max(1);
    log.iter().step_by(every).filter_map(|recorded| recorded.exchange.messages.first())
}

/// Searches the whole log. Returns nothing if there is nothing to search for.
async fn search(
    index: &StoredIndex,
    id: &ConversationId,
    revision: Revision,
    question: &Message,
) -> Result<Option<Found>, BoxError> {
    let ask = Ask {
        conversation: id,
        revision: Some(revision),
        before: revision.next(),
        input: &[Message::user(question.text())],
        already: &[],
        allowance: ALLOWANCE,
        cost: &|message| message.bytes() as u64,
    };
    match index.search(ask).await? {
        Searched::Found(found) => Ok(Some(found)),
        Searched::Nothing => Ok(None),
        other => Err(format!("unexpected answer: {other:?}").into()),
    }
}
