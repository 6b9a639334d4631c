//! The example of the glossary (`crates/tower-chat-history/docs/glossary.md`), step by step: what is stored,
//! at which revision, what is sent and what is reported.

use std::sync::Arc;

use futures_util::StreamExt as _;
use tests::{ABANDONED, CallKind, Chat, NO_REPLY, Storage, exchanges, over_every_store, prompt, request, short};
use tower_chat_history::{
    ConversationId, HistoryStore as _, InConversation, Message, TurnReport,
    report::TurnOutcome,
    store::{Load, Loaded, Revision, Seq},
};
use tower_chat_history_test::Reply;

over_every_store! {
    #[tokio::test]
    the_worked_log_with_unary_calls,
    the_worked_log_with_streaming_calls,
}

async fn the_worked_log_with_unary_calls(storage: Storage) {
    the_worked_log(&storage, CallKind::Unary).await;
}

async fn the_worked_log_with_streaming_calls(storage: Storage) {
    the_worked_log(&storage, CallKind::Stream).await;
}

/// A stored exchange: its position, its messages, and the exchange that it continues.
type Stored = (u64, Vec<String>, Option<u64>);

fn stored(seq: u64, messages: &[&str], continues: Option<u64>) -> Stored {
    (seq, messages.iter().map(|message| (*message).to_owned()).collect(), continues)
}

struct Conversation<'a> {
    storage: &'a Storage,
    chat: Chat,
    id: ConversationId,
    kind: CallKind,
}

impl Conversation<'_> {
    /// Makes a call of one of the two callers. Both send the same head with every call.
    async fn say(&self, input: impl IntoIterator<Item = Message>) -> Arc<TurnReport> {
        let messages = [Message::system("S")].into_iter().chain(input);
        let (call, report) = InConversation::new(self.id.clone(), request(messages)).with_report();
        match self.kind {
            CallKind::Unary => drop(self.chat.unary(call).await.unwrap()),
            CallKind::Stream => {
                let items: Vec<_> = self.chat.stream(call).await.unwrap().collect().await;
                assert!(items.iter().all(Result::is_ok));
            }
        }
        report.await.unwrap()
    }

    async fn log(&self) -> Vec<Stored> {
        let exchanges = exchanges(&self.storage.store, &self.id).await;
        let stored = exchanges.iter().map(|recorded| {
            let exchange = &recorded.exchange;
            (recorded.seq.get(), exchange.messages.iter().map(short).collect(), exchange.continues.map(Seq::get))
        });
        stored.collect()
    }

    async fn revision(&self) -> Option<Revision> {
        match self.storage.store.load(&self.id, Load::new()).await.unwrap() {
            Loaded::Window(window) => Some(window.revision),
            other => {
                assert!(other.is_absent());
                None
            }
        }
    }

    /// Returns the messages of the newest request, in the short form.
    fn sent(&self) -> Vec<String> {
        prompt(self.chat.llm.prompts().last().unwrap())
    }
}

/// Checks the report of a stored exchange.
fn assert_stored(report: &TurnReport, at: Revision, seq: u64, moved: bool) {
    let TurnOutcome::Stored { revision, seq: stored, moved: reported, incomplete: false } = report.outcome else {
        panic!("{:?}", report.outcome)
    };
    assert_eq!((revision, stored, reported), (at, Seq::new(seq), moved));
    assert_eq!((report.revision(), report.is_moved()), (Some(at), moved));
}

