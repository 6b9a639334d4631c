//! Recall: showing messages again that left the window, and preparing later searches.
//!
//! # Decisions
//!
//! - **Recalled messages are one user message before the input, with a constant reply.** They're stored with the
//!   exchange and repeated in later prompts, so each prompt begins with the one before. In the head, a hit would change
//!   the beginning of every later prompt.
//! - **A compaction leaves out the recalled messages of earlier turns first.** If the prompt then fits, the window
//!   doesn't move.
//! - **A quarter of their allowance is reserved.** Just before a compaction no tokens are free, and nothing could be
//!   recalled. A call that doesn't fit is planned again without recalled messages.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use tokio::{sync::Semaphore, time::timeout};
use tokio_util::task::TaskTracker;
use tower_chat_history_core::{Citation, ConversationId, Dialect, Message, Prefix, Recalled, Revision, Role, Seq};
use tracing::{Instrument as _, Span};

use super::{count::Counting, running::RunningWork};
use crate::{
    context::{
        bridge::UNDERSTOOD,
        plan::{LoadedWindow, Plan, Recallable},
        tokens::TokenCounter as _,
    },
    recall::{LEAST_ALLOWANCE, PrepareRequest, RecallError, RecallOptions, RecallRequest, Recollection},
    report::{RecallOutcome, RecallReport},
    telemetry::{self, RecallStep, Recorder},
};

/// Recalls messages for calls, and prepares later searches.
pub(super) struct RecallWorker {
    options: RecallOptions,
    recorder: Recorder,
    running: Arc<RunningWork<()>>,
    /// One permit for each preparation that may run.
    permits: Arc<Semaphore>,
    unfinished: Arc<Unfinished>,
}

/// The conversations whose last preparation runs, failed or has work left. It only saves time: a conversation that is
/// forgotten is prepared when its window moves again.
#[derive(Default)]
struct Unfinished(Mutex<HashSet<ConversationId>>);

impl Unfinished {
    /// The largest number of conversations. One more clears the set.
    const MAX: usize = 4_096;

    fn has(&self, id: &ConversationId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(id)
    }

    fn set(&self, id: &ConversationId, is_unfinished: bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_unfinished {
            all.remove(id);
            return;
        }
        if all.len() >= Self::MAX {
            all.clear();
        }
        all.insert(id.clone());
    }

    fn forget(&self, under: &Prefix) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|id| !under.contains(id));
    }
}

/// A call that is planned, for which messages are searched.
pub(super) struct Search<'a> {
    pub(super) conversation: &'a ConversationId,
    pub(super) dialect: &'static dyn Dialect,
    pub(super) input: &'a [Message],
    /// The window. There is none if the conversation does not exist yet.
    pub(super) window: Option<&'a LoadedWindow>,
    pub(super) plan: &'a Plan,
    pub(super) counting: &'a Counting,
    /// The turn's span.
    pub(super) span: &'a Span,
}

impl Search<'_> {
    /// Returns the size of the constant reply to the messages that are shown again.
    fn reply_tokens(&self) -> u64 {
        let reply = Message::compose(self.dialect, &Role::Assistant, UNDERSTOOD);
        reply.map_or(0, |reply| self.counting.message(&reply))
    }
}

/// The result of a search for a call.
pub(super) struct RecallResult {
    /// The messages to show again, if there are any.
    pub(super) recalled: Option<Recalled>,
    pub(super) report: RecallReport,
    /// True if exchanges before the window are not prepared, or may not be, because the search took too long.
    pub(super) has_unprepared: bool,
}

impl RecallWorker {
    pub(super) fn new(options: RecallOptions, recorder: Recorder, tasks: TaskTracker) -> Self {
        let permits = Arc::new(Semaphore::new(options.max_preparations.min(Semaphore::MAX_PERMITS)));
        Self { options, recorder, running: Arc::new(RunningWork::new(tasks)), permits, unfinished: Arc::default() }
    }

    /// Forgets the conversations under the prefix.
    pub(super) fn forget(&self, under: &Prefix) {
        self.unfinished.forget(under);
        self.options.recall.forget(under);
    }

