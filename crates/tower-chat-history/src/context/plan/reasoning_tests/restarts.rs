//! Compactions of the provider, which stand for everything before them.

use tower_chat_history_core::{LoadLimit, MediaCompat};

use super::*;
use crate::context::plan::next_cut;

const UNLIMITED: u64 = u64::MAX / 4;

fn results(world: &World) -> Message {
    let json = SigningDialect::results(world.open().ids().map(|id| (id, "r")), None);
    Message::in_dialect(&SigningDialect, json).unwrap()
}

#[test]
fn a_compaction_that_lacks_an_exchange_does_not_hide_it() {
    let mut world = talk(2, UNLIMITED);
    world.step(&Step::Overtaken(vec![Reply::Compaction, Reply::Text])).unwrap();
    let window = prompt(&world);
    assert!(!window.iter().any(|message| message.index().restarts), "{window:?}");
    assert!(window.iter().any(|message| message.text() == "another caller's"));
    world.step(&Step::Ask(vec![Reply::Compaction, Reply::Text])).unwrap();
    assert!(prompt(&world)[0].index().restarts, "the next one has it");
}

#[test]
fn a_compaction_that_lacks_an_exchange_stays_out_after_a_cut_of_the_exchange() {
    let mut world = World::new(300);
    world.step(&Step::Overtaken(vec![Reply::Compaction, Reply::Calls(3), Reply::Calls(2)])).unwrap();
    world.step(&Step::Ask(vec![Reply::Calls(1), Reply::Thought])).unwrap();
    assert_eq!(world.cut().window_start, Seq::new(1), "the exchange that it lacks is not sent");
    let (plan, is_pinned) = world.plan(&[results(&world)]).unwrap();
    assert!(is_pinned && !plan.fit.restarts);
    let sent = &plan.fit.window;
    assert!(sent.iter().any(|message| message.bound().to_prefix), "the turn keeps its reasoning: {sent:?}");
}

#[test]
fn a_compaction_of_an_unknown_prompt_begins_no_prompt() {
    let mut world = talk(1, UNLIMITED);
    world.step(&Step::Ask(vec![Reply::Compaction, Reply::Text])).unwrap();
    let newest = world.log.last_mut().unwrap();
    let mut exchange = (*newest.exchange).clone();
    let provenance = exchange.provenance.as_mut().unwrap();
    (provenance.made_at, provenance.digests) = (None, PromptDigests::default());
    *newest = Recorded::new(newest.seq, exchange);
    assert!(!prompt(&world).iter().any(|message| message.index().restarts), "the log was not loaded");
}

#[test]
fn a_compaction_within_a_turn_leaves_the_turn_its_reasoning() {
    let mut world = talk(1, UNLIMITED);
    world.step(&Step::Ask(vec![Reply::Thought, Reply::Compaction, Reply::Thought, Reply::Calls(1)])).unwrap();
    world.step(&Step::Answer(vec![Reply::Thought, Reply::Calls(1)], false)).unwrap();
    world.step(&Step::Answer(vec![Reply::Thought, Reply::Text], false)).unwrap();
    assert_eq!(world.providers[0].counts().missing, 0);
    let (plan, _) = world.plan(&[user("and?")]).unwrap();
    assert!(plan.fit.restarts && plan.fit.window[0].index().restarts, "the next turn begins with it");
}

#[test]
fn the_newest_compaction_that_can_be_read_begins_the_prompt() {
    let mut world = talk(1, UNLIMITED);
    world.step(&Step::Ask(vec![Reply::Compaction, Reply::Text])).unwrap();
    world.step(&Step::Provider(true)).unwrap();
    world.step(&Step::Ask(vec![Reply::Compaction, Reply::Text])).unwrap();
    assert_eq!(prompt(&world).len(), 2, "the second provider's own");
    world.step(&Step::Provider(false)).unwrap();
    let window = prompt(&world);
    assert!(window[0].index().restarts && window.len() == 4, "the first provider's, and the text of both: {window:?}");
    assert_eq!(window.iter().filter(|message| message.index().restarts).count(), 1);
}

