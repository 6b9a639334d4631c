//! Exchanges in another dialect than chat completions, in logs that are truncated, pruned, forked and compacted.

use tower_chat_history_core::{
    Append, Bound, CallId, Citation, Closes, Compact, CompactionVersion, Cut, Dialect, Digest, Exchange, ExchangeId,
    Expect, HistoryStoreExt, Index, Load, Loaded, Message, MessageError, Origin, Part, Profile, PromptDigests,
    Provenance, PruneTo, Recalled, Recorded, Role, Seq, Space, Summary, Timestamp, TokenCounts, ToolCall, Usage,
};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::DIALECT;

/// A dialect whose replies have several elements: signed reasoning, and calls in two spaces of ids. The first letter
/// after the bracket and the quotation mark is the kind of an element.
#[derive(Debug)]
struct Signed;

impl Dialect for Signed {
    fn name(&self) -> &'static str {
        "conformance/signed"
    }

    fn index(&self, json: &str) -> Result<Index, MessageError> {
        let call = |space| CallId::new(Space(space), "x");
        let mut index = Index::new(if json.starts_with("[\"u") { Role::User } else { Role::Assistant });
        index.closes = Closes::AfterResult;
        match json.get(..3) {
            Some("[\"r") => {
                (index.role, index.closes, index.answers) = (Role::Tool, Closes::Never, [call(0), call(1)].into());
            }
            Some("[\"c") => index.opens = [0, 1].map(|space| ToolCall::new(call(space), "look", "?")).into(),
            Some("[\"s") => index.bound = Bound::TO_PREFIX.and_next(),
            _ => {}
        }
        Ok(index)
    }

    fn parts<'m>(&self, message: &'m Message, visit: &mut dyn FnMut(Part<'m>)) {
        visit(Part::Text(message.json().into()));
    }

    fn compose(&self, role: &Role, text: &str) -> String {
        serde_json::Value::from_iter([role.as_str(), text]).to_string()
    }

    fn abandoned(&self, call: &CallId) -> String {
        self.compose(&Role::Tool, call.as_str())
    }

    fn cleared(&self, _: &Message, _: &dyn Fn(&CallId) -> bool, _: &str) -> Option<String> {
        None
    }
}

fn element(json: &str) -> Message {
    Message::in_dialect(&Signed, json).must("every text is an element", &CLAUSE)
}

