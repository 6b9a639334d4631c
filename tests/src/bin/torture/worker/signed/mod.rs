//! One attempt to store an exchange in the signing dialect, through an engine.

mod prompt;

use test_providers::signing::{SigningDialect, SigningProvider};
use tower_chat_history::{
    BoxError, Engine, Message, Reply, TurnInput,
    dialect::{Dialect as _, Digest},
    store::{Origin, PromptDigests},
};

use super::{
    Worker,
    attempt::{Attempt, attempt_of},
};
use crate::{
    exchange::{Task, conversation_id},
    protocol::WorkerMessage,
    rng::SeededRng,
    signed::{Sent, input, script},
};

/// One call in this many has other tools, so that its head is another one.
const OTHER_TOOLS_ONCE_IN: u64 = 12;

impl Worker {
    /// Sends the input of an exchange in the signing dialect. `may_be_stored` is true if it was sent before.
    pub(super) async fn attempt_signed(
        &self,
        lane: usize,
        task: Task,
        may_be_stored: bool,
        rng: &mut SeededRng,
    ) -> Result<Attempt, BoxError> {
        // Some conversations stay with one engine, so that much reasoning is sent again. In the others, profiles and
        // providers change.
        let stays = task.conversation % 4 == 1;
        let number = if stays { task.conversation as usize / 4 } else { self.args.number as usize + lane };
        let mut call = TurnInput::new(conversation_id(task.conversation)?, input(task)?);
        call = call.exchange(task.name.exchange_id()?);
        let tools = if rng.once_in(OTHER_TOOLS_ONCE_IN) { "other tools" } else { "tools" };
        call.request.tools = Some(tools.to_owned());
        let (engine, origin) = self.layers.engine(number);
        match self.may_leave(self.turn(engine, origin, task, call), rng).await {
            None => Ok(Attempt::Failed("caller left".into())),
            Some(Ok(attempt)) => Ok(attempt),
            Some(Err(error)) => self.failed(task, may_be_stored, &error),
        }
    }

    /// Makes a turn. The provider checks the prompt, and signs its reply.
    async fn turn(&self, engine: &Engine, origin: &Origin, task: Task, call: TurnInput) -> Result<Attempt, BoxError> {
        let head = call.request.digest();
        let turn = engine.begin(call).await?;
        prompt::check(turn.window(), task.conversation)?;
        let mut provider = SigningProvider::new(origin.provider.as_deref().unwrap_or_default());
        let script = script(task)?;
        let reply = provider.reply(head, turn.context(), &script);
        let reply = reply.map_err(|refusal| format!("{refusal}, in the prompt {}", prompt::outline(turn.context())))?;
        let sent_again = turn.window().iter().filter(|message| message.bound().to_prefix).count();
        let made_after = (PromptDigests::new(head, digest(head, turn.context())), origin);
        let sum = Sent { input: turn.input(), reply: &reply, made_after }.sum();
        // From now on, the exchange may be stored.
        self.output.write(&WorkerMessage::Sent { task, sum })?;
        let report = turn.commit(Reply::of(reply)).await?;
        self.output.write(&WorkerMessage::Reasoning { sent_again, left_out: report.reasoning_left_out })?;
        Ok(attempt_of(&report.outcome))
    }
}

/// Returns the digest of a head and all that is sent after it.
fn digest(head: Digest, sent: &[Message]) -> Digest {
    sent.iter().fold(head, |digest, message| digest.then(SigningDialect.digest(message.json())))
}
