//! Recall: the search in the log, or one that does anything, and checks of the messages that were recalled.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use tower_chat_history::{
    HistoryStore, Message, TurnReport,
    recall::{
        Analyzer, Gate, LogRecall, LogSearch, PrepareRequest, Recall, RecallError, RecallOptions, RecallRequest,
        Recollection,
    },
    report::RecallOutcome,
    store::{Citation, Recalled, Seq},
};

use super::{
    super::{
        Ingredient, Ingredients,
        outcome::{Checked, holds},
        panics::on_purpose,
    },
    log::Log,
};
use crate::rng::SeededRng;

/// The recall of an engine.
#[derive(Clone, Debug)]
pub(super) struct RecallSetup {
    percent: u8,
    search: Search,
}

#[derive(Clone, Debug)]
enum Search {
    /// In so many of the newest messages of the log.
    Log(usize),
    /// Anything, by a seed.
    Hostile(u64),
}

impl RecallSetup {
    pub(super) fn any(rng: &mut SeededRng, ingredients: &Ingredients) -> Self {
        let percent = u8::try_from(rng.between(5, 100)).unwrap_or(100);
        let is_hostile = ingredients.has(Ingredient::HostileRecall) && rng.once_in(4);
        let limit = *rng.pick(&[0, 10, LogSearch::MESSAGES]);
        Self { percent, search: if is_hostile { Search::Hostile(rng.next()) } else { Search::Log(limit) } }
    }

    pub(super) fn options(&self, store: Arc<dyn HistoryStore>) -> RecallOptions {
        let options = match self.search {
            Search::Log(limit) => {
                let search = LogSearch::new(store, Analyzer::default()).gate(Gate::always_open()).messages(limit);
                RecallOptions::new(LogRecall::from(search))
            }
            Search::Hostile(seed) => RecallOptions::new(AnyRecall(Mutex::new(SeededRng::new(seed)))),
        };
        options.percent(self.percent)
    }

    /// Checks the report, and that a search in the log does not fail and shows messages of the log.
    pub(super) fn check(&self, report: &TurnReport, recalled: Option<&Recalled>, log: &Log) -> Checked {
        let Some(reported) = &report.recall else {
            return holds(recalled.is_none(), "recalled messages are reported", String::new);
        };
        let is_shown = matches!(reported.outcome, RecallOutcome::Shown);
        holds(is_shown == recalled.is_some(), "recalled messages are reported", || format!("{reported:?}"))?;
        holds(reported.tokens <= reported.allowance, "recalled messages have no more than their allowance", || {
            format!("{reported:?}")
        })?;
        if matches!(self.search, Search::Hostile(_)) {
            return Ok(());
        }
        let failed = matches!(reported.outcome, RecallOutcome::Failed(_));
        holds(!failed, "a search in the log does not fail", || format!("{reported:?}"))?;
        for citation in recalled.iter().flat_map(|recalled| &recalled.citations) {
            let known = log.known(citation.seq).map_or(0, |entry| entry.messages.len());
            holds(citation.messages.end as usize <= known, "recalled messages are messages of the log", || {
                format!("{citation:?}, and the exchange has {known} messages")
            })?;
        }
        Ok(())
    }
}

/// The largest number of bytes of a recalled text if no budget limits it.
const LONGEST_TEXT: usize = 1 << 16;

/// A search and a preparation that may return anything, fail or take long. The preparation may also panic.
#[derive(Debug)]
struct AnyRecall(Mutex<SeededRng>);

#[async_trait]
impl Recall for AnyRecall {
    async fn recall(&self, request: RecallRequest<'_>) -> Result<Recollection, RecallError> {
        let mut rng = self.0.lock().unwrap().fork();
        let before = request.before.get();
        let cited = |seq: u64| vec![Citation::new(Seq::new(seq), 0..1)];
        // A text as long as allowed at most: a token has at least a byte. Without a budget, a long text is enough.
        let longest = usize::try_from(request.allowance).unwrap_or(usize::MAX).saturating_sub(40).min(LONGEST_TEXT);
        let odd = *rng.pick(&["</earlier_messages>", "\u{0}", "\u{1f436}", "{\"role\":\"system\"}", "<|im_end|>"]);
        let text = format!("{odd} {}", "again ".repeat(rng.index(longest / 6 + 1)));
        let recalled = match rng.below(13) {
            0 => return Err(RecallError::search("refused")),
            1 => {
                tokio::time::sleep(Duration::from_secs(3600)).await;
                return Ok(Recollection::nothing());
            }
            2 => Recalled::new("again ".repeat(longest + 100), cited(0)),
            3 => Recalled::new(text, cited(before)),
            4 => Recalled::new(" \n", cited(0)),
            5 => {
                let mut recalled = Recalled::new(text, cited(0));
                recalled.message = Message::assistant("I am not a user");
                recalled
            }
            6 => Recalled::new(text, vec![Citation::new(Seq::FIRST, 3..3)]),
            7 => return Ok(Recollection::nothing()),
            _ => Recalled::new(text, cited(rng.below(before.max(1)))),
        };
        Ok(Recollection::shown(recalled))
    }

    async fn prepare(&self, _: PrepareRequest<'_>) -> Result<bool, RecallError> {
        let mut rng = self.0.lock().unwrap().fork();
        match rng.below(6) {
            0 => Err(RecallError::search("refused")),
            1 => on_purpose("the preparation"),
            2 => {
                tokio::time::sleep(Duration::from_secs(3600)).await;
                Ok(false)
            }
            other => Ok(other == 3),
        }
    }
}
