use std::{
    sync::atomic::{AtomicU32, Ordering},
    thread::{self, ThreadId},
};

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
        let counts = counting(large).exchange(&messages).await.unwrap();
        assert_eq!((&*counts.counter, counts.counts.as_slice()), ("asserts_thread", [5, 5].as_slice()));

        let mut request = RequestInfo::new();
        request.tools = Some("y".repeat(bytes));
        let fresh = [Message::user("x".repeat(bytes))];
        let parts = counting(large).prompt(&request, fresh.iter(), &messages).await;
        assert_eq!((parts.input, parts.tools), (10, 1 + 3));
    }
}

#[tokio::test]
async fn many_small_texts_are_counted_on_another_thread() {
    for (texts, many) in [(200, false), (1_000, true)] {
        // Each has 50 bytes.
        let messages: Vec<Message> = (0..texts).map(|text| Message::user(format!("{text:022}"))).collect();
        assert!(messages.iter().all(|message| message.bytes() == 50));
        let (cold, request) = (counting(many), RequestInfo::new());
        let parts = cold.prompt(&request, messages.iter(), &[]).await;
        assert_eq!(parts.window, 0, "the planner adds them");
        assert!(messages.iter().all(|message| message.tokens_by("asserts_thread") == Some(5)));
        let others = (0..texts).map(|text| Message::user(format!("{text:022}")));
        let counts = counting(many).exchange(&others.collect::<Vec<_>>()).await.unwrap();
        assert_eq!(counts.counts, vec![5; texts]);
    }
}

#[tokio::test]
async fn known_counts_are_not_counted_again() {
    let messages: Vec<Message> = (0..1_000).map(|text| Message::user(format!("{text:022}"))).collect();
    let counts = counting(true).exchange(&messages).await.unwrap();
    assert_eq!(counts.counts.len(), 1_000);
    // This counter refuses to run on another thread.
    counting(false).prompt(&RequestInfo::new(), messages.iter(), &[]).await;
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
    let first = counting.exchange(&[Message::assistant("ok")]).await.unwrap();
    let second = counting.exchange(&[Message::assistant("ok")]).await.unwrap();
    assert_eq!(first.counts, second.counts, "a second count would be higher");
}
