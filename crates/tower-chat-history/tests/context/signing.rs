//! Prompts in a dialect with all difficulties: replies of several elements, two spaces of calls, results next to a
//! text, signatures.

use proptest::prelude::*;
use test_providers::signing::{Refusal, Say, SigningDialect, SigningProvider};
use tower_chat_history::view::View;
use tower_chat_history_core::{
    CallId, Digest, Exchange, ExchangeId, Message, NewestRound, Recorded, Rounds, Seq, Space,
};

const IDS: [&str; 2] = ["x", "y"];

fn element(json: impl Into<String>) -> Message {
    Message::in_dialect(&SigningDialect, json).unwrap()
}

fn user(text: &str) -> Message {
    element(format!(r#"{{"from":"user","text":"{text}"}}"#))
}

fn model(text: &str) -> Message {
    element(format!(r#"{{"from":"model","text":"{text}"}}"#))
}

fn plan() -> Message {
    element(r#"{"from":"model","plan":"p","next":true}"#)
}

fn call(space: u8, id: &str) -> Message {
    let kind = ["f", "g"][usize::from(space)];
    element(format!(r#"{{"from":"model","call":{{"id":"{id}","kind":"{kind}","name":"n","input":"i"}}}}"#))
}

fn results(calls: &[(u8, &str)], text: Option<&str>) -> Message {
    let ids: Vec<CallId> = calls.iter().map(|(space, id)| CallId::new(Space(*space), *id)).collect();
    element(SigningDialect::results(ids.iter().map(|id| (id, "r")), text))
}

fn any_id() -> impl Strategy<Value = (u8, &'static str)> {
    (0u8..2, prop::sample::select(&IDS[..]))
}

/// Any element of any log: reused ids in both spaces, late, repeated and orphaned results, blank elements, plans that
/// nothing follows, elements of an unknown kind.
fn any_element() -> impl Strategy<Value = Message> {
    let odd = [
        r#"{"from":"user","text":""}"#,
        r#"{"from":"user","results":[]}"#,
        r#"{"from":"user","results":[],"text":"t"}"#,
        r#"{"from":"user","results":[{"to":"x","kind":"f","text":"r"}],"text":""}"#,
        r#"{"from":"model"}"#,
        r#"{"from":"model","text":""}"#,
        r#"{"from":"model","thinking":"t","signature":"s"}"#,
        r#"{"from":"model","thinking":"","signature":"s","text":""}"#,
        r#"{"from":"model","sealed":"s","by":"acme","next":true}"#,
        r#"{"from":"model","plan":"p","next":true,"call":{"id":"x","kind":"f","name":"n","input":"i"}}"#,
        r#"{"from":"?","results":[{"to":"x","kind":"f","text":"r"}]}"#,
    ];
    let text = prop::sample::select(vec![None, None, Some(""), Some("t")]);
    prop_oneof![
        2 => prop::sample::select(odd.map(element).to_vec()),
        1 => Just(user("u")),
        1 => Just(model("m")),
        1 => Just(plan()),
        4 => any_id().prop_map(|(space, id)| call(space, id)),
        4 => (prop::collection::vec(any_id(), 1..4), text).prop_map(|(calls, text)| results(&calls, text)),
    ]
}

/// Any exchange: of any elements, interrupted or not, and with any position that it continues.
fn any_exchange() -> impl Strategy<Value = Exchange> {
    let continues = prop::option::of((0u64..2).prop_map(Seq::new));
    (prop::collection::vec(any_element(), 0..6), any::<bool>(), continues).prop_map(
        |(messages, incomplete, continues)| {
            let mut exchange = exchange(messages);
            (exchange.incomplete, exchange.continues) = (incomplete, continues);
            exchange
        },
    )
}

fn any_log() -> impl Strategy<Value = Vec<Exchange>> {
    prop::collection::vec(any_exchange(), 0..8)
}

fn exchange(messages: impl IntoIterator<Item = Message>) -> Exchange {
    Exchange::new(ExchangeId::generate(), messages)
}

fn recorded(log: &[Exchange]) -> Vec<Recorded> {
    (0..).zip(log).map(|(seq, exchange)| Recorded::new(Seq::new(seq), exchange.clone())).collect()
}

fn view(log: &[Recorded]) -> View {
    let mut view = View::default();
    log.iter().for_each(|recorded| view.push_exchange(recorded));
    view
}

fn sent(elements: &[Message]) -> Vec<Message> {
    let mut view = View::default();
    view.extend(elements);
    view.into_messages()
}

/// Checks the structure of a prompt that is not empty.
fn check_structure(prompt: &[Message]) -> Result<(), Refusal> {
    let provider = SigningProvider::new("acme").without_signatures();
    if prompt.is_empty() { Ok(()) } else { provider.check(Digest::of(b"head"), prompt) }
}

#[test]
fn a_plan_before_plans_that_nothing_follows_is_left_out() {
    assert_eq!(sent(&[plan(), plan()]), []);
    assert_eq!(sent(&[plan(), element(r#"{"from":"model","text":""}"#), plan(), user("u")]), [user("u")]);
    assert_eq!(sent(&[plan(), plan(), model("m")]), [plan(), plan(), model("m")]);
}

#[test]
fn a_message_with_only_some_of_its_results_is_sendable() {
    let mixed =
        r#"{"from":"user","results":[{"to":"x","kind":"f","text":"r"},{"to":"y","kind":"f","text":"r"}],"text":""}"#;
    let log = [call(0, "x"), element(mixed)];
    assert_eq!(sent(&log), [call(0, "x"), results(&[(0, "x")], None)]);
}

#[test]
fn a_result_answers_calls_of_its_own_kind() {
    let log = [call(0, "x"), call(1, "x"), results(&[(1, "x")], None), model("m")];
    let abandoned = element(
        r#"{"from":"user","results":[{"to":"x","kind":"f","text":"[f: no result, this call was abandoned]"}]}"#,
    );
    assert_eq!(sent(&log), [log[0].clone(), log[1].clone(), log[2].clone(), abandoned, log[3].clone()]);
}

#[test]
fn an_interrupted_reply_to_results_of_both_kinds_is_replaced_by_its_repetition() {
    let both = results(&[(1, "x"), (0, "x")], Some("quickly"));
    let asked = exchange([user("u"), call(0, "x"), call(1, "x")]);
    let mut attempt = exchange([both.clone(), plan(), model("Th")]);
    attempt.incomplete = true;
    let again = exchange([both, model("There.")]);
    let sent = view(&recorded(&[asked.clone(), attempt, again.clone()]));
    assert_eq!(sent.into_messages(), [asked.messages, again.messages].concat());
}

#[test]
fn a_late_answer_to_earlier_calls_with_the_same_ids_replaces_no_attempt() {
    let asked = exchange([user("u"), call(0, "x")]);
    let again = exchange([results(&[(0, "x")], None), call(0, "x")]);
    let mut attempt = exchange([results(&[(0, "x")], None)]);
    attempt.continues = Some(Seq::new(1));
    let mut late = exchange([results(&[(0, "x")], None), model("Late.")]);
    late.continues = Some(Seq::new(0));
    let log = recorded(&[asked, again, attempt, late.clone()]);
    assert!(view(&log).into_messages().starts_with(view(&log[..3]).messages()));

    late.continues = Some(Seq::new(1));
    let repeated = [&log[..3], &[Recorded::new(Seq::new(3), late.clone())]].concat();
    let replaced = [&log[..2], &[Recorded::new(Seq::new(3), late)]].concat();
    assert_eq!(view(&repeated).into_messages(), view(&replaced).into_messages());
}

#[test]
fn calls_in_two_exchanges_of_one_round_are_listed() {
    let calls = [[call(0, "x"), call(1, "x")], [call(0, "y"), call(0, "x")]].map(exchange);
    let mut log = vec![exchange([user("u"), call(0, "y")])];
    log.extend(calls);
    log.push(exchange([results(&[(0, "x")], None)]));
    let log = recorded(&log);
    let newest = NewestRound::of(&log);
    let open: Vec<CallId> = newest.open_calls(&log).iter().map(|call| call.call_id().clone()).collect();
    assert_eq!(open, newest.open().ids().cloned().collect::<Vec<_>>());
    assert_eq!(open, [(0, "y"), (1, "x"), (0, "y"), (0, "x")].map(|(space, id)| CallId::new(Space(space), id)));
}

/// The end of a user's turn, and the reply.
#[derive(Clone, Debug)]
struct Step {
    /// `true` if the input is that of the step before.
    repeats: bool,
    /// `true` if all open calls are answered, the last one first.
    answers_all: bool,
    /// The kinds and ids of other results, which may be those of no call.
    others: Vec<(u8, &'static str)>,
    text: Option<&'static str>,
    script: Vec<Say>,
    incomplete: bool,
}

fn any_step() -> impl Strategy<Value = Step> {
    let say = prop_oneof![
        1 => Just(Say::Text("m".into())),
        2 => Just(Say::Thought("t".into())),
        1 => Just(Say::ThoughtAndText("t".into(), "m".into())),
        3 => any_id().prop_map(|(space, id)| Say::Call { space: Space(space), id: id.into() }),
        1 => Just(Say::Plan("p".into())),
        1 => Just(Say::Sealed("s".into())),
        1 => Just(Say::Unknown),
    ];
    let text = prop::sample::select(vec![None, None, Some("t")]);
    let others = prop_oneof![3 => Just(vec![]), 1 => prop::collection::vec(any_id(), 1..3)];
    let input = (prop::bool::weighted(0.2), prop::bool::weighted(0.7), others, text);
    (input, prop::collection::vec(say, 0..6), any::<bool>()).prop_map(|(input, script, incomplete)| {
        let (repeats, answers_all, others, text) = input;
        Step { repeats, answers_all, others, text, script, incomplete }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Invariant 2: valid for any log.
    #[test]
    fn the_view_of_any_log_has_a_valid_structure(log in any_log(), has_system: bool) {
        let mut view = View::default();
        if has_system {
            view.push(&element(r#"{"from":"system","text":"s"}"#));
        }
        for recorded in recorded(&log) {
            view.push_exchange(&recorded);
            let mut closed = view.clone();
            closed.close();
            prop_assert_eq!(check_structure(closed.messages()), Ok(()));
        }
    }

    /// Invariant 2: view(log + exchange) = view(log) + f(state, exchange), unless an exchange is replaced.
    #[test]
    fn the_view_of_a_longer_log_begins_with_the_view_of_the_shorter(log in any_log()) {
        let (log, mut rounds) = (recorded(&log), Rounds::default());
        for (len, last) in log.iter().enumerate() {
            let back_to = rounds.clone().begin(last).back_to;
            let (shorter, longer) = (view(&log[..len]), view(&log[..=len]));
            let kept = back_to.unwrap_or(shorter.messages().len());
            prop_assert!(kept <= shorter.messages().len());
            prop_assert!(longer.messages().starts_with(&shorter.messages()[..kept]));
            rounds.push_exchange(last);
            prop_assert_eq!(rounds.open(), longer.open());
        }
    }

    /// Invariant 2: an attempt that is replaced leaves no trace.
    #[test]
    fn an_exchange_that_is_replaced_is_as_if_it_had_not_been(log in any_log()) {
        let (log, mut rounds) = (recorded(&log), Rounds::default());
        for (len, last) in log.iter().enumerate() {
            if rounds.clone().begin(last).back_to.is_some() {
                let expected = view(&log[..=len]).into_messages();
                let parts_of = |at: usize| (1..=log[at].exchange.messages.len()).map(move |part| (at, part));
                let is_expected = |(at, part): (usize, usize)| {
                    let Recorded { seq, exchange: whole, .. } = &log[at];
                    let shortened = Recorded::new(*seq, exchange(whole.messages[..part].to_vec()));
                    let shorter = [&log[..at], &[shortened, last.clone()]].concat();
                    view(&shorter).into_messages() == expected
                };
                prop_assert!((0..len).flat_map(parts_of).any(is_expected));
            }
            rounds.push_exchange(last);
        }
    }

    #[test]
    fn the_open_calls_can_be_read_from_any_exchange_that_closes_calls(log in any_log()) {
        let log = recorded(&log);
        let expected = NewestRound::of(&log);
        let ids: Vec<CallId> = expected.open_calls(&log).iter().map(|call| call.call_id().clone()).collect();
        prop_assert_eq!(ids, expected.open().ids().cloned().collect::<Vec<_>>());
        for (from, first) in log.iter().enumerate() {
            if first.exchange.closes_open_calls() {
                let newest = NewestRound::of(&log[from..]);
                prop_assert_eq!(newest.open(), expected.open());
            }
        }
    }

    /// A view sends everything that was sent before, so that all signatures stay valid.
    #[test]
    fn replies_that_are_signed_over_a_view_stay_valid(steps in prop::collection::vec(any_step(), 1..12)) {
        let head = Digest::of(b"head");
        let mut provider = SigningProvider::new("acme");
        let (mut view, mut rounds) = (View::default(), Rounds::default());
        let (mut any_replaced, mut last_input) = (false, None);
        for (seq, step) in (0..).map(Seq::new).zip(steps) {
            let Step { repeats, answers_all, others, text, script, incomplete } = step;
            let open = view.open().clone();
            let answered = open.ids().filter(|_| answers_all).map(|id| (id.space().0, id.as_str()));
            let mut answered: Vec<(u8, &str)> = answered.collect();
            answered.reverse();
            answered.extend(others);
            let input = last_input.filter(|_| repeats).unwrap_or_else(|| results(&answered, text));
            last_input = Some(input.clone());
            let mut exchange = exchange([input]);
            let recorded = Recorded::new(seq, exchange.clone());
            let replaces = rounds.clone().begin(&recorded).back_to.is_some();
            let mut asked = view.clone();
            asked.push_exchange(&recorded);
            // An engine refuses an input that is not sent, or that answers only some of the calls.
            let is_sent = replaces || asked.messages().len() > view.messages().len() || asked.awaits_reply();
            if !is_sent || !asked.open().is_empty() {
                continue;
            }
            let reply = provider.reply(head, asked.messages(), &script);
            prop_assert!(reply.is_ok(), "{reply:?}");
            exchange.messages.extend(reply.unwrap());
            exchange.incomplete = incomplete;
            let recorded = Recorded::new(seq, exchange);
            any_replaced |= replaces;
            rounds.push_exchange(&recorded);
            view.push_exchange(&recorded);
        }
        prop_assert!(any_replaced || provider.counts().missing == 0);
    }
}
