use std::sync::mpsc;

use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_chat_history::{ChatHistoryLayer, ConversationId, MemoryStore};

#[tokio::test]
async fn the_second_request_has_the_first_exchange() -> Result<(), BoxError> {
    let (sender, requests) = mpsc::channel();
    let model = service_fn(move |ask: Ask| {
        sender.send(ask).unwrap();
        async { Ok::<_, BoxError>(Answer { text: "Hello!".into(), input_tokens: 9, output_tokens: 2 }) }
    });
    let chat = ChatHistoryLayer::new(MemoryStore::new(), AskAdapter).layer(model);
    let (model, instructions, question) = ("small".into(), "Be brief.".into(), "Hi".into());
    let ask = Ask { model, instructions, history: Vec::new(), question, max_tokens: Some(100) };
    let id = ConversationId::new(["tests"])?;
    for _ in 0..2 {
        chat.clone().oneshot(InConversation::new(id.clone(), ask.clone())).await?;
    }
    assert_eq!(requests.try_recv()?, ask);
    assert_eq!(requests.try_recv()?.history, ["user: Hi", "assistant: Hello!"]);
    Ok(())
}
