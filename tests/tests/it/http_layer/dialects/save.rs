//! A store that fails at the load or at the save.

use http::Response;
use test_providers::formats::Api;
use tests::{Storage, history_error, over_every_store};
use tower_chat_history::{
    HistoryError, HistoryOptions, Policies, StoreError, Unsaved,
    http::HistoryBody,
    policy::{OnLoadFailure, OnSaveFailure},
    report::TurnOutcome,
};
use tower_chat_history_test::{Fault, Op};

use super::Talk;

over_every_store! {
    #[tokio::test(start_paused = true)]
    down_at_load,
    down_at_save,
    down_at_save_for_a_moment,
}

async fn down_at_load(storage: Storage) {
    for api in Api::ALL {
        let talk = Talk::new(api, &storage);
        storage.store.fail(Op::Load, 1, Fault::Unavailable);
        let error = talk.call(&[&Api::user("u")], talk.whole("a")).await.err().unwrap();
        assert!(matches!(history_error(&error), HistoryError::Load(StoreError::Unavailable { .. })));
        assert_eq!(talk.calls(), 0);

        let policies = Policies::new().on_load_failure(OnLoadFailure::CallWithoutHistory);
        let talk = Talk::with_options(api, &storage, HistoryOptions::new().policies(policies));
        talk.ask(false, "u0", "a0").await;
        storage.store.fail(Op::Load, 1, Fault::Unavailable);
        talk.ask(true, "u1", "a1").await;
        talk.check_sent(true, &[Api::user("u1")]);
        talk.check_log(&storage, &[talk.turn("u0", "a0"), talk.turn("u1", "a1")].concat()).await;
    }
}

async fn down_at_save(storage: Storage) {
    for api in Api::ALL {
        for policy in [OnSaveFailure::Fail, OnSaveFailure::Report] {
            let options = HistoryOptions::new().policies(Policies::new().on_save_failure(policy));
            let talk = Talk::with_options(api, &storage, options);
            for answer in [talk.whole("a"), talk.streamed("a")] {
                storage.store.fail(Op::Append, 1, Fault::Backend);
                let fails = policy == OnSaveFailure::Fail && !answer.is_stream();
                match talk.call(&[&Api::user("u")], answer).await {
                    Ok(received) => {
                        assert!(!fails && received.error.is_none() && received.report().save_error().is_some());
                    }
                    Err(error) => {
                        let unsaved = error.downcast::<Unsaved<Response<HistoryBody>>>().unwrap();
                        assert!(fails && unsaved.into_response().status() == 200);
                    }
                }
            }
            talk.check_log(&storage, &[]).await;
        }
    }
}

async fn down_at_save_for_a_moment(storage: Storage) {
    for api in Api::ALL {
        for streams in [false, true] {
            let talk = Talk::new(api, &storage);
            storage.store.fail(Op::Append, 1, Fault::Unavailable);
            // It is stored, but the answer is lost. The next attempt finds it.
            storage.store.lose_answers(Op::Append, 1);
            let received = talk.ask(streams, "u", "a").await;
            assert!(matches!(received.report().outcome, TurnOutcome::Stored { .. }), "{api:?}");
            talk.check_log(&storage, &talk.turn("u", "a")).await;
        }
    }
}
