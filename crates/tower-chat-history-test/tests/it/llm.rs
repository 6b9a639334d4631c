//! `MockLlm` as a tower service.

use std::time::Duration;

use async_openai::{
    error::OpenAIError,
    types::chat::{
        ChatCompletionMessageToolCalls, ChatCompletionRequestToolMessage, ChatCompletionRequestUserMessage,
        ChatCompletionStreamOptions, CreateChatCompletionRequest, CreateChatCompletionStreamResponse, FinishReason,
    },
};
use futures_util::StreamExt;
use tokio::time::Instant;
use tower::{Service, ServiceExt};
use tower_chat_history_core::{Role, Usage};
use tower_chat_history_test::{ApiFailure, Choice, MockChat, MockChatStream, MockLlm, Reply, rules};

fn request(text: &str) -> CreateChatCompletionRequest {
    let message = ChatCompletionRequestUserMessage::from(text).into();
    CreateChatCompletionRequest { model: "gpt-mock".into(), messages: vec![message], ..Default::default() }
}

type Chunks = Vec<Result<CreateChatCompletionStreamResponse, OpenAIError>>;

async fn streamed(llm: &MockLlm, request: CreateChatCompletionRequest) -> Chunks {
    llm.stream().oneshot(request).await.unwrap().collect().await
}

fn text(chunks: &Chunks) -> String {
    let choices = chunks.iter().flatten().flat_map(|chunk| &chunk.choices);
    choices.filter_map(|choice| choice.delta.content.as_deref()).collect()
}

fn finish(chunks: &Chunks) -> Vec<FinishReason> {
    chunks.iter().flatten().flat_map(|chunk| &chunk.choices).filter_map(|choice| choice.finish_reason).collect()
}

fn api_error(error: OpenAIError) -> (u16, async_openai::error::ApiError) {
    match error {
        OpenAIError::ApiError(response) => (response.status_code.as_u16(), response.api_error),
        other => panic!("not an API error: {other}"),
    }
}

#[test]
fn handles_and_services_are_shareable_and_their_futures_send() {
    fn shareable<T: Clone + Send + Sync + 'static>() {}
    fn send<F: Future + Send + 'static>(_: F) {}
    shareable::<MockLlm>();
    shareable::<MockChat>();
    shareable::<MockChatStream>();
    let llm = MockLlm::script([]);
    send(llm.unary().call(request("Hi!")));
    send(llm.stream().call(request("Hi!")));
}

#[tokio::test]
async fn both_services_share_the_script_and_the_requests() {
    let llm = MockLlm::script([Reply::text("one"), Reply::text("and two")]);
    let whole = llm.unary().oneshot(request("a")).await.unwrap();
    assert_eq!(whole.choices[0].message.content.as_deref(), Some("one"));
    assert_eq!((whole.model.as_str(), whole.choices[0].finish_reason), ("gpt-mock", Some(FinishReason::Stop)));
    assert!(whole.usage.unwrap().prompt_tokens > 0);

    let chunks = streamed(&llm, request("b")).await;
    assert_eq!((text(&chunks).as_str(), finish(&chunks).as_slice()), ("and two", [FinishReason::Stop].as_slice()));

    assert_eq!(llm.requests().len(), 2);
    let prompts: Vec<_> = llm.prompts().iter().map(|prompt| prompt[0].text().into_owned()).collect();
    assert_eq!(prompts, ["a", "b"]);
    assert_eq!(llm.prompts_json()[1][0]["role"], "user");
    assert_eq!(llm.replies().left(), Some(0));
}

#[tokio::test]
async fn a_used_up_script_is_an_error_until_a_reply_is_added() {
    let llm = MockLlm::script([]);
    let (status, error) = api_error(llm.unary().oneshot(request("a")).await.unwrap_err());
    assert_eq!((status, error.code.as_deref()), (400, Some("script_used_up")));
    llm.replies().push(Reply::text("later"));
    assert!(llm.unary().oneshot(request("a")).await.is_ok());
}

#[tokio::test]
async fn rules_see_the_messages_of_the_request() {
    let llm = MockLlm::rules(rules::remembering());
    let mut request = request("my name is Nemo");
    request.messages.push(ChatCompletionRequestUserMessage::from("what is my name?").into());
    let whole = llm.unary().oneshot(request.clone()).await.unwrap();
    assert_eq!(whole.choices[0].message.content.as_deref(), Some("Your name is Nemo."));
    assert_eq!(text(&streamed(&llm, request).await), "Your name is Nemo.");
}