#[test]
fn a_prompt_that_begins_with_a_compaction_has_no_summary_and_lacks_its_question() {
    let mut world = talk(2, UNLIMITED);
    world.cut_elsewhere(true).unwrap();
    assert!(world.plan(&[user("and?")]).unwrap().0.summary_tokens > 0);
    world.step(&Step::Ask(vec![Reply::Compaction, Reply::Text])).unwrap();
    let (plan, _) = world.plan(&[user("and?")]).unwrap();
    assert_eq!(plan.summary_tokens, 0);
    assert_eq!((plan.fit.sent.first(), plan.fit.recallable_before), (Some(&Seq::new(4)), Seq::new(5)));
}

#[test]
fn a_turn_after_a_compaction_is_planned_under_the_stored_cut() {
    let mut world = talk(2, UNLIMITED);
    world.cut_elsewhere(true).unwrap();
    world.step(&Step::Ask(vec![Reply::Compaction, Reply::Text])).unwrap();
    world.step(&Step::Ask(vec![Reply::Thought, Reply::Calls(1)])).unwrap();
    let input = [results(&world)];
    let sent_under = world.log.last().unwrap().exchange.provenance.as_ref().unwrap().cut;
    assert_eq!((sent_under.covers_to, world.cut().covers_to), (Seq::FIRST, Seq::new(2)), "no summary was sent");
    assert_eq!(pinned(&world.window(world.cut()), &input, &world.request), None);
    world.cut_elsewhere(true).unwrap();
    assert!(
        pinned(&world.window(world.cut()), &input, &world.request).is_some(),
        "another cut waits for the end of the turn"
    );
}

#[test]
fn ids_and_compactions_are_no_reasoning() {
    let mut world = World::new(UNLIMITED);
    world.step(&Step::Ask(vec![Reply::Sealed, Reply::Compaction, Reply::Text])).unwrap();
    world.request.tools = Some("another".into());
    let reasoning = world.plan(&[user("and?")]).unwrap().0.fit.reasoning;
    assert_eq!((reasoning.left_out, reasoning.head_changed), (0, false), "nothing is bound to the head");
    world.step(&Step::Provider(true)).unwrap();
    let reasoning = world.plan(&[user("and?")]).unwrap().0.fit.reasoning;
    assert_eq!((reasoning.left_out, reasoning.head_changed), (1, false), "the compaction does not count");
}

#[test]
fn what_an_input_contains_is_bound_to_the_origin_of_its_call() {
    let mut other = talk(1, UNLIMITED);
    other.step(&Step::Ask(vec![Reply::Compaction, Reply::Text])).unwrap();
    let compaction = other.log[2].exchange.reply()[0].clone();
    let mut world = talk(2, UNLIMITED);
    world.call(vec![compaction.clone(), user("and?")], &[Reply::Text], false).unwrap();
    let window = prompt(&world);
    assert_eq!((&window[0], window.len()), (&compaction, 3), "with the question and the reply: {window:?}");
    world.step(&Step::Provider(true)).unwrap();
    let window = prompt(&world);
    assert!(!window.contains(&compaction) && window.len() > 8, "everything before it: {window:?}");
}

#[test]
fn the_cut_after_a_turn_depends_on_what_the_next_call_can_read() {
    let mut world = talk(6, UNLIMITED);
    world.step(&Step::Ask(vec![Reply::Compaction, Reply::Text])).unwrap();
    let cost = |message: &Message| message.bytes() as u64;
    let limits = CallLimits { context: 700, prompt: 700, reserve: 0, least_reply: None, ratio: 1.0 };
    let watermarks = Watermarks::new(Watermark::Percent(90), Watermark::Percent(50)).unwrap();
    let call = CallBudget { limits, sizes: PromptTokens::default() };
    let budget = FitBudget { call, watermarks, clear: None, trimmer: None, stores: true, cost: &cost };
    let window = world.window(world.cut());
    let cut = |provider: &str| {
        let origin = Origin::unknown().provider(provider);
        next_cut(&window, LoadLimit::default(), &budget, &origin, MediaCompat::new(), None)
    };
    assert_eq!(cut("one"), None, "the prompt begins with the compaction");
    assert!(cut("two").unwrap().window_start > Seq::FIRST);
}
