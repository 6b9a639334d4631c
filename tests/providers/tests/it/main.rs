//! The signing provider: each refusal, and whole conversations.
#![allow(clippy::unwrap_used)] // Tests may unwrap.

mod contract;
mod dialect;

use test_providers::signing::{Refusal, Say, SigningDialect, SigningProvider};
use tower_chat_history_core::{CallId, Digest, Message, Space};

const F: Space = Space(0);
const G: Space = Space(1);
const USER: &str = r#"{"from":"user","text":"Hi"}"#;
const SYSTEM: &str = r#"{"from":"system","text":"Be brief."}"#;
const TEXT: &str = r#"{"from":"model","text":"Hello"}"#;
const PLAN: &str = r#"{"from":"model","plan":"first look","next":true}"#;
const UNKNOWN: &str = r#"{"from":"?","text":[1.50]}"#;

fn head() -> Digest {
    Digest::of(b"instructions and tools")
}

fn element(json: impl Into<String>) -> Message {
    Message::in_dialect(&SigningDialect, json).unwrap()
}

fn call(space: Space, id: &str) -> String {
    let kind = if space == F { "f" } else { "g" };
    format!(r#"{{"from":"model","call":{{"id":"{id}","kind":"{kind}","name":"look","input":"?"}}}}"#)
}

fn results(calls: &[(Space, &str)]) -> String {
    answer(calls, None)
}

fn answer(calls: &[(Space, &str)], text: Option<&str>) -> String {
    let ids: Vec<CallId> = calls.iter().map(|(space, id)| CallId::new(*space, *id)).collect();
    SigningDialect::results(ids.iter().map(|id| (id, "r")), text)
}

fn check<const N: usize>(prompt: [&str; N]) -> Result<(), Refusal> {
    SigningProvider::new("acme").check(head(), &prompt.map(element))
}

fn id(space: Space, id: &str) -> CallId {
    CallId::new(space, id)
}

#[test]
fn elements_without_contents_are_refused() {
    assert_eq!(check([]), Err(Refusal::Empty));
    assert_eq!(check([r#"{"from":"model"}"#]), Err(Refusal::SaysNothing { position: 0 }));
    assert_eq!(check([USER, r#"{"from":"user","results":[],"text":""}"#]), Err(Refusal::SaysNothing { position: 1 }));
    assert_eq!(check([USER, r#"{"from":"user","results":[],"text":"t"}"#]), Err(Refusal::EmptyField { position: 1 }));
    let blank_text = r#"{"from":"model","thinking":"t","signature":"","text":""}"#;
    assert_eq!(check([USER, blank_text]), Err(Refusal::EmptyField { position: 1 }));
}

#[test]
fn elements_that_are_not_in_the_format_are_refused() {
    let refused = SigningProvider::new("acme").check(head(), &[element(USER), Message::user("t")]);
    assert_eq!(refused, Err(Refusal::Unreadable { position: 1 }));
}

#[test]
fn system_elements_are_refused_after_the_beginning() {
    assert_eq!(check([SYSTEM, SYSTEM, USER]), Ok(()));
    assert_eq!(check([SYSTEM, USER, SYSTEM]), Err(Refusal::MisplacedSystem { position: 2 }));
    assert_eq!(check([TEXT, SYSTEM]), Err(Refusal::MisplacedSystem { position: 1 }));
}

#[test]
fn calls_without_results_are_refused() {
    let (x, y) = (call(F, "x"), call(G, "y"));
    let refused = |position, call| Err(Refusal::UnansweredCall { position, call });
    assert_eq!(check([USER, &x]), refused(2, id(F, "x")));
    assert_eq!(check([USER, &x, USER]), refused(2, id(F, "x")));
    assert_eq!(check([USER, &x, &y, &results(&[(F, "x")]), TEXT]), refused(4, id(G, "y")));
    assert_eq!(check([USER, &x, &y, &answer(&[(F, "x")], Some("t")), TEXT]), refused(3, id(G, "y")));
    // A text of the same reply does not come between.
    assert_eq!(check([USER, &x, TEXT, &y, &results(&[(G, "y"), (F, "x")])]), Ok(()));
    assert_eq!(check([USER, &x, UNKNOWN, &y, &results(&[(G, "y")]), UNKNOWN, &results(&[(F, "x")])]), Ok(()));
}

#[test]
fn results_without_open_call_are_refused() {
    let x = call(F, "x");
    let refused = |position| Err(Refusal::UnknownCall { position, call: id(F, "x") });
    assert_eq!(check([USER, &results(&[(F, "x")])]), refused(1));
    assert_eq!(check([USER, &x, &results(&[(F, "x"), (F, "x")])]), refused(2));
    assert_eq!(check([USER, &x, &results(&[(F, "x")]), TEXT, &results(&[(F, "x")])]), refused(4));
    assert_eq!(check([USER, &x, &x, &results(&[(F, "x"), (F, "x")])]), Ok(()));
}

#[test]
fn results_of_another_kind_are_refused() {
    let (f, g) = (call(F, "x"), call(G, "x"));
    let wrong = Refusal::WrongKind { position: 2, call: id(G, "x") };
    assert_eq!(check([USER, &f, &results(&[(G, "x")])]), Err(wrong));
    assert_eq!(check([USER, &f, &g, &results(&[(G, "x"), (F, "x")])]), Ok(()));
}

#[test]
fn texts_before_results_are_refused() {
    let (x, y) = (call(F, "x"), call(F, "y"));
    let late = results(&[(F, "y")]);
    let refused = Err(Refusal::TextBeforeResults { position: 3 });
    assert_eq!(check([USER, &x, &y, &answer(&[(F, "x")], Some("t")), &late]), refused);
    assert_eq!(check([USER, &x, &y, &late, &answer(&[(F, "x")], Some("t"))]), Ok(()));
}

#[test]
fn plans_without_a_next_element_are_refused() {
    let x = call(F, "x");
    for prompt in [[USER, PLAN, USER], [USER, UNKNOWN, PLAN]] {
        let position = prompt.iter().position(|json| *json == PLAN).unwrap();
        assert_eq!(check(prompt), Err(Refusal::MissingNext { position }));
    }
    assert_eq!(check([USER, &x, PLAN, &results(&[(F, "x")])]), Err(Refusal::MissingNext { position: 2 }));
    assert_eq!(check([USER, PLAN, PLAN, &x, &results(&[(F, "x")])]), Ok(()));
    assert_eq!(check([USER, PLAN, UNKNOWN, USER]), Ok(()));
}

/// Returns a prompt with a signed thought at position 1 and another one at position 4.
fn signed() -> (SigningProvider, Vec<Message>) {
    let mut provider = SigningProvider::new("acme");
    let mut prompt = vec![element(USER)];
    let script = [Say::Thought("one".into()), Say::Text("a".into())];
    prompt.extend(provider.reply(head(), &prompt, &script).unwrap());
    prompt.push(element(USER));
    prompt.extend(provider.reply(head(), &prompt, &[Say::ThoughtAndText("two".into(), "b".into())]).unwrap());
    (provider, prompt)
}

#[test]
fn signatures_are_refused_after_another_prompt() {
    let (provider, prompt) = signed();
    let refused = |position| Err(Refusal::InvalidSignature { position });
    assert_eq!(provider.check(head(), &prompt), Ok(()));
    assert_eq!(provider.check(Digest::of(b"other tools"), &prompt), refused(1));
    assert_eq!(provider.check(head(), &prompt[1..]), refused(0));
    assert_eq!(SigningProvider::new("other").check(head(), &prompt), refused(1));
    for (position, changed) in [(0, USER.replace("Hi", "Ho")), (3, USER.replace("Hi", "Ho"))] {
        let mut prompt = prompt.clone();
        prompt[position] = element(changed);
        assert_eq!(provider.check(head(), &prompt), refused(position + 1));
    }
    let mut other_thinking = prompt.clone();
    other_thinking[4] = element(prompt[4].json().replace("two", "three"));
    assert_eq!(provider.check(head(), &other_thinking), refused(4));
    let unsigned = [element(USER), element(r#"{"from":"model","thinking":"t"}"#)];
    assert_eq!(provider.check(head(), &unsigned), refused(1));
    assert_eq!(provider.without_signatures().check(head(), &unsigned), Ok(()));
}

#[test]
fn without_earlier_reasoning_later_signatures_do_not_fit() {
    let (provider, mut prompt) = signed();
    assert_eq!(prompt[1].unbound(), None);
    prompt.remove(1);
    assert_eq!(provider.check(head(), &prompt), Err(Refusal::InvalidSignature { position: 3 }));
    prompt[3] = prompt[3].unbound().unwrap().clone();
    assert_eq!(provider.check(head(), &prompt), Ok(()));
}

#[test]
fn signatures_do_not_cover_marks() {
    let (provider, mut prompt) = signed();
    let marked = r#"{"from":"user","mark":{"kept":"1h"},"text":"Hi"}"#;
    assert_eq!(element(marked).digest(), element(USER).digest());
    prompt[0] = element(marked);
    assert_eq!(provider.check(head(), &prompt), Ok(()));
}

#[test]
fn seals_of_other_providers_are_refused() {
    let prompt = [element(USER), element(r#"{"from":"model","sealed":"x","by":"acme"}"#)];
    assert_eq!(SigningProvider::new("acme").check(head(), &prompt), Ok(()));
    let other = SigningProvider::new("other");
    assert_eq!(other.check(head(), &prompt), Err(Refusal::ForeignSeal { position: 1 }));
    assert_eq!(other.without_signatures().check(head(), &prompt), Ok(()));
}

#[test]
fn a_whole_conversation_is_accepted_and_counted() {
    let mut provider = SigningProvider::new("acme");
    let call = |space, id: &str| Say::Call { space, id: id.into() };
    let mut prompt = vec![element(SYSTEM), element(USER)];
    let script = [
        Say::Thought("which tools?".into()),
        Say::Plan("both".into()),
        call(F, "x"),
        Say::Sealed("secret".into()),
        call(G, "x"),
    ];
    prompt.extend(provider.reply(head(), &prompt, &script).unwrap());
    assert_eq!(prompt.iter().skip(2).map(|element| element.tool_calls().len()).sum::<usize>(), 2);
    assert_eq!(provider.counts(), Default::default());

    prompt.push(element(results(&[(G, "x")])));
    prompt.push(element(answer(&[(F, "x")], Some("and quickly"))));
    let script = [Say::ThoughtAndText("so".into(), "There.".into()), Say::Unknown];
    prompt.extend(provider.reply(head(), &prompt, &script).unwrap());
    assert_eq!((provider.counts().sent, provider.counts().missing), (1, 0));

    prompt.push(element(USER));
    provider.reply(head(), &prompt, &[]).unwrap();
    assert_eq!((provider.counts().sent, provider.counts().missing), (3, 0));
    let cut: Vec<Message> = prompt.iter().filter_map(|element| element.unbound().cloned()).collect();
    provider.reply(head(), &cut, &[]).unwrap();
    assert_eq!((provider.counts().sent, provider.counts().missing), (3, 2));
    // A refused prompt does not count.
    assert!(provider.reply(head(), &prompt[2..], &[]).is_err());
    assert_eq!((provider.counts().sent, provider.counts().missing), (3, 2));
}
