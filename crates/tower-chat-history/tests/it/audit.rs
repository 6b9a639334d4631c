//! Audited stores: which events they record, and what these contain.

use std::{
    error::Error as _,
    io,
    sync::{Arc, Mutex},
};

use tower_chat_history::{
    BoxError, ConversationId, Exchange, HistoryStore as _, HistoryStoreExt as _, MemoryStore, Message,
    audit::{Action, Audit, AuditEvent, AuditedStore, Refused, Subject},
    store::{
        Append, Erase as _, EraseExt as _, ExchangeId, Expect, Labels, LabelsVersion, List as _, Load, Prefix,
        Reseal as _, Seq, StoreError,
    },
};
use tower_chat_history_test::{FaultStore, Op};

type Events = Arc<Mutex<Vec<AuditEvent>>>;

fn audited<S>(inner: S) -> (AuditedStore<S>, Events) {
    let events = Events::default();
    let receiver = Arc::clone(&events);
    let record = move |event: &AuditEvent| receiver.lock().unwrap().push(event.clone());
    (AuditedStore::new(inner, Arc::new(record), "service"), events)
}

fn taken(events: &Events) -> Vec<AuditEvent> {
    std::mem::take(&mut *events.lock().unwrap())
}

fn id() -> ConversationId {
    ConversationId::new(["acme", "user-42"]).unwrap()
}

#[tokio::test]
async fn an_event_says_who_read_how_much() {
    let (store, events) = audited(MemoryStore::new());
    store.conversation(&id()).import([Message::user("secret"), Message::assistant("secret")]).await.unwrap();
    taken(&events);
    let anna = store.acting_as("anna").purpose("ticket 7");
    anna.read(&id(), Seq::FIRST, 10).await.unwrap();
    let [event] = taken(&events).try_into().unwrap();
    assert_eq!((&*event.actor, event.purpose.as_deref()), ("anna", Some("ticket 7")));
    assert_eq!((event.action, event.exchanges, event.done, event.error), (Action::Read, 1, true, None));
    assert_eq!(event.subject, Subject::Conversation(id()));
    let json = serde_json::to_value(&event).unwrap();
    assert_eq!((&json["action"], &json["conversation"]), (&"read".into(), &"acme/user-42".into()));
    store.load(&id(), Load::new()).await.unwrap();
    assert_eq!(&*taken(&events)[0].actor, "service", "the handle of the service is unchanged");
}

#[tokio::test]
async fn a_replacement_of_an_encrypted_form_is_recorded() {
    let (store, events) = audited(MemoryStore::new());
    let sealed = |exchange: &Exchange, text: &str| exchange.sealed_as(text.repeat(100)).unwrap();
    let exchange = Exchange::new(ExchangeId::generate(), [Message::user("u"), Message::assistant("a")]);
    let append = Append::new(Expect::Absent, sealed(&exchange, "1"));
    let incarnation = store.append(&id(), append).await.unwrap().revision.incarnation();
    taken(&events);
    for (from, done) in [("1", true), ("1", false)] {
        let (from, to) = (sealed(&exchange, from), sealed(&exchange, "2"));
        assert_eq!(store.reseal(&id(), incarnation, Seq::FIRST, &from, to).await.unwrap(), done);
        let [event] = taken(&events).try_into().unwrap();
        assert_eq!((event.action, event.exchanges, event.done), (Action::Reseal, u64::from(done), done));
        assert_eq!(event.subject, Subject::Conversation(id()));
    }
}

#[tokio::test]
async fn an_erasure_is_recorded_step_by_step_and_without_content() {
    let (store, events) = audited(MemoryStore::new());
    store.conversation(&id()).import([Message::user("secret"), Message::assistant("secret")]).await.unwrap();
    let listed = store.describe(&id()).await.unwrap().unwrap();
    let labels = Labels::new([("title", "secret")]).unwrap();
    store.set_labels(&id(), listed.revision.incarnation(), LabelsVersion::NONE, labels).await.unwrap();
    let acme: Prefix = "acme".parse().unwrap();
    store.erase_all(&acme).await.unwrap();
    let events = taken(&events);
    let last: Vec<_> = events[events.len() - 3..].iter().map(|event| (event.action, event.exchanges)).collect();
    assert_eq!(last, [(Action::Bar, 0), (Action::Erase, 1), (Action::Count, 0)]);
    assert_eq!(events.last().unwrap().subject, Subject::Under(acme));
    assert!(!format!("{events:?}").contains("secret"));
}

#[tokio::test]
async fn a_call_without_effect_is_not_done() {
    let (store, events) = audited(MemoryStore::new());
    let exchange = Exchange::new(ExchangeId::new("e").unwrap(), [Message::user("hi")]);
    for done in [true, false] {
        store.append(&id(), Append::new(Expect::AnyOrCreate, exchange.clone())).await.unwrap();
        let [event] = taken(&events).try_into().unwrap();
        assert_eq!((event.exchanges, event.done, event.error), (u64::from(done), done, None));
    }
    let revision = store.describe(&id()).await.unwrap().unwrap().revision;
    store.append(&id(), Append::new(Expect::AnyOrCreate, Exchange::new("f".parse().unwrap(), []))).await.unwrap();
    taken(&events);
    assert_eq!(store.erase_if(&id(), revision).await.unwrap(), None);
    assert!(!taken(&events)[0].done);
}

#[tokio::test]
async fn failed_and_cancelled_calls_are_recorded() {
    let inner = FaultStore::new(MemoryStore::new());
    let (store, events) = audited(inner.clone());
    inner.fail(Op::Delete, 1, tower_chat_history_test::Fault::Unavailable);
    assert!(store.delete(&id()).await.is_err());
    assert_eq!(taken(&events)[0].error, Some("unavailable"));
    let held = inner.hold(Op::Delete);
    let id = id();
    let mut call = tokio_test::task::spawn(store.delete(&id));
    assert!(call.poll().is_pending());
    held.reached(1).await;
    drop(call);
    assert_eq!(taken(&events)[0].error, Some("cancelled"));
}

/// An audit that admits only these actions.
struct Admits {
    actions: Vec<Action>,
    events: Events,
}

impl Audit for Admits {
    fn admit(&self, event: &AuditEvent) -> Result<(), BoxError> {
        assert_eq!((event.exchanges, event.error), (0, None), "there is no outcome yet");
        if self.actions.contains(&event.action) { Ok(()) } else { Err(io::Error::other("the disk is full").into()) }
    }

    fn record(&self, event: &AuditEvent) {
        self.events.lock().unwrap().push(event.clone());
    }
}

#[tokio::test]
async fn a_call_that_is_not_admitted_is_not_made() {
    let inner = MemoryStore::new();
    inner.conversation(&id()).import([Message::user("Hi"), Message::assistant("Hello")]).await.unwrap();
    let events = Events::default();
    let audit = Admits { actions: vec![Action::Read], events: Arc::clone(&events) };
    let store = AuditedStore::new(inner.clone(), Arc::new(audit), "service");
    let refused = store.delete(&id()).await.unwrap_err();
    assert_eq!(refused.to_string(), "the store failed: the audit did not admit the call: the disk is full");
    assert!(
        matches!(refused, StoreError::Backend { .. }) && refused.source().is_some_and(|source| source.is::<Refused>())
    );
    assert_eq!(taken(&events), [], "it is not recorded as a call");
    assert!(inner.describe(&id()).await.unwrap().is_some(), "nothing was deleted");
    store.read(&id(), Seq::FIRST, 10).await.unwrap();
    assert_eq!(taken(&events)[0].action, Action::Read);
}
