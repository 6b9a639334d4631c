//! Summaries during failures and concurrent calls: the turn takes precedence.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tower::{
    Layer as _, Service as _, ServiceBuilder, ServiceExt as _, limit::GlobalConcurrencyLimitLayer, service_fn,
};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, ContextBudget, ContextOptions, Engine, HistoryOptions, HistoryStore as _,
    InConversation, MemoryStore, Message, Policies, Reply, Retention, TurnInput,
    adapt::Custom,
    budget::Watermarks,
    policy::{OnConflict, QueueLimits},
    store::{CompactionVersion, Cut, Cuts, Load, Loaded, Profile, Seq},
    summary::{Summaries, SummarizeWhen, SummaryFormat, SummaryOutcome},
};
use tower_chat_history_test::{Fault as StoreFault, FaultStore, Op};

use super::support::{CollectedReports, Facts, Fault, context, id, mentions, options, turn};

/// A queued call holds no permit that the call before it needs.
#[tokio::test(start_paused = true)]
async fn serialized_calls_over_a_limit_of_one_do_not_deadlock() {
    let model = service_fn(|_: Vec<Message>| async {
        sleep(Duration::from_millis(50)).await;
        Ok::<_, BoxError>(Message::assistant("a".repeat(80)))
    });
    let adapter = Custom::messages(|messages: &mut Vec<Message>| messages).reply(|reply: &Message| reply.clone());
    let summaries = Summaries::new(Facts::new().taking(Duration::from_secs(1))).when(SummarizeWhen::BeforeCall);
    let options =
        options(summaries).policies(Policies::new().on_conflict(OnConflict::Serialize(QueueLimits::default())));
    let limited = ServiceBuilder::new().layer(GlobalConcurrencyLimitLayer::new(1)).service(model);
    let chat = ChatHistoryLayer::with_options(MemoryStore::new(), adapter, options).layer(limited);
    let calls = (0..16).map(|number| {
        let mut chat = chat.clone();
        tokio::spawn(async move {
            sleep(Duration::from_millis(10 * number)).await;
            let request = vec![Message::user(format!("{number} {}", "u".repeat(80)))];
            chat.ready().await.unwrap().call(InConversation::new(id(), request)).await.map(drop)
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap().unwrap();
    }
}

/// Parallel calls over the limit wait for one summary.
#[tokio::test(start_paused = true)]
async fn parallel_calls_share_one_summary() {
    let facts = Facts::new().taking(Duration::from_secs(1));
    let summaries = Summaries::new(facts.clone()).when(SummarizeWhen::BeforeCall);
    let context = context().summary_format(SummaryFormat::new("Summary: ", ""));
    let engine = Engine::with_options(MemoryStore::new(), options(summaries).context(context));
    for _ in 0..6 {
        turn(&engine, "question").await;
    }
    assert_eq!(facts.calls(), 0);
    let asked = (0..8).map(|_| engine.begin(TurnInput::new(id(), [Message::user("x".repeat(700))])));
    for begun in futures_util::future::join_all(asked).await {
        begun.unwrap();
    }
    assert_eq!(facts.calls(), 1);
}

/// A store that hangs or fails while a summary is made fails the summary, and not the turn.
#[tokio::test(start_paused = true)]
async fn a_store_that_fails_the_summary_does_not_fail_the_turn() {
    for hang in [true, false] {
        let store = FaultStore::new(MemoryStore::new());
        let (facts, collected) = (Facts::new(), CollectedReports::default());
        let summaries = Summaries::new(facts.clone()).when(SummarizeWhen::BeforeCall).on_summary(collected.hook());
        let engine = Engine::with_options(store.clone(), options(summaries));
        if hang {
            store.delay(Op::Compact, Duration::from_secs(1_000_000));
        }
        let mut held = 0;
        while facts.calls() == 0 {
            // The load after the summary is stored.
            if !hang {
                store.mend();
                store.pass(Op::Load, 1);
                store.fail(Op::Load, 1, StoreFault::Backend);
            }
            let before = Instant::now();
            turn(&engine, "question").await;
            assert!(before.elapsed() <= Duration::from_secs(61), "{:?}", before.elapsed());
            held += 1;
            assert!(held < 20);
        }
        store.mend();
        turn(&engine, "and now?").await;
        engine.drain(Duration::from_secs(100)).await.unwrap();
        let outcome = &collected.all()[0].outcome;
        assert_eq!(matches!(outcome, SummaryOutcome::Failed(_)), hang, "{outcome:?}");
    }
}

/// If the store is not available for a moment, a summary is stored after the pauses of a save.
#[tokio::test(start_paused = true)]
async fn a_summary_is_stored_after_pauses_if_the_store_was_unavailable() {
    let store = FaultStore::new(MemoryStore::new());
    let facts = Facts::new();
    let collected = CollectedReports::default();
    let summaries = Summaries::new(facts.clone()).when(SummarizeWhen::BeforeCall).on_summary(collected.hook());
    let engine = Engine::with_options(store.clone(), options(summaries));
    store.fail(Op::Compact, 2, StoreFault::Unavailable);

    for _ in 0..20 {
        let before = Instant::now();
        turn(&engine, "question").await;
        if facts.calls() > 0 {
            let pauses = before.elapsed();
            assert!((150..160).contains(&pauses.as_millis()), "50 and 100 ms: {pauses:?}");
            break;
        }
    }
    let outcome = &collected.all()[0].outcome;
    assert!(matches!(outcome, SummaryOutcome::Stored), "{outcome:?}");
}

/// Summaries are also made early under watermarks that count messages or turns.
#[tokio::test(start_paused = true)]
async fn no_turn_waits_under_watermarks_in_messages_or_turns() {
    for watermarks in [Watermarks::last_messages(8), Watermarks::last_turns(6)] {
        let facts = Facts::new().taking(Duration::from_secs(2));
        let options = HistoryOptions::new()
            .context(ContextOptions::new().watermarks(watermarks))
            .summaries(Summaries::new(facts.clone()));
        let engine = Engine::with_options(MemoryStore::new(), options);
        turn(&engine, "fact-nemo").await;
        for number in 0..60 {
            sleep(Duration::from_secs(5)).await;
            let before = Instant::now();
            let (context, report) = turn(&engine, &format!("question {number}")).await;
            assert!(report.summary.is_none() && before.elapsed().is_zero(), "turn {number}, {watermarks:?}");
            assert!(mentions(&context, "fact-nemo"), "turn {number}, {watermarks:?}");
        }
        assert!(facts.calls() > 5, "{}", facts.calls());
    }
}

/// The part that was summarized before a failure is kept, and only the messages that it covers leave the
/// window.
#[tokio::test(start_paused = true)]
async fn a_partly_failed_summary_keeps_its_finished_part() {
    let facts = Facts::new().failing(|call| if call == 1 { Fault::Error } else { Fault::None });
    let collected = CollectedReports::default();
    let summaries = Summaries::new(facts).max_tokens(100).chunk_tokens(400).on_summary(collected.hook());
    let budget = ContextBudget::tokens(1_500).reply_reserve(100);
    let options = HistoryOptions::new()
        .context(ContextOptions::new().budget(budget).watermarks(Watermarks::keep_recent(2)))
        .summaries(summaries);
    let store = MemoryStore::new();
    let engine = Engine::with_options(store.clone(), options);
    let mut part = None;
    for number in 0..40 {
        turn(&engine, &format!("fact-{number}")).await;
        engine.drain(Duration::from_secs(10)).await.unwrap();
        part = collected.all().into_iter().find(|report| matches!(report.outcome, SummaryOutcome::Part(_)));
        if part.is_some() {
            break;
        }
    }
    let part = part.expect("the second chunk failed");
    let Loaded::Window(window) = store.load(&id(), Load::new()).await.unwrap() else { unreachable!() };
    let cut = Cuts::read(&window.compaction.unwrap()).unwrap().cut;
    assert_eq!((cut.covers_to, cut.window_start), (part.to, part.to), "only summarized exchanges leave the window");
    let (context, _) = turn(&engine, "and now?").await;
    let known = context.iter().map(|message| message.text().into_owned()).collect::<String>();
    assert!((0..part.to.get()).all(|number| known.contains(&format!("fact-{number}"))));
}

/// Pruned exchanges are in no summary, and do not make later summaries fail.
#[tokio::test(start_paused = true)]
async fn pruned_exchanges_do_not_fail_summaries() {
    let facts = Facts::new().failing(|call| if call == 0 { Fault::Error } else { Fault::None });
    let collected = CollectedReports::default();
    let options = options(Summaries::new(facts).on_summary(collected.hook()));
    let engine = Engine::with_retention(MemoryStore::new(), options, Retention::LastTurns(2));
    for number in 0..40 {
        turn(&engine, &format!("question {number} {}", "w".repeat(300))).await;
        engine.drain(Duration::from_secs(10)).await.unwrap();
        sleep(Duration::from_secs(10)).await;
    }
    let failed = collected.all().into_iter().filter(|report| !report.is_summarized()).count();
    assert!(failed <= 1, "{:?}", collected.all());
}

/// A large question leaves out the summary.
#[tokio::test(start_paused = true)]
async fn a_question_that_fits_without_the_summary_is_not_refused() {
    let facts = Facts::new();
    let summaries = Summaries::new(facts.clone()).max_tokens(400).when(SummarizeWhen::BeforeCall);
    let options = HistoryOptions::new().context(ContextBudget::tokens(1_000).reply_reserve(250)).summaries(summaries);
    let engine = Engine::with_options(MemoryStore::new(), options);
    for number in 0..12 {
        let words: String = (0..40).map(|word| format!("fact-{number}-{word} ")).collect();
        turn(&engine, &words).await;
    }
    assert!(facts.calls() > 0);
    let input = TurnInput::new(id(), [Message::user("x".repeat(2_950))]);
    let large = engine.begin(input).await.unwrap();
    assert_eq!(large.context().len(), 1, "the summary is left out of this call");
    large.commit(Reply::new(Message::assistant("a"))).await.unwrap();
}

/// If another compaction is stored first, a summary that is stored with an exchange is added to that
/// compaction.
#[tokio::test]
async fn a_summary_is_added_to_a_compaction_stored_before_it() {
    let store = MemoryStore::new();
    let summaries = Summaries::new(Facts::new()).when(SummarizeWhen::BeforeEveryCall);
    let engine = Engine::with_options(store.clone(), options(summaries));
    for number in 0..3 {
        let input = TurnInput::new(id(), [Message::user(format!("fact-{number} {}", "u".repeat(80)))]);
        let turn = Engine::new(store.clone()).begin(input).await.unwrap();
        turn.commit(Reply::new(Message::assistant("a"))).await.unwrap();
    }
    let Loaded::Window(window) = store.load(&id(), Load::new()).await.unwrap() else { unreachable!() };
    let turn = engine.begin(TurnInput::new(id(), [Message::user("and now?")])).await.unwrap();

    let mut cut = Cut::window_from(Seq::new(2));
    cut.cleared_before = Seq::new(3);
    let first = Cuts::new(cut).compact(Profile::default(), CompactionVersion::NONE).unwrap();
    store.compact(&id(), window.revision.incarnation(), first).await.unwrap();
    turn.commit(Reply::new(Message::assistant("a"))).await.unwrap();

    let Loaded::Window(window) = store.load(&id(), Load::new()).await.unwrap() else { unreachable!() };
    let cut = Cuts::read(&window.compaction.unwrap()).unwrap().cut;
    assert_eq!((cut.window_start, cut.covers_to, cut.cleared_before), (Seq::new(3), Seq::new(3), Seq::new(3)));
    assert!(cut.summary.unwrap().text.contains("fact-0"));
}
