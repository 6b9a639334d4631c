//! Explaining the prompt of a stored reply.

use tower_chat_history_core::{
    ChatCompletions, ConversationId, Dialect, DialectName, Message, Provenance, Recorded, Seq,
};

use super::{
    Engine,
    count::Counting,
    turn::{Called, estimate, in_dialect, read_known},
};
use crate::{
    context::{
        RequestInfo,
        plan::explain::{self, ExplainInput},
    },
    error::HistoryError,
    explain::Explanation,
};

/// The data from which a prompt was made, in the dialect of its exchange.
struct PromptData {
    /// The exchanges of the window.
    exchanges: Vec<Recorded>,
    /// The positions of those that were translated, in order.
    translated: Vec<Seq>,
    /// The message of the summary.
    summary: Option<Message>,
}

impl Engine {
    /// Explains what the model saw when it made the reply at this position: which messages were sent, cleared or left
    /// out, and why. Returns `None` if the log has no exchange at this position.
    ///
    /// The prompt is made again from the log, and a digest proves that it is the one that was sent. The engine needs
    /// the [options](crate::ContextOptions) with which the prompt was made: the profile, the format of summaries, and the
    /// clearing of results. The exchanges before the window are not read. See the [module](crate::explain).
    ///
    /// ```
    /// use tower_chat_history::{
    ///     ConversationId, Engine, MemoryStore, Message, Reply, TurnInput, explain::{Fate, Subject}, store::Seq,
    /// };
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let engine = Engine::new(MemoryStore::new());
    /// let id = ConversationId::new(["acme", "user-42"])?;
    /// for question in ["Who is Tom?", "What does he chase?"] {
    ///     let turn = engine.begin(TurnInput::new(id.clone(), [Message::user(question)])).await?;
    ///     turn.commit(Reply::new(Message::assistant("…"))).await?;
    /// }
    ///
    /// let second = engine.explain(&id, Seq::new(1)).await?.ok_or("no such exchange")?;
    /// assert_eq!(second.sent().map(Message::text).collect::<Vec<_>>(), ["Who is Tom?", "…", "What does he chase?"]);
    /// let rows = second.prompt?;
    /// assert!(rows.iter().all(|row| row.fate == Fate::Sent));
    /// assert_eq!(rows[0].subject, Subject::Logged { seq: Seq::FIRST, index: 0, translated: false });
    /// assert_eq!(rows[2].subject, Subject::Input { index: 0 });
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`HistoryError::Load`], [`LoadTimeout`](HistoryError::LoadTimeout): the log or the summary cannot be read.
    /// - [`HistoryError::OtherDialect`]: an exchange is in a dialect that is not one of the
    ///   [options](crate::HistoryOptions::dialects).
    /// - [`HistoryError::Composed`]: a dialect cannot read its own message.
    ///
    /// That a prompt is not known is no error: see [`Explanation::prompt`].
    pub async fn explain(&self, conversation: &ConversationId, seq: Seq) -> Result<Option<Explanation>, HistoryError> {
        let page = self.bounded_store().read_bounded(conversation, seq, 1).await.map_err(HistoryError::Load)?;
        let found = page.exchanges.into_iter().next().filter(|found| found.seq == seq);
        let (Some(revision), Some(exchange)) = (page.revision, found) else { return Ok(None) };
        self.read_own(&ChatCompletions, conversation, std::slice::from_ref(&exchange))?;

        let (provenance, next) = match explain::provenance_of(&exchange.exchange) {
            Ok(found) => found,
            Err(reason) => return Ok(Some(Explanation { exchange, prompt: Err(reason) })),
        };
        let data = self.prompt_data(conversation, &exchange, provenance, next).await?;
        let counting = self.count_all(provenance, &data.exchanges, &exchange).await;

        let prompt = explain::explain(&ExplainInput {
            explained: &exchange,
            exchanges: &data.exchanges,
            translated: &data.translated,
            first: revision.first(),
            summary: data.summary.as_ref(),
            clear: self.options().context.clear_results.as_ref(),
            cost: &|message| counting.message(message),
        });
        Ok(Some(Explanation { exchange, prompt }))
    }

    /// Reads the data of this exchange's prompt. `next` was the log's next position when the prompt was made.
    async fn prompt_data(
        &self,
        conversation: &ConversationId,
        explained: &Recorded,
        provenance: &Provenance,
        next: Seq,
    ) -> Result<PromptData, HistoryError> {
        let dialect = explained.exchange.messages.iter().find_map(Message::dialect).unwrap_or(&ChatCompletions);
        let mut exchanges = self.read_log(conversation, provenance.cut.window_start, next).await?;
        self.read_own(dialect, conversation, &exchanges)?;

        let translations = in_dialect(Called { dialect, origin: &provenance.origin }, &mut exchanges).await?;
        let translated = translations.iter().flat_map(|found| found.translated()).collect();

        let summary = self.summary_of(conversation, dialect, provenance.cut.covers_to).await?;
        Ok(PromptData { exchanges, translated, summary })
    }

    /// Counts the tokens of all these messages, for the model of the prompt.
    async fn count_all(&self, provenance: &Provenance, exchanges: &[Recorded], explained: &Recorded) -> Counting {
        let counter = self.options().context.token_counter.clone();
        let counter = counter.unwrap_or_else(|| estimate(provenance.origin.model.as_deref()));
        let counting = Counting::new(&self.shared.counts, counter);

        let messages = exchanges.iter().chain([explained]).flat_map(|recorded| &recorded.exchange.messages);
        counting.prompt(&RequestInfo::new(), messages, &[]).await;
        counting
    }

    /// Reads the exchanges between two positions.
    async fn read_log(&self, conversation: &ConversationId, from: Seq, to: Seq) -> Result<Vec<Recorded>, HistoryError> {
        let store = self.bounded_store();
        let limit = self.options().context.load_limit;

        let mut read = Vec::new();
        let mut next = from;
        while next < to {
            let rest = usize::try_from(to.get() - next.get()).unwrap_or(usize::MAX);
            let page = store.read_bounded(conversation, next, rest.min(limit.messages())).await;
            let exchanges = page.map_err(HistoryError::Load)?.exchanges;
            // If the log was pruned, a page can begin later, and after the end.
            let Some(last) = exchanges.last() else { break };
            next = last.seq.next();
            read.extend(exchanges.into_iter().filter(|recorded| recorded.seq < to));
        }
        Ok(read)
    }

    /// Reads exchanges in their own dialects.
    fn read_own(
        &self,
        dialect: &'static dyn Dialect,
        conversation: &ConversationId,
        exchanges: &[Recorded],
    ) -> Result<(), HistoryError> {
        exchanges.iter().try_for_each(Recorded::check_unsealed).map_err(HistoryError::Load)?;
        read_known(self.options(), dialect, conversation, exchanges)
    }

    /// Returns the message of the summary of the exchanges before this position, if it is stored. The newest cut and
    /// the one that it replaced have theirs.
    async fn summary_of(
        &self,
        conversation: &ConversationId,
        dialect: &'static dyn Dialect,
        covers_to: Seq,
    ) -> Result<Option<Message>, HistoryError> {
        if covers_to == Seq::FIRST {
            return Ok(None);
        }
        let Some(cuts) = self.bounded_store().cuts(conversation).await? else { return Ok(None) };
        let mut cuts = [Some(&cuts.cut), cuts.replaced.as_deref()].into_iter().flatten();
        let cut = cuts.find(|cut| cut.covers_to == covers_to);
        let Some(summary) = cut.and_then(|cut| cut.summary.as_ref()) else { return Ok(None) };

        let message = self.options().context.summary_format.message_in(dialect, &summary.text);
        message.map(Some).map_err(|source| HistoryError::Composed { dialect: DialectName::of(dialect), source })
    }
}