    /// Returns the number of conversations for which a preparation is running.
    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    /// Searches messages to show before the input of a call. Returns `None` if the plan has no room for any, or if the
    /// prompt contains all that can be searched.
    pub(super) async fn search(&self, search: Search<'_>) -> Option<RecallResult> {
        let Recallable { before, room } = search.plan.recallable?;
        let budget = search.plan.budget.filter(|_| room.is_some());
        let limit = budget.map(|budget| budget.limit());
        let room = room.map_or(u64::MAX, |room| room.saturating_sub(search.reply_tokens()));
        let allowance = self.options.allowance(limit.filter(|limit| *limit < u64::MAX)).min(room);
        if allowance < LEAST_ALLOWANCE {
            return None;
        }

        let shown = search.window.map_or_else(Vec::new, |window| shown(window, search.plan, before));
        // A search writes messages of chat completions. They count as the message that is sent.
        let cost = |message: &Message| match message.dialect() {
            Some(dialect) if dialect.name() != search.dialect.name() => {
                let composed = Message::compose(search.dialect, &Role::User, message.text());
                search.counting.message(composed.as_ref().unwrap_or(message))
            }
            _ => search.counting.message(message),
        };
        let request = RecallRequest {
            conversation: search.conversation,
            revision: search.window.map(|window| window.revision),
            before,
            dialect: search.dialect,
            input: search.input,
            shown: &shown,
            allowance,
            cost: &cost,
            timeout: self.options.timeout,
        };

        let step = RecallStep::of(&self.recorder, search.span);
        let begun = Instant::now();
        let found = timeout(self.options.timeout, self.options.recall.recall(request));
        let found = match found.instrument(step.span().clone()).await {
            Ok(found) => found.and_then(|found| checked(found, &request)),
            Err(_) => Err(RecallError::TimedOut(self.options.timeout)),
        };
        let result = result(found, search.counting, allowance, begun);
        step.ended(&result.report);
        Some(result)
    }

    /// Returns `true` if the conversation's last preparation runs, failed or has work left.
    pub(super) fn is_unfinished(&self, conversation: &ConversationId) -> bool {
        self.unfinished.has(conversation)
    }

    /// Prepares later searches in the background. If a preparation is already running, or too many of other
    /// conversations are, a later turn continues its work.
    pub(super) fn prepare(
        &self,
        conversation: &ConversationId,
        dialect: &'static dyn Dialect,
        revision: Revision,
        before: Seq,
        span: &Span,
    ) {
        if before <= revision.first() {
            return;
        }
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            self.unfinished.set(conversation, true);
            return;
        };
        let recall = Arc::clone(&self.options.recall);
        let limit = self.options.prepare_timeout;
        let unfinished = Arc::clone(&self.unfinished);
        let id = conversation.clone();
        // The work does not enter the turn's span, which would otherwise end with the work.
        let turn = span.clone();
        let work = async move {
            let _permit = permit;
            let span = telemetry::prepare(&turn);
            let request = PrepareRequest { conversation: &id, dialect, revision, before };
            // It stays unfinished if it panics.
            unfinished.set(&id, true);
            let error = match timeout(limit, recall.prepare(request)).instrument(span.clone()).await {
                Ok(Ok(has_work_left)) => {
                    unfinished.set(&id, has_work_left);
                    return Some(());
                }
                Ok(Err(error)) => error,
                Err(_) => RecallError::TimedOut(limit),
            };
            let _entered = span.enter();
            telemetry::fail(&span, error.kind());
            tracing::warn!(
                error.type = error.kind(),
                error = error.cause(),
                "searches could not be prepared; a later turn retries"
            );
            None
        };
        let _ = self.running.run(conversation, work);
    }
}

/// Returns the messages that the planned prompt already shows again.
fn shown(window: &LoadedWindow, plan: &Plan, before: Seq) -> Vec<Citation> {
    let from = plan.fit.cut.as_ref().or(window.cut()).map_or(Seq::FIRST, |cut| cut.recalled_from);
    let sent = window.exchanges.iter().filter(|recorded| recorded.seq >= from.max(before));
    let recalled = sent.filter_map(|recorded| recorded.exchange.recalled.as_ref());
    recalled.flat_map(|recalled| &recalled.citations).cloned().collect()
}

/// Checks the result of a search, which may come from a program's own code, and composes the message in the dialect of
/// the call.
fn checked(mut found: Recollection, request: &RecallRequest<'_>) -> Result<Recollection, RecallError> {
    let Some(Recalled { message, citations, .. }) = &mut found.recalled else { return Ok(found) };
    let text = message.text();
    let composed = Message::compose(request.dialect, &Role::User, &*text).map_err(RecallError::Composed)?;
    if text.trim().is_empty() || *message != composed && *message != Message::user(&*text) {
        return Err(RecallError::NotAUserMessage);
    }
    *message = composed;

    if citations.len() > RecallError::MAX_CITATIONS || citations.iter().any(|citation| citation.messages.is_empty()) {
        return Err(RecallError::Citations { citations: citations.len() });
    }
    for citation in &*citations {
        let is_own = citation.conversation.as_ref().is_none_or(|id| id == request.conversation);
        if is_own && citation.seq >= request.before {
            return Err(RecallError::InWindow { cited: citation.seq, before: request.before });
        }
    }

    let tokens = (request.cost)(message);
    if tokens > request.allowance {
        return Err(RecallError::TooLarge { tokens, allowance: request.allowance });
    }
    Ok(found)
}

