//! The options of one call.

use std::fmt;

use tower_chat_history_core::{ExchangeId, Message, Metadata};

use crate::report::{ReportHandle, ReportSender};

/// The options of one call. By default, input and reply are stored unchanged, under a generated id.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct CallOptions {
    /// The id of the exchange. Only one exchange is stored under an id, so a call with an id can be repeated safely.
    /// The default is a generated id.
    pub exchange: Option<ExchangeId>,
    /// The number of few-shot messages: messages that follow the leading system and developer messages, and are also
    /// part of the head. Adapters use it if a request has one list for head and input. The default is 0.
    pub few_shot_messages: usize,
    /// Your own data about the exchange, which is stored with it and never sent. The default is `None`.
    pub metadata: Option<Metadata>,
    pub(crate) stored: Stored,
    pub(crate) report: Option<ReportSender>,
}

/// The part of the exchange that is stored.
#[derive(Clone, Debug, Default)]
pub(crate) enum Stored {
    /// Input and reply.
    #[default]
    Exchange,
    /// Nothing.
    Nothing,
    /// These messages in place of the input, and the reply.
    Instead(Vec<Message>),
}

impl CallOptions {
    /// Returns the defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the id of the exchange. Only one exchange is stored under an id, so a call with an id can be repeated
    /// safely: if the first attempt was stored, the repeated call fails with
    /// [`AlreadyRecorded`](crate::HistoryError::AlreadyRecorded) before the model is called. The default is a
    /// generated id.
    #[must_use]
    pub fn exchange(mut self, id: ExchangeId) -> Self {
        self.exchange = Some(id);
        self
    }

    /// Sets the number of few-shot messages: messages that follow the leading system and developer messages, and are
    /// also part of the head. They are sent first and never stored. The default is 0.
    #[must_use]
    pub const fn few_shot_messages(mut self, messages: usize) -> Self {
        self.few_shot_messages = messages;
        self
    }

    /// Sets your own data about the exchange, such as ids of a user interface or who asked. It is stored with the
    /// exchange, even if the reply breaks off, and returned with it. It is never sent. If the exchange id is already
    /// stored, the stored metadata stays. The default is none.
    ///
    /// ```
    /// use serde_json::json;
    /// use tower_chat_history::{
    ///     CallOptions, ConversationId, Engine, HistoryStoreExt, MemoryStore, Message, Metadata, Reply, TurnInput,
    /// };
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let engine = Engine::new(MemoryStore::new());
    /// let id = ConversationId::new(["acme", "user-42"])?;
    /// let metadata = Metadata::new(json!({"asked_by": "ann"}).to_string())?;
    /// let input = TurnInput::new(id.clone(), [Message::user("Hi!")]);
    /// let turn = engine.begin(input.options(CallOptions::new().metadata(metadata.clone()))).await?;
    /// turn.commit(Reply::new(Message::assistant("Hello."))).await?;
    ///
    /// let log = engine.store().conversation(&id).exchanges().await?;
    /// assert_eq!(log[0].exchange.metadata, Some(metadata));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// Disables storing for this call: the prompt contains the history, but the exchange is not stored.
    #[must_use]
    pub fn dont_store(mut self) -> Self {
        self.stored = Stored::Nothing;
        self
    }

    /// Sets the messages to store in place of the input. For example, the model may see a long prompt with retrieved
    /// documents, while only the short question is stored. These messages must be as valid in the conversation as the
    /// input. If the input answers open tool calls, they must answer these calls too; otherwise they must answer
    /// none.
    #[must_use]
    pub fn store_instead(mut self, input: impl IntoIterator<Item = Message>) -> Self {
        self.stored = Stored::Instead(input.into_iter().collect());
        self
    }

    /// Returns the options, and a handle that receives the turn's report. A stateless call has no report.
    #[must_use]
    pub fn with_report(mut self) -> (Self, ReportHandle) {
        let (sender, handle) = ReportHandle::new();
        self.report = Some(sender);
        (self, handle)
    }
}

impl fmt::Debug for CallOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallOptions")
            .field("exchange", &self.exchange)
            .field("few_shot_messages", &self.few_shot_messages)
            .field("metadata", &self.metadata)
            .field("stored", &self.stored)
            .finish_non_exhaustive()
    }
}
