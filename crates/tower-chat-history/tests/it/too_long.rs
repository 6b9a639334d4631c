//! Prompts that are too long for the model, whose window is not known.

use tower_chat_history::{
    ContextBudget, ConversationId, Engine, HistoryOptions, MemoryStore, Message, Reply, TurnInput,
    refusal::{Remedy, TooLong},
    store::Usage,
};

/// A model that refuses prompts above its window.
struct Server {
    window: u64,
    /// The sizes that it states for a limit and a prompt.
    says: fn(u64, u64) -> TooLong,
    refused: usize,
}

impl Server {
    fn new(window: u64, says: fn(u64, u64) -> TooLong) -> Self {
        Self { window, says, refused: 0 }
    }

    fn tokens(messages: &[Message]) -> u64 {
        messages.iter().map(|message| message.text().len() as u64 / 3 + 6).sum()
    }
}

fn both(limit: u64, prompt: u64) -> TooLong {
    sizes(Some(limit), Some(prompt))
}

fn sizes(limit: Option<u64>, prompt: Option<u64>) -> TooLong {
    let mut sizes = TooLong::default();
    sizes.limit = limit.map(|tokens| u32::try_from(tokens).unwrap());
    sizes.prompt = prompt.map(|tokens| u32::try_from(tokens).unwrap());
    sizes
}

fn id() -> ConversationId {
    ConversationId::new(["acme", "long"]).unwrap()
}

fn input(text: &str, model: &str) -> TurnInput {
    let mut input = TurnInput::new(id(), [Message::user(text)]);
    input.request.model = Some(model.to_owned());
    input
}

/// Asks a question. Returns `false` if the caller gets the refusal, and the number of messages that were sent last.
async fn ask(engine: &Engine, server: &mut Server, model: &str, text: &str) -> (bool, usize) {
    let mut turn = engine.begin(input(text, model)).await.unwrap();
    loop {
        let tokens = Server::tokens(turn.context());
        let sent = turn.context().len();
        if tokens <= server.window {
            let mut reply = Reply::new(Message::assistant("An answer of a few words."));
            reply.usage = Some(Usage::new(tokens, 10));
            turn.commit(reply).await.unwrap();
            return (true, sent);
        }
        server.refused += 1;
        let remedy = Remedy::Shorten((server.says)(server.window, tokens));
        if !turn.remedy(&remedy, "400").await {
            turn.fail("400");
            return (false, sent);
        }
    }
}

fn question(at: usize) -> String {
    format!("Question {at}: {}", "tell me more about mice and cats; ".repeat(45))
}

#[tokio::test]
async fn each_question_is_answered_with_at_most_two_refusals_in_200_turns() {
    let wordings: [(&str, fn(u64, u64) -> TooLong); 6] = [
        ("both sizes", both),
        ("the limit", |limit, _| sizes(Some(limit), None)),
        ("the prompt", |_, prompt| sizes(None, Some(prompt))),
        ("no size", |_, _| TooLong::default()),
        ("a limit that is too small", |_, prompt| sizes(Some(1), Some(prompt))),
        ("a limit that is too large", |_, prompt| sizes(Some(1_000_000), Some(prompt))),
    ];
    for (name, says) in wordings {
        let engine = Engine::new(MemoryStore::new());
        let mut server = Server::new(8_192, says);
        let mut most = 0;
        for at in 0..200 {
            let (answered, sent) = ask(&engine, &mut server, "my-finetune", &question(at)).await;
            assert!(answered, "{name}: question {at}");
            most = most.max(sent);
        }
        assert!(server.refused <= 2, "{name}: {} refusals", server.refused);
        assert!(most > 20, "{name}: at most {most} messages were sent");
    }
}

#[tokio::test]
async fn a_small_model_does_not_shrink_the_window_of_a_large_one() {
    let engine = Engine::new(MemoryStore::new());
    let mut large = Server::new(100_000, both);
    let mut small = Server::new(4_096, both);
    for at in 0..40 {
        assert!(ask(&engine, &mut large, "large", &question(at)).await.0);
    }
    for at in 40..44 {
        let (answered, sent) = ask(&engine, &mut small, "small", &question(at)).await;
        assert!(answered && sent < 20, "{at}: {sent}");
    }
    let (answered, sent) = ask(&engine, &mut large, "large", "And now?").await;
    assert!(answered);
    assert_eq!(sent, 2 * 44 + 1, "the large model gets everything");
    assert_eq!((small.refused, large.refused), (1, 0));
}