fn result(
    found: Result<Recollection, RecallError>,
    counting: &Counting,
    allowance: u64,
    begun: Instant,
) -> RecallResult {
    let mut report = RecallReport {
        outcome: RecallOutcome::Nothing,
        exchanges: 0,
        messages: 0,
        tokens: 0,
        allowance,
        best_score: None,
        conversations: 0,
        failed_conversations: 0,
        is_incomplete: false,
        took: begun.elapsed(),
    };
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(
                error.type = error.kind(),
                error = error.cause(),
                "calling the model without recalled messages: the search failed"
            );
            let has_unprepared = matches!(error, RecallError::TimedOut(_));
            report.outcome = RecallOutcome::Failed(Arc::new(error));
            return RecallResult { recalled: None, report, has_unprepared };
        }
    };

    report.conversations = found.conversations;
    report.failed_conversations = found.failed_conversations;
    report.is_incomplete = found.is_incomplete;
    report.best_score = found.best_score;
    let mut recalled = found.recalled;
    if let Some(recalled) = &mut recalled {
        recalled.tokens = counting.counter_name().map(|_| counting.count_message(&recalled.message));
        report.outcome = RecallOutcome::Shown;
        report.tokens = counting.message(&recalled.message);
        report.exchanges = recalled.citations.chunk_by(Citation::same_exchange).count();
        report.messages = recalled.citations.iter().map(|citation| citation.messages.len()).sum();
    }
    RecallResult { recalled, report, has_unprepared: found.unprepared > 0 }
}

#[cfg(test)]
mod tests {
    use test_providers::signing::SigningDialect;
    use tower_chat_history_core::{CallId, ChatCompletions, Incarnation, Index, MessageError, Part};

    use super::*;

    /// Checks a message that a search returns for a call in this dialect. Returns the message that is sent.
    fn sent(dialect: &'static dyn Dialect, message: Message) -> Result<Message, RecallError> {
        let id = ConversationId::new(["recall"]).unwrap();
        let revision = Revision::new(Incarnation::random(), 1);
        let cost = |_: &Message| 10;
        let request = RecallRequest::new(&id, Some(revision), Seq::new(9), &[], 10, &cost).dialect(dialect);
        let mut recalled = Recalled::new("", vec![Citation::new(Seq::FIRST, 0..1)]);
        recalled.message = message;
        checked(Recollection::shown(recalled), &request).map(|found| found.recalled.unwrap().message)
    }

    /// A dialect that cannot read what it composes.
    #[derive(Debug)]
    struct Broken;

    impl Dialect for Broken {
        fn name(&self) -> &'static str {
            "test/broken"
        }

        fn index(&self, _: &str) -> Result<Index, MessageError> {
            Err(MessageError::new("it cannot be read"))
        }

        fn parts<'m>(&self, _: &'m Message, _: &mut dyn FnMut(Part<'m>)) {}

        fn compose(&self, _: &Role, _: &str) -> String {
            "0".to_owned()
        }

        fn abandoned(&self, _: &CallId) -> String {
            "0".to_owned()
        }

        fn cleared(&self, _: &Message, _: &dyn Fn(&CallId) -> bool, _: &str) -> Option<String> {
            None
        }
    }

    #[test]
    fn a_message_that_the_dialect_cannot_read_is_an_error() {
        let error = sent(&Broken, Message::user("said")).unwrap_err();
        assert!(matches!(&error, RecallError::Composed(_)), "{error}");
        assert_eq!(error.kind(), "composed");
    }

    #[test]
    fn recalled_messages_are_sent_in_the_dialect_of_the_call() {
        let of = |dialect, role: &Role, text: &str| Message::compose(dialect, role, text).unwrap();
        let signing = of(&SigningDialect, &Role::User, "said");
        assert_eq!(sent(&SigningDialect, Message::user("said")).unwrap(), signing);
        assert_eq!(sent(&SigningDialect, signing.clone()).unwrap(), signing);
        assert_eq!(sent(&ChatCompletions, Message::user("said")).unwrap(), Message::user("said"));
        for (dialect, message) in [
            (&ChatCompletions as &'static dyn Dialect, signing),
            (&ChatCompletions, Message::assistant("said")),
            (&SigningDialect, of(&SigningDialect, &Role::Assistant, "said")),
            (&SigningDialect, of(&SigningDialect, &Role::User, " ")),
        ] {
            assert!(matches!(sent(dialect, message), Err(RecallError::NotAUserMessage)));
        }
    }
}