/// Returns an exchange in which every field is set, with a reply of four elements. It continues the exchange at this
/// position, if there is one.
fn whole(text: &str, continues: Option<Seq>) -> Exchange {
    let input = if continues.is_some() { r#"["results", {"x" : "0"}, {"x":"1"}]"# } else { r#"["u","?"]"# };
    let signed = format!(r#"["signed","{text}","\u0000\ud83d", 1.50]"#);
    let elements = [input, &signed, r#"["says"]"#, r#"["calls","x","x"]"#, "\"unknown\""].map(element);
    let mut exchange = Exchange::new(ExchangeId::generate(), elements).with_reply_len(4);
    exchange.continues = continues;
    exchange.at = Timestamp::from_unix_millis(1_700_000_000_123);
    exchange.tokens = Some(TokenCounts { counter: "bytes".into(), counts: vec![1, 0, u32::MAX, 3, 4] });
    exchange.model = Some("ä \u{0}".into());
    exchange.finish_reason = Some("calls".into());
    exchange.usage = Some(with!(Usage::new(2, 3), cached_input_tokens: Some(1)));
    exchange.incomplete = true;
    let mut recalled = Recalled::new("", vec![Citation::new(Seq::FIRST, 0..2)]);
    (recalled.message, recalled.tokens) = (element(r#"["u", "<recalled>"]"#), Some(9));
    exchange.recalled = Some(recalled);
    let mut cut = with!(Cut::window_from(Seq::new(2)), summary: Some(Summary::new("", Seq::new(1))));
    (cut.rounds_start, cut.cleared_before) = (Seq::new(3), Seq::new(4));
    (cut.recalled_from, cut.reasoning_from, cut.encrypted_from) = (Seq::new(5), Seq::new(6), Seq::new(7));
    let origin = Origin::unknown().provider("p").route("r").account("a").model("m");
    let [head, prompt] = [text, "prompt"].map(|text| Digest::of(text.as_bytes()));
    let digests = Some(PromptDigests::new(head, prompt));
    exchange.provenance = Some(Box::new(Provenance::new(7, cut.positions(), origin).digests(digests)));
    exchange
}

/// Appends an exchange that opens a turn, one that continues it, and another one that opens a turn.
async fn add_three(chat: &Chat) -> Vec<Recorded> {
    let first = chat.add(whole("first", None)).await;
    let second = chat.add(whole("second", Some(first.seq))).await;
    vec![first, second, chat.add(whole("third", None)).await]
}

/// Asserts that the log is this one, however it is read.
async fn assert_log(fixture: &dyn Fixture, chat: &Chat, log: &[Recorded]) {
    for chat in [chat, &chat.reopened(fixture).await] {
        let read = chat.log().await;
        assert_eq!(read, log);
        assert_eq!(chat.window(Load::new()).await.exchanges, log);
        for (recorded, expected) in read.iter().zip(log) {
            let asked = Load::new().exchange(recorded.exchange.id.clone());
            assert_eq!(chat.load(asked).await, Loaded::AlreadyRecorded(expected.clone()));
            recorded.exchange.read_in(&Signed).must("the elements are those of the dialect", &CLAUSE);
            let [signed, _, calls, _] = recorded.exchange.reply() else { unexpected!("four elements", recorded) };
            assert_eq!((signed.bound(), calls.tool_calls().len()), (Bound::TO_PREFIX.and_next(), 2));
        }
    }
}

/// All fields of an exchange in an unknown dialect are returned together, also those that are stored next to its
/// record.
pub async fn every_field_of_an_exchange_comes_back(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = add_three(&chat).await;
    assert_log(fixture, &chat, &log).await;
}

/// A truncation removes the exchanges at the end, and does not change the others. The log continues in its dialect.
pub async fn a_truncation_leaves_the_others_unchanged(fixture: &dyn Fixture) {
    let edit = Editable::new(fixture).await;
    let mut log = add_three(&edit.chat).await;
    edit.keep(1).await;
    log.truncate(1);
    assert_log(fixture, &edit.chat, &log).await;
    log.push(edit.chat.add(whole("another second", Some(Seq::FIRST))).await);
    assert_log(fixture, &edit.chat, &log).await;
}

/// A prune removes the exchanges at the beginning, and does not change the others. If it erases derived data, the
/// others lose their provenance, and messages that were shown again from a removed exchange. Their elements, their
/// dialect and the length of the reply stay.
pub async fn a_prune_leaves_elements_unchanged(fixture: &dyn Fixture) {
    let prunable = Prunable::new(fixture).await;
    let chat = &prunable.chat;
    let mut log = vec![chat.add(whole("zeroth", None)).await];
    log.push(chat.add(whole("first", None)).await);
    log.push(chat.add(whole("second", Some(Seq::new(1)))).await);
    prunable.keep(PruneTo::From(Seq::new(1))).await;
    log.remove(0);
    assert_log(fixture, chat, &log).await;
    prunable.forget(PruneTo::From(Seq::new(1))).await;
    for recorded in &mut log {
        let mut without = (*recorded.exchange).clone();
        (without.provenance, without.recalled) = (None, None);
        *recorded = Recorded::new(recorded.seq, without);
    }
    assert_log(fixture, chat, &log).await;
}

/// A fork has the same elements, with the name of the dialect, the length of the reply, and the provenance. It has no
/// digests of prompts that began with a summary.
pub async fn a_fork_has_the_same_elements(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::FORK;
    let chat = Chat::new(fixture).await;
    let log = add_three(&chat).await;
    let copy = chat.other();
    let forked = chat.store.conversation(&chat.id).fork(Seq::new(2), &copy.id).await;
    assert_eq!(forked.must("the copy does not exist yet", &CLAUSE), 2);
    let copied = log[..2].iter().map(|Recorded { seq, exchange, .. }| {
        let mut exchange = (**exchange).clone();
        exchange.provenance = exchange.provenance.map(|provenance| Box::new(provenance.digests(None)));
        Recorded::new(*seq, exchange)
    });
    assert_log(fixture, &copy, &copied.collect::<Vec<_>>()).await;
}

/// A compaction that replaces another one takes no part of an exchange in an unknown dialect, and comes back with the
/// cut that it replaced. So does one that is stored with an exchange.
pub async fn a_replaced_cut_comes_back_with_the_exchanges(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = add_three(&chat).await;
    let cut = |to, text: &str| with!(summary_to(to, text), reasoning_from: Seq::new(2));
    let replaced = cut(0, "before \u{0}");
    let first = chat.cut(CompactionVersion::NONE, replaced.clone()).await;
    let second = Compact::new(Profile::default(), first.version, cut(2, "after")).replacing(Some(replaced));
    let outcome = chat.store.compact(&chat.id, chat.incarnation().await, second.clone()).await;
    let version = stored(Some(outcome.must("the compaction is legal", &CLAUSE)));
    for chat in [&chat, &chat.reopened(fixture).await] {
        let window = chat.window(Load::new()).await;
        assert_eq!((window.exchanges.as_slice(), window.compaction), (&log[2..], Some(second.stored_as(version))));
    }
    let third = Compact::new(Profile::default(), version, cut(3, "with an exchange")).replacing(Some(second.cut));
    let append = Append::new(Expect::AnyOrCreate, whole("fourth", None)).compact(third.clone());
    let appended = chat.store.append(&chat.id, append.clone()).await.must("the compaction is legal", &CLAUSE);
    let version = stored(appended.compaction);
    log.push(Recorded::new(appended.seq, append.exchange));
    for chat in [&chat, &chat.reopened(fixture).await] {
        let window = chat.window(Load::new()).await;
        assert_eq!((window.exchanges.as_slice(), window.compaction), (&log[3..], Some(third.stored_as(version))));
        assert_eq!(chat.log().await, log);
    }
}

/// A deleted conversation leaves nothing to one in another dialect that has its id.
pub async fn a_deleted_conversation_can_return_in_another_dialect(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::DELETED;
    let chat = Chat::new(fixture).await;
    let mut log = add_three(&chat).await;
    for _ in 0..2 {
        chat.delete().await;
        let in_chat_completions = chat.add_turns(2).await;
        assert_eq!(chat.log().await, in_chat_completions);
        chat.delete().await;
        log = add_three(&chat).await;
    }
    assert_log(fixture, &chat, &log).await;
}
