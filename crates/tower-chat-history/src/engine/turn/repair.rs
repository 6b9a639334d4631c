//! Planning a turn once more, after the provider refused elements that it cannot read any more.

use tracing::Instrument as _;

use super::{LoadedHistory, PlannedTurn, Turn, TurnState, context};

impl Turn {
    /// Returns `true` if [`repair`](Self::repair) can leave something out: the prompt has elements of the log that
    /// only the provider that made them can read.
    #[must_use]
    pub fn is_repairable(&self) -> bool {
        self.0.repairable.is_some()
    }

    /// Plans the turn once more without encrypted elements, after the provider refused the call because it could not
    /// read them. Of all stored replies, everything is left out that is [bound](crate::dialect::Bound) to its origin.
    /// If this returns `true`, call the model with the new [`context`](Self::context), within a new
    /// [`call_span`](Self::call_span). The turn has the same exchange id.
    ///
    /// If the exchange is stored, a [cut](crate::store::Positions::encrypted_from) is stored with it, so no later turn of the
    /// profile sends these elements. The report says [`WithoutEncrypted`](crate::report::Fallback::WithoutEncrypted).
    ///
    /// If another compaction was stored during the turn, the cut is stored in the background, after the exchange. The
    /// conversation's next turn in this engine waits for it, at most for the [store
    /// timeout](crate::HistoryOptions::store_timeout). If the cut is not stored by then, or if another process makes the
    /// next call, that call may be refused and repaired once more.
    ///
    /// Returns `false` if the turn is not [repairable](Self::is_repairable), if it was repaired before, or if it cannot
    /// be planned without these elements, for example because the prompt does not fit. The reason is then logged, and
    /// the context is unchanged. `error_type` is recorded in the span
    /// of the model call that failed, as by [`fail`](Self::fail).
    pub async fn repair(&mut self, error_type: &str) -> bool {
        let Some(loaded) = self.0.repairable.take().and_then(|loaded| loaded.repaired()) else { return false };
        if let Some(call) = self.0.model_call.take() {
            call.failed(error_type);
        }
        let span = self.span().clone();
        Box::pin(self.0.plan_again(&loaded)).instrument(span).await
    }
}

impl TurnState {
    async fn plan_again(&mut self, loaded: &LoadedHistory) -> bool {
        self.call.input = self.context[self.window_len..].to_vec();
        let mut planned = match self.call.plan(loaded).await {
            Ok(planned) => planned,
            Err(error) => {
                let kind = error.kind();
                tracing::warn!(error.type = kind, "the provider cannot read encrypted elements, and the call cannot be \
                    planned without them");
                return false;
            }
        };
        if let Some(recall) = &self.call.engine.shared.recall
            && let Some(found) = recall.before_call(&self.call, loaded.window.as_ref(), &planned.plan).await
        {
            planned.add_recalled(found);
        }
        let before = &mut self.planned;
        planned.summary = before.summary.take();
        planned.history.since_last = before.history.since_last;
        planned.history.window_start = before.history.window_start;
        planned.history.window_moved = before.history.window_moved;
        (self.window_len, self.context) = context(&mut self.call, &mut planned);
        (self.planned, self.repaired) = (planned, loaded.history().cut().map(|cut| cut.encrypted_from));
        tracing::warn!("the provider cannot read encrypted elements; the model is called again without them");
        true
    }
}

/// Returns `true` if the prompt has elements of the log that are bound to their origin.
pub(super) fn is_repairable(loaded: &LoadedHistory, planned: &PlannedTurn) -> bool {
    loaded.window.is_some() && planned.plan.fit.window.iter().any(|message| message.bound().to_origin)
}