#[tokio::test]
async fn a_history_of_many_windows_is_answered_at_once() {
    let engine = Engine::new(MemoryStore::new());
    let mut large = Server::new(10_000_000, both);
    for at in 0..200 {
        assert!(ask(&engine, &mut large, "large", &question(at)).await.0);
    }
    let mut small = Server::new(2_048, |_, _| TooLong::default());
    for at in 0..20 {
        assert!(ask(&engine, &mut small, "small", &question(at)).await.0, "{at}");
    }
    assert!(small.refused <= 12, "{}", small.refused);
}

#[tokio::test]
async fn an_input_that_is_too_long_by_itself_fails_and_the_next_one_is_answered() {
    let engine = Engine::new(MemoryStore::new());
    let mut server = Server::new(2_048, both);
    for at in 0..3 {
        assert!(ask(&engine, &mut server, "m", &question(at)).await.0);
    }
    assert!(!ask(&engine, &mut server, "m", &"x".repeat(30_000)).await.0);
    assert!(!ask(&engine, &mut server, "m", &"x".repeat(30_000)).await.0);
    let (answered, sent) = ask(&engine, &mut server, "m", "Hi").await;
    assert!(answered);
    assert_eq!(sent, 7, "nothing was forgotten");
}

#[tokio::test]
async fn a_budget_that_is_larger_than_the_deployment_s_window_is_corrected() {
    let options = HistoryOptions::new().context(ContextBudget::tokens(128_000));
    let engine = Engine::with_options(MemoryStore::new(), options);
    let mut server = Server::new(16_384, both);
    for at in 0..100 {
        assert!(ask(&engine, &mut server, "m", &question(at)).await.0, "{at}");
    }
    assert!(server.refused <= 2, "{}", server.refused);
}

#[tokio::test]
async fn a_first_call_has_no_remedy() {
    let engine = Engine::new(MemoryStore::new());
    let mut turn = engine.begin(input("Hi", "m")).await.unwrap();
    assert!(!turn.can_be_remedied());
    assert!(!turn.remedy(&Remedy::FewerBytes, "413").await);
}

/// A model whose replies end where its window ends.
async fn cut_reply(finish: &str, usage: Usage, max_output: Option<u32>) -> usize {
    let engine = Engine::new(MemoryStore::new());
    let mut sent = 0;
    for at in 0..3 {
        let mut input = input(&question(at), "m");
        input.request.max_output = max_output;
        let turn = engine.begin(input).await.unwrap();
        sent = turn.context().len();
        let mut reply = Reply::new(Message::assistant("A reply that"));
        reply.usage = Some(usage);
        reply.finish_reason = Some(finish.to_owned());
        turn.commit(reply).await.unwrap();
    }
    sent
}

#[tokio::test]
async fn a_reply_that_the_window_has_cut_off_lowers_the_limit() {
    for (finish, usage, max_output, expected) in [
        ("length", Usage::new(1_500, 548), None, 3),
        ("length", Usage::new(1_500, 540), Some(600), 1),
        ("model_context_window_exceeded", Usage::new(1_000, 37), None, 1),
        // The request's own limit, a limit of the server, and a whole reply.
        ("length", Usage::new(1_500, 548), Some(548), 5),
        ("length", Usage::new(1_500, 256), None, 5),
        ("stop", Usage::new(1_500, 548), None, 5),
    ] {
        assert_eq!(cut_reply(finish, usage, max_output).await, expected, "{finish} {usage:?} {max_output:?}");
    }
}

#[tokio::test]
async fn a_prompt_that_the_server_has_cut_off_is_reported() {
    let options = HistoryOptions::new().context(ContextBudget::tokens(128_000));
    let engine = Engine::with_options(MemoryStore::new(), options);
    for (at, (reported, is_cut)) in
        [(500, false), (1_000, false), (1_500, false), (1_400, true)].into_iter().enumerate()
    {
        let turn = engine.begin(input(&question(at), "m")).await.unwrap();
        let mut reply = Reply::new(Message::assistant("So."));
        reply.usage = Some(Usage::new(reported, 2));
        let report = turn.commit(reply).await.unwrap();
        assert_eq!(report.tokens.unwrap().cut_by_server, is_cut, "{at}");
    }
}
