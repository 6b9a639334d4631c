use std::{
    sync::atomic::{AtomicU32, Ordering},
    thread::{self, ThreadId},
};

use tower_chat_history_context::tokens::tokens_of;

use super::*;

/// Asserts that it runs on `thread`, or on another thread if `large` is set.
#[derive(Debug)]
struct AssertsThread {
    name: Arc<str>,
    thread: ThreadId,
    large: bool,
}

impl TokenCounter for AssertsThread {
    fn name(&self) -> Option<&Arc<str>> {
        Some(&self.name)
    }

    fn count_text(&self, text: &str) -> u32 {
        assert_ne!(text, "panic");
        assert_eq!(thread::current().id() != self.thread, self.large, "of {} bytes", text.len());
        1
    }
}

fn counting(large: bool) -> Counting {
    let counter = AssertsThread { name: "asserts_thread".into(), thread: thread::current().id(), large };
    Counting::new(&Arc::default(), Arc::new(counter))
}

#[tokio::test]
async fn large_texts_are_counted_on_another_thread() {
    for (bytes, large) in [(BLOCKING_THRESHOLD_BYTES / 4, false), (BLOCKING_THRESHOLD_BYTES, true)] {
        let messages = [Message::user("small"), Message::user("x".repeat(bytes))];
        let runtime = Handle::current();
        let counts = counting(large).exchange(&messages, Some(&runtime)).await.unwrap();
        assert_eq!((counts.counter.as_str(), counts.counts.as_slice()), ("asserts_thread", [5, 5].as_slice()));

        let mut request = RequestInfo::new();
        request.tools = Some("y".repeat(bytes));
        let fresh = [Message::user("x".repeat(bytes))];
        let parts = counting(large).prompt(&request, fresh.iter(), &messages, Some(&runtime)).await;
        assert_eq!((parts.input, parts.tools), (10, 1 + 3));
    }
}

#[tokio::test]
async fn many_small_texts_are_counted_on_another_thread() {
    for (texts, many) in [(200, false), (1_000, true)] {
        // Each has 50 bytes.
        let messages: Vec<Message> = (0..texts).map(|text| Message::user(format!("{text:022}"))).collect();
        assert!(messages.iter().all(|message| message.bytes() == 50));
        let runtime = Handle::current();
        let (cold, request) = (counting(many), RequestInfo::new());
        let parts = cold.prompt(&request, messages.iter(), &[], Some(&runtime)).await;
        assert_eq!(parts.window, 0, "the planner adds them");
        assert!(messages.iter().all(|message| message.tokens_by("asserts_thread") == Some(5)));
        let others = (0..texts).map(|text| Message::user(format!("{text:022}")));
        let counts = counting(many).exchange(&others.collect::<Vec<_>>(), Some(&runtime)).await.unwrap();
        assert_eq!(counts.counts, vec![5; texts]);
    }
}

#[test]
fn the_estimate_in_place_of_a_count_is_not_remembered() {
    let (counting, message) = (counting(false), Message::user("panic"));
    assert!(tokens_of(&counting, &message) > 0);
    assert_eq!((counting.counted(&message), message.tokens_by("asserts_thread")), (None, None));
}

#[tokio::test]
async fn known_counts_are_not_counted_again() {
    let messages: Vec<Message> = (0..1_000).map(|text| Message::user(format!("{text:022}"))).collect();
    let counts = counting(true).exchange(&messages, Some(&Handle::current())).await.unwrap();
    assert_eq!(counts.counts.len(), 1_000);
    // This counter refuses to run on another thread.
    counting(false).prompt(&RequestInfo::new(), messages.iter(), &[], Some(&Handle::current())).await;
}

/// Panics in every method that does not count.
#[derive(Debug)]
struct PanicsUnlessCounting;

impl TokenCounter for PanicsUnlessCounting {
    fn name(&self) -> Option<&Arc<str>> {
        panic!("name")
    }

    fn count_text(&self, _: &str) -> u32 {
        2
    }

    fn reply_priming(&self) -> u32 {
        panic!("reply_priming")
    }

    fn tools_priming(&self) -> u32 {
        panic!("tools_priming")
    }

    fn is_estimate(&self) -> bool {
        panic!("is_estimate")
    }

    fn is_ready(&self) -> bool {
        panic!("is_ready")
    }
}

#[tokio::test]
async fn panics_of_a_counter_do_not_reach_the_caller() {
    let counting = Counting::new(&Arc::default(), Arc::new(PanicsUnlessCounting));
    let messages = [Message::user("a")];
    for runtime in [None, Some(Handle::current())] {
        let parts = counting.prompt(&RequestInfo::new(), [].iter(), &messages, runtime.as_ref()).await;
        assert_eq!((parts.input, parts.tools), (6, u64::from(REPLY_PRIMING)));
        assert_eq!(counting.exchange(&messages, runtime.as_ref()).await, None, "it has no name");
    }
}

#[tokio::test]
async fn without_a_working_counter_estimates_are_used_and_no_counts_are_stored() {
    let messages = [Message::user("panic")];
    assert_eq!(counting(false).exchange(&messages, None).await, None);
    let parts = counting(false).prompt(&RequestInfo::new(), [].iter(), &messages, None).await;
    assert_eq!(parts.input, u64::from(ByteEstimate::new().count_message(&messages[0])));
}

#[tokio::test]
async fn equal_messages_of_two_exchanges_are_counted_once() {
    /// Counts its calls.
    #[derive(Debug)]
    struct CountsCalls(Arc<str>, AtomicU32);

    impl TokenCounter for CountsCalls {
        fn name(&self) -> Option<&Arc<str>> {
            Some(&self.0)
        }

        fn count_text(&self, _: &str) -> u32 {
            self.1.fetch_add(1, Ordering::Relaxed) + 1
        }
    }

    let counting = Counting::new(&Arc::default(), Arc::new(CountsCalls("counts_calls".into(), AtomicU32::new(0))));
    let first = counting.exchange(&[Message::assistant("ok")], None).await.unwrap();
    let second = counting.exchange(&[Message::assistant("ok")], None).await.unwrap();
    assert_eq!(first.counts, second.counts, "a second count would be higher");
}
