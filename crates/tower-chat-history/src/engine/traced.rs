//! A turn's spans, for whoever calls the model.

use tracing::Span;

use super::{Turn, turn::Begun};
use crate::{
    report::NotStored,
    telemetry::{CallOf, fail},
};

impl Turn {
    /// The turn's span: it ends with the turn. What is done for the turn in it, by whoever uses the engine without the layer,
    /// is seen within the turn.
    #[must_use]
    pub fn span(&self) -> &Span {
        &self.0.ending.span
    }

    /// Begins the span of the model's call, within the turn's: whoever calls the model does it in there. It ends with the
    /// [commit](Self::commit) of the reply, or with the last item of a [stream](Self::record_stream); a turn that is dropped
    /// before was cancelled. The layer does this by itself.
    ///
    /// ```
    /// use tracing::Instrument as _;
    /// # use tower_chat_history::{ConversationId, Engine, MemoryStore, Message, Reply, TurnInput};
    /// # async fn my_model(context: &[Message]) -> Result<Message, std::io::Error> { Ok(Message::assistant("Mice!")) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::new(MemoryStore::new());
    /// # let id = ConversationId::new(["acme", "user-42"])?;
    ///
    /// let mut turn = engine.begin(TurnInput::new(id, [Message::user("What does Tom chase?")])).await?;
    /// let span = turn.call_span();
    /// match my_model(turn.context()).instrument(span).await {
    ///     Ok(reply) => drop(turn.commit(Reply::new(reply)).await?),
    ///     Err(error) => turn.fail("my_model"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn call_span(&mut self) -> Span {
        let Begun { context, choices, request, ending, call, .. } = &mut *self.0;
        let of = CallOf {
            conversation: Some(&ending.report.conversation),
            request,
            choices: *choices,
            reply_limit: ending.report.tokens.and_then(|tokens| tokens.reply_limit),
            context,
            is_abridged: ending.report.abridged,
        };
        call.insert(ending.engine.recorder().call(&ending.span, &of)).called_in().clone()
    }

    /// Ends the turn since its call failed: nothing is stored, and the report says [so](NotStored::CallFailed). The spans of call
    /// and turn say what kind of error it was, by a constant name or a status code (`error.type`).
    pub fn fail(mut self, error_type: &str) {
        if let Some(call) = self.0.call.take() {
            call.failed(error_type);
        }
        fail(self.span(), error_type);
        self.0.ending.give_up(NotStored::CallFailed);
    }
}