async fn the_worked_log(storage: &Storage, kind: CallKind) {
    let calls = Reply::calls([("x", "weather", "{\"city\":\"Oslo\"}"), ("y", "time", "not JSON")]);
    let replies =
        [Reply::text("a0"), calls, Reply::text("a3"), Reply::text("a2"), Reply::text("a4"), Reply::text("a5")];
    let talk = Conversation { storage, chat: Chat::new(storage, replies), id: storage.conversation(), kind };
    let (ox, oy) = (format!("tool x: {ABANDONED}"), format!("tool y: {ABANDONED}"));
    assert_eq!(talk.revision().await, None);

    // A: user u0, reply a0.
    let report = talk.say([Message::user("u0")]).await;
    assert_eq!(talk.sent(), ["system: S", "user: u0"]);
    let mut log = vec![stored(0, &["user: u0", "assistant: a0"], None)];
    assert_eq!(talk.log().await, log);
    let first = talk.revision().await.unwrap();
    assert_stored(&report, first, 0, false);

    // A: user u1, reply a1 that calls x and y. The turn is open.
    let report = talk.say([Message::user("u1")]).await;
    let mut sent = vec!["system: S", "user: u0", "assistant: a0", "user: u1"];
    assert_eq!(talk.sent(), sent);
    log.push(stored(1, &["user: u1", "assistant calls x,y: "], None));
    assert_eq!(talk.log().await, log);
    let open = talk.revision().await.unwrap();
    assert_ne!(open, first);
    assert_eq!(open.incarnation(), first.incarnation());
    assert_stored(&report, open, 1, false);
    assert_eq!(report.superseded_calls, 0);

    // A begins its continuation. It is slow.
    let release = talk.chat.hold_reply();
    let continuation = async { talk.say([Message::tool("x", "rx"), Message::tool("y", "ry")]).await };
    let others = async {
        talk.chat.reached(3).await;
        assert_eq!(talk.sent(), [&sent[..], &["assistant calls x,y: ", "tool x: rx", "tool y: ry"]].concat());
        assert_eq!(talk.log().await, log);
        assert_eq!(talk.revision().await, Some(open));

        // B: user u2 while the calls are open, reply a2. The calls count as abandoned.
        let report = talk.say([Message::user("u2")]).await;
        sent.extend(["assistant calls x,y: ", &ox, &oy, NO_REPLY, "user: u2"]);
        assert_eq!(talk.sent(), sent);
        log.push(stored(2, &["user: u2", "assistant: a2"], None));
        assert_eq!(talk.log().await, log);
        let superseding = talk.revision().await.unwrap();
        assert_ne!(superseding, open);
        assert_eq!(superseding.incarnation(), first.incarnation());
        assert_stored(&report, superseding, 2, false);
        assert_eq!(report.superseded_calls, 2);

        release.send(()).unwrap();
        superseding
    };
    let (report, superseding) = tokio::join!(continuation, others);

    // A commits. Its exchange answers the one at 1 and is stored at 3: it is moved.
    log.push(stored(3, &["tool x: rx", "tool y: ry", "assistant: a3"], Some(1)));
    assert_eq!(talk.log().await, log);
    let moved = talk.revision().await.unwrap();
    assert_ne!(moved, superseding);
    assert_eq!(moved.incarnation(), first.incarnation());
    assert_stored(&report, moved, 3, true);
    assert_eq!(report.superseded_calls, 0);
    assert!(exchanges(&storage.store, &talk.id).await[3].is_moved());

    // B: user u3. The results came late: they are in the log, but they are not sent.
    let report = talk.say([Message::user("u3")]).await;
    let mut sent = vec!["system: S", "user: u0", "assistant: a0", "user: u1", "assistant calls x,y: ", &ox, &oy];
    sent.extend([NO_REPLY, "user: u2", "assistant: a2", "assistant: a3", "user: u3"]);
    assert_eq!(talk.sent(), sent);
    log.push(stored(4, &["user: u3", "assistant: a4"], None));
    assert_eq!(talk.log().await, log);
    let last = talk.revision().await.unwrap();
    assert_ne!(last, moved);
    assert_eq!(last.incarnation(), first.incarnation());
    assert_stored(&report, last, 4, false);
    assert_eq!((report.messages_loaded, report.messages_sent, report.superseded_calls), (9, 11, 0));

    // Sent messages do not change: the next prompt begins with this one.
    talk.say([Message::user("u4")]).await;
    sent.extend(["assistant: a4", "user: u4"]);
    assert_eq!(talk.sent(), sent);
}