#[tokio::test]
async fn an_invalid_prompt_is_refused_and_uses_no_reply() {
    let mut invalid = request("a");
    let result = ChatCompletionRequestToolMessage { content: "x".into(), tool_call_id: "call_1".into() };
    invalid.messages.push(result.into());

    let llm = MockLlm::script([Reply::text("fine")]);
    let (status, error) = api_error(llm.unary().oneshot(invalid.clone()).await.unwrap_err());
    assert_eq!((status, error.param.as_deref()), (400, Some("messages.[1].tool_call_id")));
    assert_eq!(error.r#type.as_deref(), Some("invalid_request_error"));
    assert!(llm.stream().oneshot(invalid.clone()).await.is_err());
    assert_eq!((llm.requests().len(), llm.replies().left()), (2, Some(1)), "recorded, but not answered");

    assert!(llm.check_prompts(false).unary().oneshot(invalid).await.is_ok());
}

#[tokio::test]
async fn parallel_calls_are_sent_whole_or_in_deltas() {
    let calls = || Reply::calls([("call_1", "weather", r#"{"city":"Oslo"}"#), ("call_2", "time", "not JSON at all")]);
    let llm = MockLlm::script([calls(), calls()]);
    let choice = llm.unary().oneshot(request("a")).await.unwrap().choices.remove(0);
    assert_eq!((choice.message.content, choice.finish_reason), (None, Some(FinishReason::ToolCalls)));
    let whole = choice.message.tool_calls.unwrap().into_iter().map(|call| match call {
        ChatCompletionMessageToolCalls::Function(call) => (call.id, call.function.name, call.function.arguments),
        ChatCompletionMessageToolCalls::Custom(call) => panic!("a custom call: {}", call.id),
    });
    let whole: Vec<_> = whole.collect();
    assert_eq!(whole[1], ("call_2".into(), "time".into(), "not JSON at all".into()));

    let chunks = streamed(&llm, request("a")).await;
    let mut folded = vec![(String::new(), String::new(), String::new()); 2];
    for delta in chunks.iter().flatten().flat_map(|chunk| &chunk.choices).flat_map(|choice| &choice.delta.tool_calls) {
        for call in delta {
            let into = &mut folded[call.index as usize];
            let function = call.function.clone().unwrap();
            into.0.extend(call.id.clone());
            into.1.extend(function.name);
            into.2.extend(function.arguments);
        }
    }
    assert_eq!(folded, whole);
    assert_eq!(finish(&chunks), [FinishReason::ToolCalls]);
}

#[tokio::test]
async fn replies_have_several_choices_or_none() {
    let two = Reply::choices([Choice::text("heads"), Choice::refusal("no").finish("length")]);
    let llm = MockLlm::script([two.clone(), two, Reply::text("same"), Reply::no_choices(), Reply::no_choices()]);
    let whole = llm.unary().oneshot(request("a")).await.unwrap();
    assert_eq!(whole.choices[1].message.refusal.as_deref(), Some("no"));
    assert_eq!((whole.choices[1].index, whole.choices[1].finish_reason), (1, Some(FinishReason::Length)));
    assert_eq!(finish(&streamed(&llm, request("a")).await), [FinishReason::Stop, FinishReason::Length]);

    let three = llm.unary().oneshot(CreateChatCompletionRequest { n: Some(3), ..request("a") }).await.unwrap();
    assert_eq!(three.choices.len(), 3, "one choice is repeated `n` times");
    assert!(llm.unary().oneshot(request("a")).await.unwrap().choices.is_empty());
    assert!(streamed(&llm, request("a")).await.is_empty());
}

#[tokio::test]
async fn a_stream_has_usage_only_if_the_request_asks_for_it() {
    let reply = || Reply::text("a").usage(Usage::new(7, 3));
    let llm = MockLlm::script([reply(), reply()]);
    assert!(streamed(&llm, request("a")).await.iter().flatten().all(|chunk| chunk.usage.is_none()));

    let options = ChatCompletionStreamOptions { include_usage: Some(true), include_obfuscation: None };
    let with_usage = || CreateChatCompletionRequest { stream_options: Some(options), ..request("a") };
    let chunks = streamed(&llm, with_usage()).await;
    let last = chunks.last().unwrap().as_ref().unwrap();
    assert!(last.choices.is_empty());
    assert_eq!(last.usage.as_ref().map(|usage| (usage.prompt_tokens, usage.total_tokens)), Some((7, 10)));
}

#[tokio::test]
async fn an_empty_reply_has_no_content_and_an_unknown_finish_reason_is_an_error() {
    let unknown = || Reply::text("a").finish("end_turn");
    let llm = MockLlm::script([Reply::empty(), unknown(), unknown()]);
    assert_eq!(llm.unary().oneshot(request("a")).await.unwrap().choices[0].message.content, None);
    let error = llm.unary().oneshot(request("a")).await.unwrap_err();
    assert!(matches!(error, OpenAIError::JSONDeserialize(..)), "{error}");
    let chunks = streamed(&llm, request("a")).await;
    assert!(matches!(chunks.last(), Some(Err(OpenAIError::JSONDeserialize(..)))));
}

#[tokio::test]
async fn errors_are_those_of_the_client() {
    let llm = MockLlm::script([
        Reply::error(ApiFailure::context_length_exceeded()),
        Reply::error(ApiFailure::server_error()),
        Reply::text("lost").abort_after(1),
        Reply::text("failed").error_after(1, ApiFailure::new(503, "overloaded")),
    ]);
    let mut statuses = Vec::new();
    for _ in 0..2 {
        statuses.push(api_error(llm.stream().oneshot(request("a")).await.err().unwrap()));
    }
    assert_eq!((statuses[0].0, statuses[0].1.code.as_deref()), (400, Some("context_length_exceeded")));
    assert_eq!((statuses[1].0, statuses[1].1.code.as_deref()), (500, None), "the client does not parse 5xx bodies");
    let lost = llm.unary().oneshot(request("a")).await.unwrap_err();
    assert!(matches!(lost, OpenAIError::StreamError(_)), "{lost}");
    assert_eq!(api_error(llm.unary().oneshot(request("a")).await.unwrap_err()).0, 503);
}

#[tokio::test]
async fn streams_break_as_scripted() {
    let reply = || Reply::text("abcdef").chunk_chars(1);
    let failure = || ApiFailure::new(500, "overloaded");
    let llm = MockLlm::script([
        reply().end_after(3),
        reply().abort_after(3),
        reply().error_after(3, failure()),
        reply().passing_error_after(3, failure()),
    ]);
    let ended = streamed(&llm, request("a")).await;
    assert!(ended.iter().all(Result::is_ok) && finish(&ended).is_empty() && text(&ended) == "ab");

    let aborted = streamed(&llm, request("a")).await;
    assert!(matches!(aborted.last(), Some(Err(OpenAIError::StreamError(_)))) && text(&aborted) == "ab");

    let failed = streamed(&llm, request("a")).await;
    let Some(Err(OpenAIError::JSONDeserialize(_, event))) = failed.last() else { panic!("{failed:?}") };
    assert!(event.contains("overloaded") && failed.len() == 4);

    let passing = streamed(&llm, request("a")).await;
    assert!(passing[3].is_err() && text(&passing) == "abcdef" && finish(&passing).len() == 1);
}

#[tokio::test]
#[should_panic(expected = "on demand")]
async fn a_reply_may_panic() {
    let llm = MockLlm::script([Reply::panic("on demand")]);
    let _ = llm.unary().oneshot(request("a")).await;
}

#[tokio::test]
#[should_panic(expected = "on demand")]
async fn a_stream_may_panic_midway() {
    let llm = MockLlm::script([Reply::text("abc").panic_after(1, "on demand")]);
    let mut stream = llm.stream().oneshot(request("a")).await.unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    stream.next().await;
}

#[tokio::test(start_paused = true)]
async fn delays_follow_a_paused_clock() {
    let reply = || Reply::text("ab").chunk_chars(1).latency(Duration::from_secs(60));
    let llm = MockLlm::script([reply(), reply().chunk_delay(Duration::from_secs(5))]);
    let start = Instant::now();
    llm.unary().oneshot(request("a")).await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 60);
    let chunks = streamed(&llm, request("a")).await;
    assert_eq!((chunks.len(), start.elapsed().as_secs()), (4, 60 + 60 + 3 * 5));
}

#[tokio::test]
async fn a_contradicting_stream_field_is_refused_as_by_the_client() {
    let llm = MockLlm::script([Reply::text("a")]);
    let with_stream = |stream| CreateChatCompletionRequest { stream: Some(stream), ..request("a") };
    assert!(matches!(llm.unary().oneshot(with_stream(true)).await, Err(OpenAIError::InvalidArgument(_))));
    assert!(matches!(llm.stream().oneshot(with_stream(false)).await, Err(OpenAIError::InvalidArgument(_))));
    assert!(llm.stream().oneshot(with_stream(true)).await.is_ok());
    assert_eq!(llm.prompts()[0][0].role(), &Role::User);
}
