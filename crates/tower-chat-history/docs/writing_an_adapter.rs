use tower_chat_history::{
    BoxError, InConversation, Message, Reply, Role, TurnInput,
    adapt::{AdaptRequest, CallFacts, CallScope, Draft, ModelRequest, OpenedRequest, Prompt, Reading, ReadResponse},
    store::Usage,
};

/// A request of the client library.
#[derive(Clone, Debug, PartialEq)]
struct Ask {
    model: String,
    instructions: String,
    /// Earlier lines, such as `user: Hi`. Callers leave it empty.
    history: Vec<String>,
    question: String,
    max_tokens: Option<u32>,
}

/// A response of the client library.
struct Answer {
    text: String,
    input_tokens: u64,
    output_tokens: u64,
}

#[derive(Clone, Copy, Debug)]
struct AskAdapter;

/// A request that waits for its history.
struct AskDraft(Ask);

impl AdaptRequest<InConversation<Ask>> for AskAdapter {
    type Request = Ask;
    type Draft = AskDraft;

    async fn open(&self, call: InConversation<Ask>) -> Result<OpenedRequest<AskDraft, Ask>, BoxError> {
        let (scope, ask) = call.into_parts();
        let CallScope::Conversation(id, options) = scope else { return Ok(OpenedRequest::PassThrough(ask)) };
        let mut turn = TurnInput::new(id, [Message::user(&ask.question)]).options(options);
        turn.request.model = Some(ask.model.clone());
        turn.request.head = vec![Message::system(&ask.instructions)];
        turn.request.max_output = ask.max_tokens;
        Ok(OpenedRequest::Turn(turn, AskDraft(ask)))
    }
}

impl Draft for AskDraft {
    type Request = Ask;

    fn complete(self, prompt: Prompt<'_>) -> Result<ModelRequest<Ask>, BoxError> {
        let line = |message: &Message| format!("{}: {}", message.role().as_str(), message.text());
        let has_tools = |message: &&Message| *message.role() == Role::Tool || !message.tool_calls().is_empty();
        let history = prompt.window.iter().map(line).collect();
        let downgraded = prompt.window.iter().filter(has_tools).count();
        let max_tokens = self.0.max_tokens.map(|own| prompt.reply_limit.unwrap_or(own));
        Ok(ModelRequest::new(Ask { history, max_tokens, ..self.0 }, downgraded))
    }
}

impl ReadResponse<Answer> for AskAdapter {
    type Response = Answer;

    fn pass(&self, response: Answer) -> Answer {
        response
    }

    async fn read(&self, response: Answer, _call: CallFacts) -> Result<Reading<Answer>, BoxError> {
        let mut reply = Reply::new(Message::assistant(&response.text));
        reply.usage = Some(Usage::new(response.input_tokens, response.output_tokens));
        Ok(Reading::whole(response, reply))
    }
}
